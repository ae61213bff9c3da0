"""Any MLflow project as an approach: it is given seeds, and what it logs is what a cell gives."""

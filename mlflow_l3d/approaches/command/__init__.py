"""Any command as an approach: it is given seeds, and writes predictions or metrics."""

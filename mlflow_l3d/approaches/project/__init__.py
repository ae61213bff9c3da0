"""Any MLflow project as an approach: it is given seeds, and what it logs is what a cell gives."""

from mlflow_l3d.approaches.project.approach import Project

__all__ = ["Project"]

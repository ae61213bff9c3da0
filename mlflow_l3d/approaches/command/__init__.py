"""Any command as an approach: it is given seeds, and writes predictions or metrics."""

from mlflow_l3d.approaches.command.approach import Command

__all__ = ["Command"]

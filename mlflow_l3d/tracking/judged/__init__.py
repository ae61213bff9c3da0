"""Evaluation runs of MLflow, whoever made them, as one table of judgements."""

from mlflow_l3d.tracking.judged.reading import is_evaluation, read_judged
from mlflow_l3d.tracking.judged.table import Judged

__all__ = ["Judged", "is_evaluation", "read_judged"]

"""Plug-ins that MLflow loads itself: an evaluator, a data set constructor and a data set source."""

# Whoever imports a module of this package before MLflow would start MLflow from within that module, and MLflow would
# then find it half made and leave it out. Started here, it finds the modules whole.
import mlflow  # noqa: F401

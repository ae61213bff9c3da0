"""Evaluations of GenAI apps: which luck a score has, and whether one version of an app is better than another."""

from mlflow_l3d.studies.genai.run import annotate, investigate
from mlflow_l3d.studies.judged.run import compare_evaluations as compare

__all__ = ["annotate", "compare", "investigate"]

"""In-context learning: a language model reads a prompt with labelled examples and answers with a class word."""

from mlflow_l3d.approaches.icl.approach import InContextLearning

__all__ = ["InContextLearning"]

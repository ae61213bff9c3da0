"""Meta-learning on a frozen encoder: Prototypical Networks, MAML, FOMAML, Reptile, many cells in one program."""

from mlflow_l3d.approaches.meta_learning.approach import MetaLearning

__all__ = ["MetaLearning"]

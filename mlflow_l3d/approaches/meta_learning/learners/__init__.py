"""The learners of `meta_learning`, each for many cells at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.approaches.meta_learning.learners.base import Learner
from mlflow_l3d.approaches.meta_learning.learners.maml import Maml
from mlflow_l3d.approaches.meta_learning.learners.protonet import ProtoNet
from mlflow_l3d.approaches.meta_learning.learners.reptile import Reptile
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.stacked.stack import Stack
from mlflow_l3d.errors import unknown_name

LEARNERS: Final[Mapping[str, type[Learner]]] = {
    "protonet": ProtoNet,
    "maml": Maml,
    "fomaml": Maml,
    "reptile": Reptile,
}
"""Name -> class."""

__all__ = ["LEARNERS", "Learner", "Stack", "learner_of"]


def learner_of(settings: Recipe) -> Learner:
    """Return the learner that complete hyperparameters describe.

    Raises
    ------
    ParameterError
        If there is none of that name.
    """
    if settings.learner not in LEARNERS:
        raise unknown_name("hyperparameters.learner", settings.learner, LEARNERS)
    return LEARNERS[settings.learner](settings)

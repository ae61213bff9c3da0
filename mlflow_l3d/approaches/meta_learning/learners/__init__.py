"""The learners of `meta_learning`, each for many cells at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.approaches.meta_learning.learners.base import Learner
from mlflow_l3d.approaches.meta_learning.learners.maml import Maml
from mlflow_l3d.approaches.meta_learning.learners.protonet import ProtoNet
from mlflow_l3d.approaches.meta_learning.learners.reptile import Reptile
from mlflow_l3d.approaches.meta_learning.recipe import Recipe

LEARNERS: Final[Mapping[str, type[Learner]]] = {"protonet": ProtoNet, "maml": Maml, "fomaml": Maml, "reptile": Reptile}
"""Name -> class."""


def learner_of(settings: Recipe) -> Learner:
    """Return the learner that complete hyperparameters describe."""
    return LEARNERS[settings.learner](settings)

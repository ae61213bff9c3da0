"""What a search of hyperparameters tries for `meta_learning`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.approaches.hyperparameters import Searched, SearchRange, Value

_META: Final[Mapping[tuple[str, str], SearchRange]] = {
    ("protonet", "sgd"): SearchRange(1e-3, 10.0, log=True),
    ("protonet", "adam"): SearchRange(1e-4, 1e-1, log=True),
    ("maml", "sgd"): SearchRange(1e-3, 1.0, log=True),
    ("maml", "adam"): SearchRange(1e-4, 1e-1, log=True),
    ("reptile", "sgd"): SearchRange(1e-3, 1.0, log=True),
    ("reptile", "adam"): SearchRange(1e-3, 1.0, log=True),
}
"""(learner, optimiser of the meta-steps) -> their learning rate; FOMAML has that of MAML."""
_INNER: Final[Mapping[str, SearchRange]] = {
    "sgd": SearchRange(1e-3, 1.0, log=True),
    "adam": SearchRange(1e-4, 1e-1, log=True),
}
"""Optimiser inside a task -> its learning rate."""


def search_space(hyperparameters: Mapping[str, Value]) -> dict[str, Searched]:
    """Return what is searched under complete hyperparameters, by learner.

    Prototypical Networks: rate of the meta-steps, epochs and tasks a step (20 combinations at level 1). The other
    learners: rate of the meta-steps, rate and number of the steps inside a task (32). Shots stay as they are: they are
    a systematic choice, as is what the learner is adapted on.
    """
    learner = str(hyperparameters["learner"])
    family = "maml" if learner == "fomaml" else learner
    rate = _META[family, str(hyperparameters["meta_optimizer"])]
    if learner == "protonet":
        return {
            "meta_learning_rate": rate,
            "epochs": SearchRange(3, 20, log=True, whole=True, coarse=(5, 15)),
            "tasks": SearchRange(4, 64, log=True, whole=True, coarse=(8, 32)),
        }
    return {
        "meta_learning_rate": rate,
        "inner_learning_rate": _INNER[str(hyperparameters["inner_optimizer"])],
        "inner_steps": SearchRange(1, 5, log=True, whole=True, coarse=(1, 3)),
    }

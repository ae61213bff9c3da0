"""What Pecher et al. (2024) published for meta-learning: the settings in their code, data set by data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mlflow_l3d.approaches.hyperparameters import Value


class _Settings(NamedTuple):
    """Numbers of one learner on one data set; `inner_learning_rate` is None where tasks have no steps of their own."""

    tasks: int
    steps: int
    epochs: int
    meta_learning_rate: float
    inner_learning_rate: float | None = None


_PUBLISHED: Final[Mapping[str, Mapping[str, _Settings]]] = {
    "protonet": {
        "cola": _Settings(4, 32, 5, 1e-4),
        "mrpc": _Settings(8, 66, 4, 5e-3),
        "sst2": _Settings(32, 32, 5, 1e-3),
    },
    "maml": {
        "cola": _Settings(14, 30, 5, 1e-3, 0.4),
        "mrpc": _Settings(14, 66, 16, 5e-4, 0.4),
        "sst2": _Settings(16, 64, 17, 2e-3, 0.2),
    },
    "reptile": {
        "cola": _Settings(2, 66, 10, 1e-2, 0.2),
        "mrpc": _Settings(32, 66, 9, 1e-2, 5e-4),
        "sst2": _Settings(10, 62, 5, 5e-3, 0.4),
    },
}
"""Learner -> task -> settings. The authors had no first-order MAML, and left multi-class data out."""
_OPTIMIZERS: Final[Mapping[str, tuple[str, str]]] = {
    "protonet": ("sgd", ""),
    "maml": ("adam", "sgd"),
    "reptile": ("sgd", "adam"),
}
"""Learner -> optimiser of the meta-steps, and of the steps inside a task."""


def published(task: str, given: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return the hyperparameters that the authors used for a task and a learner.

    Parameters
    ----------
    task
        Name of the task.
    given
        What the user gives beside them; ``learner`` decides, Prototypical Networks where it is not there.

    Returns
    -------
    dict or None
        None for another task, and for ``learner=fomaml``.
    """
    learner = str(given.get("learner", "protonet"))
    found = _PUBLISHED.get(learner, {}).get(task)
    if found is None:
        return None
    meta_optimizer, inner_optimizer = _OPTIMIZERS[learner]
    values: dict[str, Any] = {
        "learner": learner,
        "shots": 5,
        "adaptation_shots": 15,
        "tasks": found.tasks,
        "steps": found.steps,
        "epochs": found.epochs,
        "meta_learning_rate": found.meta_learning_rate,
        "meta_optimizer": meta_optimizer,
    }
    if found.inner_learning_rate is not None:
        values |= {"inner_learning_rate": found.inner_learning_rate, "inner_optimizer": inner_optimizer}
        values["inner_steps"] = 1
    return values

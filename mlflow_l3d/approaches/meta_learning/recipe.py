"""Hyperparameters of meta-learning: what they are, their values under `auto`, and which have an effect where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mlflow_l3d.approaches.hyperparameters import AUTO, Value, declared, hyperparameter

_META: Final = ("tasks", "steps", "epochs", "meta_learning_rate", "meta_optimizer")
_INNER: Final = ("inner_learning_rate", "inner_optimizer", "inner_steps")
_ROWS: Final[Mapping[str, tuple[Value, ...]]] = {
    "protonet": (32, 32, 5, 0.1, "sgd"),
    "maml": (16, 64, 17, 2e-3, "adam", 0.2, "sgd", 1),
    "fomaml": (16, 64, 17, 2e-3, "adam", 0.2, "sgd", 1),
    "reptile": (10, 62, 5, 0.3, "sgd", 1e-3, "adam", 1),
}
RECIPES: Final[Mapping[str, Mapping[str, Value]]] = {
    learner: dict(zip((*_META, *_INNER), row, strict=False)) for learner, row in _ROWS.items()
}
"""Learner -> the settings for SST-2 of the authors of Pecher et al. 2024; those of MAML for FOMAML, which they lack.

For Prototypical Networks and Reptile they step after every task, these on the mean of a batch, and so with rates of our
own. With theirs (1e-3; 5e-3, and 0.4 inside a task) steps on means barely move Prototypical Networks, and leave Reptile
near chance. Ours are the best of those tried on the validation parts of six cells; on those of twenty, steps after
every task are no better at any rate tried (docs/how-to/meta-learning.md).
"""
NO_EFFECT: Final[Mapping[str, tuple[str, ...]]] = {"protonet": (*_INNER, "adaptation_steps"), "reptile": ("queries",)}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters by name and type; what each means.

    `queries` is 0 for Reptile; Prototypical Networks have 0 inner and adaptation steps.
    """

    learner: Literal["protonet", "maml", "fomaml", "reptile"] = hyperparameter(
        "protonet", "protonet: distances to class means; maml, fomaml, reptile: weights to start from"
    )
    shots: int = hyperparameter(5, "examples of each class in the support set of a training task", low=1, high=1000)
    queries: int = hyperparameter(5, "examples of each class in its query set; reptile has none", low=1, high=1000)
    adaptation_shots: int = hyperparameter(
        15, "examples of each class that the trained learner is adapted on", low=1, high=10_000
    )
    tasks: int = hyperparameter(
        AUTO, "tasks a meta-step takes the mean of; auto is 32 protonet, 16 maml, 10 reptile", low=1, high=10_000
    )
    steps: int = hyperparameter(
        AUTO, "meta-steps an epoch; auto is 32 protonet, 64 maml, 62 reptile", low=1, high=100_000
    )
    epochs: int = hyperparameter(AUTO, "epochs; auto is 5, for maml and fomaml 17", low=1, high=1000)
    meta_learning_rate: float = hyperparameter(
        AUTO, "auto is 0.1 protonet, 2e-3 maml, 0.3 reptile", low=1e-8, high=100.0, log=True
    )
    meta_optimizer: Literal["auto", "adam", "sgd"] = hyperparameter(AUTO, "auto is adam for maml and fomaml, else sgd")
    inner_learning_rate: float = hyperparameter(
        AUTO, "of the steps inside a task; auto is 0.2 maml, 1e-3 reptile", low=0.0, high=1000.0, log=True
    )
    inner_optimizer: Literal["auto", "sgd", "adam"] = hyperparameter(
        AUTO, "auto is sgd for maml and fomaml, adam for reptile"
    )
    inner_steps: int = hyperparameter(AUTO, "steps inside a training task; auto is 1", low=1, high=100)
    adaptation_steps: int = hyperparameter(
        AUTO, "steps on the adaptation examples; auto is inner_steps", low=0, high=10_000
    )
    hidden_units: int = hyperparameter(128, "units of the dense layer", low=1, high=8192, log=True)
    dropout: float = hyperparameter(0.0, "probability of dropout in the dense layer, in meta-training", low=0, high=0.9)
    classes: str = hyperparameter("all", "classes to tell apart: all, or names or numbers joined with +, as in 0+3+5")
    max_length: int = hyperparameter(128, "tokens of an example; more are cut off", low=4, high=32768)
    pooling: Literal["cls", "mean"] = hyperparameter("mean", "tokens' mean, or first token (cls)")

    @classmethod
    def of(cls, hyperparameters: Mapping[str, Value]) -> Recipe:
        """Build the recipe from complete hyperparameters, with 0 for what the learner does not have."""
        values: dict[str, Any] = dict(hyperparameters)
        if values["learner"] == "reptile":
            values["queries"] = 0
        if values["learner"] == "protonet":
            values |= {"inner_learning_rate": 0.0, "inner_optimizer": "sgd", "inner_steps": 0, "adaptation_steps": 0}
        return cls(**values)


HYPERPARAMETERS: Final = declared(Recipe)
"""Name -> declaration."""

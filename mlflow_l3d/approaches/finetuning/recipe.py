"""Hyperparameters of fine-tuning: what they are, their values under `auto`, and which have an effect where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from mlflow_l3d.approaches.automatic import AUTO, AutoNumber
from mlflow_l3d.approaches.base import Hyperparameter, Value
from mlflow_l3d.errors import ParameterError

HYPERPARAMETERS: Final[Mapping[str, Hyperparameter]] = {
    "trainable": Hyperparameter(
        "head", "head: a dense head on frozen features; full: every weight", choices=("full", "head")
    ),
    "learning_rate": AutoNumber(
        AUTO, "highest learning rate; auto is 3e-4 for head, 1e-5 for full", low=1e-8, high=10.0, log=True
    ),
    "epochs": AutoNumber(
        AUTO, "most epochs; auto is 10 for head, 5 for full (papers: 10 for multi-class)", low=1, high=1000, whole=True
    ),
    "batch_size": Hyperparameter(8, "examples a step", low=1, high=4096, log=True),
    "warmup_share": Hyperparameter(0.1, "share of the steps in which the learning rate rises", low=0.0, high=1.0),
    "weight_decay": Hyperparameter(0.01, "decoupled weight decay of AdamW, on every trained weight", low=0.0, high=1.0),
    "dropout": Hyperparameter(
        0.1, "probability of dropout: of the head, or of every layer of the model", low=0, high=0.9
    ),
    "early_stopping_metric": Hyperparameter(
        "f1_macro", "what decides the best epoch, on the validation part", choices=("f1_macro", "loss")
    ),
    "early_stopping_patience": Hyperparameter(
        3, "epochs without a better one after which training stops; 0: never before the last", low=0, high=1000
    ),
    "max_length": Hyperparameter(128, "tokens of an example; more are cut off", low=4, high=32768),
    "pooling": Hyperparameter("mean", "head: tokens' mean, or first token (cls)", choices=("cls", "mean")),
    "hidden_units": Hyperparameter(128, "head: units of its dense layer", low=1, high=8192, log=True),
}
"""Name -> declaration."""

_RECIPES: Final[Mapping[str, Mapping[str, Value]]] = {
    "head": {"learning_rate": 3e-4, "epochs": 10},
    "full": {"learning_rate": 1e-5, "epochs": 5},
}
_HEAD_ONLY: Final = ("pooling", "hidden_units")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters by name and type; see :data:`HYPERPARAMETERS` for what each means."""

    trainable: str
    learning_rate: float
    epochs: int
    batch_size: int
    warmup_share: float
    weight_decay: float
    dropout: float
    early_stopping_metric: str
    early_stopping_patience: int
    max_length: int
    pooling: str
    hidden_units: int

    @classmethod
    def of(cls, hyperparameters: Mapping[str, Value]) -> Recipe:
        """Build the recipe, completing what is still `auto`."""
        values: Mapping[str, Any] = complete(hyperparameters)
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def complete(hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
    """Return the hyperparameters with the recipe's own values in place of `auto`; the rest as it is.

    Raises
    ------
    ParameterError
        If one differs from its default that has no effect with ``trainable=full``.
    """
    own = _RECIPES[str(hyperparameters["trainable"])]
    completed = {name: own[name] if value == AUTO else value for name, value in hyperparameters.items()}
    if hyperparameters["trainable"] == "full":
        for name in _HEAD_ONLY:
            if hyperparameters[name] != HYPERPARAMETERS[name].default:
                value = hyperparameters[name]
                raise ParameterError(
                    f"hyperparameters.{name}", value, "has no effect with trainable=full", "Leave it out."
                )
    return completed

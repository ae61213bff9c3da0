"""Hyperparameters of fine-tuning: what they are, their values under `auto`, and which have an effect where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mlflow_l3d.approaches.hyperparameters import AUTO, Value, declared, hyperparameter

RECIPES: Final[Mapping[str, Mapping[str, Value]]] = {
    "head": {"learning_rate": 3e-4, "epochs": 10, "dropout": 0.1},
    "full": {"learning_rate": 1e-5, "epochs": 5, "dropout": 0.1},
    # The adapters have a dropout of their own.
    "lora": {"learning_rate": 2e-4, "epochs": 5, "dropout": 0.0},
}
_MODEL: Final = ("truncation", "selection", "gradient_accumulation", "gradient_clipping", "gradient_checkpointing")
_LORA: Final = ("quantise", "lora_r", "lora_alpha", "lora_dropout", "lora_targets", "lora_cells")
LATER: Final = (*_MODEL, "dtype", *_LORA, "restarts", "average_last", "soup")
"""Left out of a cell's key at their defaults: keys from before these existed stay as they are."""
_HEAD: Final = ("pooling", "hidden_units")
WITHOUT_EFFECT: Final = {
    "head": (*_MODEL, *_LORA, "head_dropout"),
    "full": (*_HEAD, *_LORA),
    "lora": (*_HEAD, "head_dropout"),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters by name and type, each with its declaration."""

    trainable: Literal["full", "head", "lora"] = hyperparameter(
        "head", "head: a dense head on frozen features; full: every weight; lora: adapters and a new head"
    )
    learning_rate: float = hyperparameter(
        AUTO,
        "highest learning rate; auto is 3e-4 for head, 1e-5 for full, 2e-4 for lora",
        low=1e-8,
        high=10.0,
        log=True,
    )
    epochs: int = hyperparameter(
        AUTO, "most epochs; auto is 10 for head, 5 for full and lora (papers: 10 for multi-class)", low=1, high=1000
    )
    batch_size: int = hyperparameter(8, "examples a step", low=1, high=4096, log=True)
    warmup_share: float = hyperparameter(0.1, "share of the steps in which the learning rate rises", low=0.0, high=1.0)
    weight_decay: float = hyperparameter(
        0.01, "decoupled weight decay of AdamW, on every trained weight", low=0.0, high=1.0
    )
    dropout: float = hyperparameter(
        AUTO,
        "probability of dropout: of the head, or of every layer of the model; auto is 0.1, and 0 for lora",
        low=0,
        high=0.9,
    )
    early_stopping_metric: Literal["f1_macro", "loss"] = hyperparameter(
        "f1_macro",
        "what decides the best epoch, on the validation part (f1_macro: Pearson's correlation for a regression)",
    )
    early_stopping_patience: int = hyperparameter(
        3, "epochs without a better one after which training stops; 0: never before the last", low=0, high=1000
    )
    max_length: int = hyperparameter(128, "tokens of an example; more are cut off", low=4, high=32768)
    pooling: Literal["cls", "mean"] = hyperparameter("mean", "head: tokens' mean, or first token (cls)")
    hidden_units: int = hyperparameter(128, "head: units of its dense layer", low=1, high=8192, log=True)
    truncation: bool = hyperparameter(True, "full, lora: cut longer examples off at max_length; false: refuse them")
    selection: Literal["best", "last"] = hyperparameter(
        "best", "full, lora: evaluate the best epoch on the validation part (the last if there is none), or the last"
    )
    gradient_accumulation: int = hyperparameter(
        1, "full, lora: batches whose gradients are averaged before a step", low=1, high=4096
    )
    gradient_clipping: float = hyperparameter(
        0.0, "full, lora: longest gradient (2-norm over all weights); 0: not cut", low=0.0, high=1e6
    )
    gradient_checkpointing: bool = hyperparameter(
        False, "full, lora: compute activations twice instead of keeping them, for less memory"
    )
    dtype: Literal["auto", "float32", "bfloat16"] = hyperparameter(
        AUTO,
        "what the model computes in (head: its features); auto is float32, and for lora bfloat16 on a GPU that has it",
    )
    quantise: Literal["none", "4bit"] = hyperparameter(
        "none", "lora, decoders: 4bit keeps the frozen weights in NF4 (QLoRA)"
    )
    lora_r: int = hyperparameter(8, "lora: rank of the adapters", low=1, high=4096, log=True)
    lora_alpha: float = hyperparameter(16.0, "lora: scale; an adapter is multiplied by alpha / r", low=1e-3, high=1e5)
    lora_dropout: float = hyperparameter(0.1, "lora: probability of dropout before an adapter", low=0.0, high=0.9)
    lora_targets: str = hyperparameter(
        AUTO, "lora: names of the layers with adapters, joined by +; auto: the attention's query and value"
    )
    lora_cells: int = hyperparameter(
        1, "lora: cells whose adapters are trained side by side in one program", low=1, high=1024
    )
    head_dropout: float | str = hyperparameter(
        AUTO, "full, encoders: probability of dropout before the new head; auto is dropout", low=0, high=0.9, auto=float
    )
    restarts: int = hyperparameter(
        0,
        "most times that a training begins again, with other draws, if it diverged or its validation score is not "
        "above that of always predicting the most frequent class",
        low=0,
        high=100,
    )
    average_last: int = hyperparameter(
        0, "evaluate the average of the weights after so many last epochs; 0: the chosen epoch", low=0, high=1000
    )
    soup: int = hyperparameter(
        1,
        "trainings of a cell whose weights are averaged: with the same first weights, and other orders and dropout",
        low=1,
        high=100,
    )

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the layers that get adapters; empty for `auto`."""
        return () if self.lora_targets == AUTO else tuple(self.lora_targets.replace("+", " ").split())


HYPERPARAMETERS: Final = declared(Recipe)
"""Name -> declaration."""

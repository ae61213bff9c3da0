"""Every way in which our approaches use a device, as small cells of tiny random models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from finetuning_helpers import golden, handmade_task
from finetuning_models import choice_task, regression_task, tiny_bert, tiny_llama
from icl_tiny_models import byte_tokenizer, llama, save, t5

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.icl import InContextLearning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.tasks.base import Task

MODELS: dict[str, Callable[[Path], object]] = {
    "encoder": lambda folder: tiny_bert(folder, max_position_embeddings=512),
    "decoder": tiny_llama,
    "generator": lambda folder: save(
        folder, llama(max_position_embeddings=4096, initializer_range=0.4), byte_tokenizer()
    ),
    "seq2seq": lambda folder: save(folder, t5(), byte_tokenizer(model_max_length=4000)),
}
TASKS: dict[str, Callable[[], Task]] = {
    "classes": lambda: handmade_task(60, num_labelled=30, test_size=10),
    "scores": lambda: regression_task(60, num_labelled=30, test_size=10),
    "choices": lambda: choice_task(60, num_labelled=30, test_size=10),
}
_WHOLE = {"epochs": 1, "max_length": 48}
_META = {"shots": 2, "queries": 3, "adaptation_shots": 4, "tasks": 3, "steps": 3, "epochs": 2, "hidden_units": 16}
_PROMPT = {"shots": 1, "verbaliser": "good;bad"}
_ANSWER = {**_PROMPT, "decision": "generate", "max_new_tokens": 4}


@dataclass(frozen=True)
class Way:
    """Cells that take one way: `model` and `task` are names of :data:`MODELS` and :data:`TASKS`."""

    approach: type[Approach]
    model: str
    given: Mapping[str, object]
    task: str = "classes"
    cells: int = 1


def _meta(learner: str, **other) -> Way:
    given = {**_META, "learner": learner, "meta_optimizer": "adam", **other}
    if learner == "reptile":
        del given["queries"]
        given["meta_learning_rate"] = 0.01  # with Adam, the usual 0.3 may silence all units
    return Way(MetaLearning, "encoder", given, cells=2)


WAYS: Mapping[str, Way] = {
    "heads": Way(Finetuning, "encoder", {"epochs": 2, "max_length": 48, "hidden_units": 16}, cells=3),
    "full": Way(Finetuning, "encoder", {**_WHOLE, "trainable": "full", "epochs": 3, "learning_rate": 1e-3}),
    "full, parts": Way(
        Finetuning, "encoder", {**_WHOLE, "trainable": "full", "gradient_clipping": 1.0, "gradient_accumulation": 2}
    ),
    "full, soup": Way(Finetuning, "encoder", {**_WHOLE, "trainable": "full", "soup": 2}),
    "full, decoder": Way(Finetuning, "decoder", {**_WHOLE, "trainable": "full", "dropout": 0.0}),
    "full, regression": Way(Finetuning, "encoder", {**_WHOLE, "trainable": "full"}, "scores"),
    "full, choices": Way(Finetuning, "encoder", {**_WHOLE, "trainable": "full"}, "choices"),
    "lora": Way(Finetuning, "encoder", {**_WHOLE, "trainable": "lora"}),
    "lora, decoder": Way(Finetuning, "decoder", {**_WHOLE, "trainable": "lora"}),
    "lora, beside": Way(
        Finetuning,
        "encoder",
        {**_WHOLE, "trainable": "lora", "lora_cells": 3, "epochs": 4, "early_stopping_patience": 1},
        cells=3,
    ),
    "protonet": _meta("protonet", dropout=0.1),
    "maml": _meta("maml", dropout=0.1),
    "fomaml": _meta("fomaml", inner_steps=2),
    "reptile": _meta("reptile", inner_optimizer="sgd", inner_steps=2),
    "reptile, Adam": _meta("reptile", inner_steps=2, dropout=0.1),
    "score": Way(InContextLearning, "generator", _PROMPT),
    "score, similarity": Way(InContextLearning, "generator", {**_PROMPT, "selection": "similarity"}),
    "generate": Way(InContextLearning, "generator", _ANSWER),
    "generate, drawn": Way(InContextLearning, "generator", {**_ANSWER, "temperature": 1.0}),
    "seq2seq, score": Way(InContextLearning, "seq2seq", _PROMPT),
    "seq2seq, generate": Way(InContextLearning, "seq2seq", _ANSWER),
}


def golden_cell(approach: Approach, index: int) -> Cell:
    """Return a golden cell that puts every factor at one configuration."""
    return golden(approach.factors, index)

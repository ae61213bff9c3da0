"""Every way in which our approaches use a device, as small cells of tiny random models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fake_device import MODULE, NAME, Counts, watched
from finetuning_helpers import handmade_task
from finetuning_models import choice_task, regression_task, tiny_bert, tiny_llama
from icl_tiny_models import byte_tokenizer, llama, save, t5

from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.icl import InContextLearning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import configuration_seed
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
    return Way(MetaLearning, "encoder", given, cells=2)


WAYS: Mapping[str, Way] = {
    "heads": Way(Finetuning, "encoder", {"epochs": 2, "max_length": 48, "hidden_units": 16}, cells=3),
    "full": Way(Finetuning, "encoder", {**_WHOLE, "trainable": "full", "epochs": 3, "learning_rate": 1e-3}),
    "full, parts": Way(
        Finetuning, "encoder", {**_WHOLE, "trainable": "full", "gradient_clipping": 1.0, "gradient_accumulation": 2}
    ),
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


class Runner:
    """Runs paths, on the CPU and on the device; models and features are made once.

    Parameters
    ----------
    folder
        Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def model(self, name: str) -> str:
        """Return the folder of a model."""
        folder = self.folder / name
        if not folder.exists():
            MODELS[name](folder)
        return str(folder)

    def outcomes(self, way: Way, device: str) -> tuple[Counts, Sequence[Outcome]]:
        """Return the outcomes of the cells, and what happened on the device while they ran."""
        approach = way.approach()
        encoder = {"selection_encoder": self.model("encoder")} if "selection" in way.given else {}
        given = approach.complete(resolve_hyperparameters(approach, {**way.given, **encoder}))
        where = {"model": self.model(way.model), "device": device, "cache": self.folder / "cache"}
        looked_at = watched if device == NAME else lambda: nullcontext(Counts())
        with looked_at():
            session = approach.prepare(TASKS[way.task](), given, **where)
        states = torch.get_rng_state(), MODULE.get_rng_state()
        with looked_at() as counts:
            found = list(session.run([_cell(approach, index) for index in range(way.cells)]))
        after = torch.get_rng_state(), MODULE.get_rng_state()
        assert all(map(torch.equal, states, after)), "a global generator was not put back"
        return counts, sorted(found, key=lambda outcome: outcome.key)


def _cell(approach: Approach, index: int) -> Cell:
    configurations = dict.fromkeys(approach.factors, index)
    seeds = {factor: configuration_seed(7, factor, index) for factor in approach.factors}
    return Cell("golden", None, None, None, index, configurations, seeds, f"{approach.name} {index}")


def differences(runner: Runner, way: Way, expected: Sequence[Outcome]) -> tuple[Counts, list[str]]:
    """Run a path on the device; return what happened there, and how its outcomes differ from those of the CPU."""
    counts, found = runner.outcomes(way, NAME)
    wrong = [f"{own.error}: {(own.traceback or '').splitlines()[-3:]}" for own in found if own.error]
    for own, other in zip(found, expected, strict=True):
        if own.error:
            continue
        if not np.allclose(own.predictions, other.predictions, rtol=0, atol=1e-5):
            wrong.append(f"{own.key}: other predictions")
        if other.scores is not None and not np.allclose(own.scores, other.scores, rtol=0, atol=1e-5):
            wrong.append(f"{own.key}: scores differ by {np.abs(own.scores - other.scores).max()}")
    return counts, wrong

"""Recipes, cells and sessions for the tests of in-context learning, and log-likelihoods from plain forward passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from finetuning_helpers import golden, handmade_task, opened
from icl_tiny_models import byte_tokenizer, llama, save

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.icl import InContextLearning
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.tasks.base import Task

APPROACH = InContextLearning()


def small_task(**settings: Any) -> Task:
    return handmade_task(80, **{"num_labelled": 20, "test_size": 12, **settings})


def tiny_model(folder: Path, chat: str = "", **other: Any) -> str:
    """Save a random LLaMA with a tokenizer of bytes, whose weights are large enough that texts decide."""
    sizes = {"max_position_embeddings": 4096, "initializer_range": 0.4, **other}
    return str(save(folder, llama(**sizes), byte_tokenizer(chat=chat)))


def complete(**given: Any) -> dict[str, Any]:
    return APPROACH.complete(resolve_hyperparameters(APPROACH, given))


def cell(index: int = 0, **configurations: int) -> Cell:
    """Return a golden cell of in-context learning."""
    return golden(APPROACH.factors, index, **configurations)


def prepared(model: str, cache: Path, task: Task | None = None, **given: Any) -> Any:
    return opened(APPROACH, task or small_task(), cache, model, **{"shots": 1, "chat": "none", **given})


def outcome(model: str, cache: Path, one: Cell | None = None, task: Task | None = None, **given: Any) -> Outcome:
    session = prepared(model, cache, task, **given)
    (found,) = session.run([one or cell()])
    session.close()
    return found


@torch.inference_mode()
def log_likelihoods(model: Any, prompt: Sequence[int], answers: Sequence[Sequence[int]]) -> list[float]:
    """Return the log-likelihood of each answer, a forward pass of prompt and answer each, nothing cached."""
    found = []
    for answer in answers:
        logits = model(torch.tensor([[*prompt, *answer]]), use_cache=False).logits[0].double().log_softmax(-1)
        found.append(float(logits[range(len(prompt) - 1, len(prompt) + len(answer) - 1), list(answer)].sum()))
    return found


def shares(logs: Sequence[float]) -> np.ndarray:
    """Return the softmax."""
    return np.exp(logs) / np.exp(logs).sum()


def written_by(session: Any, prompts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
    """Return the new tokens of each prompt by the model's own greedy `generate`."""
    found = []
    for ids in prompts:
        given, mask = torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.int64)
        with torch.inference_mode():
            tokens = session.loaded.model.generate(given, attention_mask=mask, max_new_tokens=new, do_sample=False)
        found.append(tokens[0, len(ids) :].tolist())
    return found

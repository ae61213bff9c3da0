"""Small tasks, cells and sessions for the tests of fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import torch

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.finetuning.head import HeadSession
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import configuration_seed
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import rotten_tomatoes


def train_heads(heads, features, labels, recipe, device):
    """Return the test logits of heads that are trained on these features and labels, or how they diverged."""
    session = object.__new__(HeadSession)
    vars(session).update(task=SimpleNamespace(labels=labels), features=features, recipe=recipe, device=device)
    return session.trained(heads)


WORDS = (("superb", "moving", "a joy", "brilliant"), ("dull", "a mess", "tedious", "awful"))
THINGS = ("plot", "cast", "score", "dialogue", "camera work", "ending", "pace", "humour", "first half", "second hour")


def handmade_task(n: int = 120, columns: int = 1, **settings) -> Task:
    rng = np.random.default_rng(5)

    def one(things: tuple[str, ...]) -> str:
        return things[rng.integers(len(things))]

    labels = np.arange(n, dtype=np.int64) % 2
    texts = tuple(
        tuple(
            f"the {one(THINGS)} is {one(WORDS[label])} and the {one(THINGS)} "
            + "very " * int(rng.integers(3))
            + f"{one(WORDS[label])}, number {i}"
            for i, label in enumerate(labels)
        )
        for _ in range(columns)
    )
    return Task("handmade", texts, labels, ("good", "bad"), np.arange(n) + 1000, SplitSettings(**settings), "handmade")


def short_reviews() -> Task:
    """Return 300 real reviews of less than 40 letters, which are encoded in a second."""
    whole = rotten_tomatoes({})
    short = [number for number, text in enumerate(whole.texts[0]) if len(text) < 40]
    kept = np.sort(np.random.default_rng(0).permutation(short)[:300])
    texts = (tuple(whole.texts[0][number] for number in kept),)
    return Task("part", texts, whole.labels[kept], whole.class_names, whole.example_ids[kept])


def golden(factors: Iterable[str], index: int = 0, **configurations: int) -> Cell:
    """Return a golden cell; a keyword puts one factor at another configuration."""
    chosen = {factor: configurations.get(factor, index) for factor in factors}
    seeds = {factor: configuration_seed(7, factor, number) for factor, number in chosen.items()}
    return Cell("golden", None, None, None, index, chosen, seeds, f"{sorted(chosen.items())}")


def cell(index: int = 0, **configurations: int) -> Cell:
    """Return a golden cell of fine-tuning."""
    return golden(Finetuning.factors, index, **configurations)


def opened(approach, task: Task, cache, model: str | None = None, **given):
    """Return a session of an approach on the CPU."""
    complete = approach.complete(resolve_hyperparameters(approach, given))
    return approach.prepare(task, complete, model=model or approach.default_model, device="cpu", cache=cache)


def prepare(task: Task, cache, **given):
    """Return a session of fine-tuning with the packaged encoder."""
    return opened(Finetuning(), task, cache, **given)


def run(session, *cells: Cell) -> list[Outcome]:
    outcomes = list(session.run(cells))
    assert [outcome.traceback for outcome in outcomes] == [None] * len(cells)
    return outcomes


def content(outcome: Outcome) -> Outcome:
    """Return what must be bit-identical, arrays as bytes."""
    arrays = {name: getattr(outcome, name).tobytes() for name in ("example_ids", "labels", "predictions", "scores")}
    return replace(outcome, duration_seconds=0.0, **arrays)


def observed(session, chosen: Cell, draws: Mapping[str, tuple[object, str]], monkeypatch) -> tuple[dict, bytes]:
    """Run one cell; return what its factors fed, as bytes, and its scores or predictions.

    `draws` are functions that draw, by a name for what they draw; the parts of the split come on top.
    """
    fed = {name: [] for name in draws}
    with monkeypatch.context() as patch:
        for name, (owner, function) in draws.items():
            original = getattr(owner, function)

            def spy(*given, original=original, seen=fed[name], **named):
                drawn = original(*given, **named)
                seen += [array.tobytes() for array in (drawn if isinstance(drawn, tuple) else (drawn,))]
                return drawn

            patch.setattr(owner, function, spy)
        (outcome,) = run(session, chosen)
    assert all(fed.values())
    split = session.task.split(chosen.seeds)
    parts = {name: [getattr(split, name).tobytes()] for name in ("train", "validation", "test")}
    return fed | parts, (outcome.predictions if outcome.scores is None else outcome.scores).tobytes()


def changes(session, factor: str, draws, monkeypatch, make=cell) -> set[str]:
    """Return what another configuration of a factor changes; the scores must change, too."""
    (before, scores), (after, others) = (
        observed(session, chosen, draws, monkeypatch) for chosen in (make(0), make(0, **{factor: 5}))
    )
    assert scores != others
    return {name for name in before if before[name] != after[name]}


def check_generators(session, *cells: Cell) -> None:
    """Check that global generators and the number of threads are as they were, also between two outcomes."""
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    threads = torch.get_num_threads()
    for _ in session.run(cells):
        assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


def spent(session, monkeypatch, fits):
    """Let training steps run out of memory unless `fits` says of the model and the examples that they do not."""
    forward = session._forward

    def counting(inputs):
        if session.model.training and not fits(session.model, len(inputs["input_ids"])):
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return forward(inputs)

    monkeypatch.setattr(session, "_forward", counting)

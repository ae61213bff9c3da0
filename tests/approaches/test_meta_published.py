"""Meta-learning beside the training loops of the authors' code, for both ways of stepping."""

from __future__ import annotations

from typing import Any

import meta_learning_published as published
import numpy as np
import pytest
import torch
from finetuning_helpers import handmade_task
from meta_learning_cases import Case, case, plain_logits, weights_of

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.approaches.meta_learning.recipe import RECIPES, Recipe
from mlflow_l3d.approaches.meta_learning.session import Draws, MetaSession, learner_of
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.testing import one_cell

pytestmark = pytest.mark.usefixtures("alone")

APPROACH = MetaLearning()
# num_tasks, num_batches, num_epochs, meta_lr, lr of optimal_parameters/*/*.json in the authors' repository.
AUTHORS: dict[tuple[str, str], tuple[int, int, int, float, float]] = {
    ("protonet", "cola"): (4, 32, 5, 1e-4, 0),
    ("protonet", "mrpc"): (8, 66, 4, 5e-3, 0),
    ("protonet", "sst2"): (32, 32, 5, 1e-3, 0),
    ("maml", "cola"): (14, 30, 5, 1e-3, 0.4),
    ("maml", "mrpc"): (14, 66, 16, 5e-4, 0.4),
    ("maml", "sst2"): (16, 64, 17, 2e-3, 0.2),
    ("reptile", "cola"): (2, 66, 10, 1e-2, 0.2),
    ("reptile", "mrpc"): (32, 66, 9, 1e-2, 5e-4),
    ("reptile", "sst2"): (10, 62, 5, 5e-3, 0.4),
}
STEP_AFTER = {"protonet": "task", "reptile": "task", "maml": "batch", "fomaml": "batch"}
OPTIMIZERS = {"protonet": ("sgd", "sgd"), "maml": ("adam", "sgd"), "reptile": ("sgd", "adam")}


def recipe(**given: Any) -> Recipe:
    return Recipe.of(APPROACH.complete(resolve_hyperparameters(APPROACH, given)))


def batched(tasks: list[published.TrainingTask], size: int) -> list[list[published.TrainingTask]]:
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def take_steps(settings: Recipe, drawn: Case) -> None:
    """Take the meta-steps that the tasks of `drawn` are enough for."""
    learner = learner_of(settings)
    for start in range(0, drawn.x.shape[1], settings.tasks):
        part = slice(start, start + settings.tasks)
        learner.step(drawn.stack, drawn.x[:, part].contiguous(), drawn.labels[:, part].contiguous())


@pytest.mark.parametrize(("learner", "task"), AUTHORS)
def test_paper_takes_the_steps_of_the_authors_code(learner: str, task: str) -> None:
    """Two of their batches, in double precision; and as many batches and epochs as they have."""
    tasks, batches, epochs, meta_rate, rate = AUTHORS[learner, task]
    settings = recipe(**APPROACH.published(task, {"learner": learner}))
    assert (settings.tasks * settings.steps, settings.epochs) == (tasks * batches, epochs)
    assert (settings.shots, settings.adaptation_shots, settings.dropout, settings.max_length) == (5, 15, 0.0, 50)
    queries = 0 if learner == "reptile" else settings.queries
    drawn = case(cells=2, tasks=2 * tasks, shots=settings.shots, queries=queries)
    networks = [drawn.network(cell) for cell in range(2)]
    take_steps(settings, drawn)
    meta, base = OPTIMIZERS[learner]
    for cell, network in enumerate(networks):
        before = [weight.clone() for weight in weights_of(network)]
        known = batched(drawn.tasks(cell, 2 * settings.shots), tasks)
        ways = {"after": STEP_AFTER[learner], "meta": (meta, meta_rate), "base": (base, rate, 1)}
        published.train(learner, network, known, **ways)
        for own, theirs, start in zip(
            (drawn.stack.w1[cell], drawn.stack.w2[cell]), weights_of(network), before, strict=True
        ):
            torch.testing.assert_close(own, theirs, rtol=1e-9, atol=1e-10)
            if learner != "protonet" or start is before[0]:
                assert float((theirs - start).abs().max()) > 1e-5


@pytest.mark.parametrize("after", ["task", "batch"])
@pytest.mark.parametrize("inner_steps", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("learner", RECIPES)
def test_training_and_adaptation_are_those_of_the_plain_loop(
    learner: str, inner_steps: int, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole cells, three at once, from what their factors draw to the logits of their test examples."""
    inner = {} if learner == "protonet" else {"inner_steps": inner_steps, "inner_learning_rate": 0.05}
    sizes = {"shots": 2, "adaptation_shots": 4, "epochs": 2, "hidden_units": 8, "meta_learning_rate": 0.05}
    grouped = {"tasks": 1, "steps": 12} if after == "task" else {"tasks": 3, "steps": 4}
    settings = recipe(learner=learner, **sizes, **grouped, **inner)
    task = handmade_task(num_labelled=40, test_size=16)
    features = np.random.default_rng(0).normal(size=(len(task), 6)) + 0.7 * task.labels[:, None]

    opened = MetaSession(task, features.astype(np.float32), settings, "cpu")
    found: dict[str, np.ndarray] = {}

    def noted(draws: Draws, test: np.ndarray, validation: np.ndarray) -> Outcome:
        found[draws.cell.key] = test
        return MetaSession.outcome_of(opened, draws, test, validation)

    monkeypatch.setattr(opened, "outcome_of", noted)
    cells = [one_cell(APPROACH.factors, number) for number in range(3)]
    opened.together([opened.draw(cell) for cell in cells])
    for own in map(opened.draw, cells):
        positions = own.episodes.draw(24)
        support, labels = 2 * settings.shots, torch.from_numpy(task.labels)
        rows = torch.from_numpy(features.astype(np.float32)).double()
        known = [tuple((rows[part], labels[part]) for part in (each[:support], each[support:])) for each in positions]
        network = published.Network(*(torch.from_numpy(layer).double() for layer in own.weights))
        base = (settings.inner_optimizer, settings.inner_learning_rate)
        ways = {"after": after, "meta": (settings.meta_optimizer, 0.05), "base": (*base, settings.inner_steps)}
        published.train(learner, network, batched(known, 3), **ways)
        adaptation = rows[own.adaptation], labels[own.adaptation]
        logits = plain_logits(settings, network, adaptation, rows[own.split.test])
        np.testing.assert_allclose(found[own.cell.key], logits.numpy(), rtol=1e-3, atol=1e-3)

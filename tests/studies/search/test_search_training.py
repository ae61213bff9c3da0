"""Searches of real trainings: heads on a frozen encoder, and a meta-learner."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.plan.factors import configuration_seed
from mlflow_l3d.studies.search.cells import TrialMaker, search_key
from mlflow_l3d.studies.search.engine import StageRun, new_study
from mlflow_l3d.studies.search.results import FinishedTrial, best_of
from mlflow_l3d.studies.search.samplers import sampler_of
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.trials import Tuned
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import SplitSettings

WORDS = (("superb", "moving", "a joy", "brilliant"), ("dull", "a mess", "tedious", "awful"))


def sentences(n: int = 160) -> Task:
    rng = np.random.default_rng(0)
    labels = np.arange(n, dtype=np.int64) % 2
    texts = tuple(f"the film is {rng.choice(WORDS[label])} number {i}" for i, label in enumerate(labels))
    settings = SplitSettings(num_labelled=60, test_size=20)
    return Task("sentences", (texts,), labels, ("good", "bad"), np.arange(n), settings, "sentences")


def search(
    folder: Path, approach: Approach, base: dict[str, object], space: str, queue: list[dict[str, object]], trials: int
) -> tuple[list[FinishedTrial], list[FinishedTrial]]:
    """Run one stage; return all trials, and them as they were told."""
    task = sentences()
    hyperparameters = approach.complete(resolve_hyperparameters(approach, base))
    searched = SearchSpace.of(approach, hyperparameters, space)
    tuned = Tuned(approach, metric="f1_macro", pruner="median")
    seeds = ({factor: configuration_seed(0, factor, 0) for factor in approach.factors},)
    key = search_key(task, approach, model_revision="", numerics={}, metric="f1_macro")
    heard: list[FinishedTrial] = []
    executor = InlineExecutor(job=Job(tuned, task, hyperparameters, approach.default_model, "cpu", folder))
    maker = TrialMaker(approach, base, key, seeds)
    study, sampler = new_study("median", greater_is_better=True), partial(sampler_of, "random", "coarse", 0)
    stage_run = StageRun("coarse", study, searched, maker, sampler, heard.append)
    return stage_run.run(trials, executor, queue, best=None), heard


def test_heads_are_scored_by_their_best_epoch_and_pruned_in_the_middle(tmp_path: Path) -> None:
    base: dict[str, object] = {"epochs": 8, "max_length": 12, "early_stopping_patience": 0, "hidden_units": 16}
    good = [{"learning_rate": 10 ** (-2.0 - number / 10)} for number in range(6)]
    found, heard = search(tmp_path, Finetuning(), base, "learning_rate", [*good, {"learning_rate": 1e-8}], 7)
    assert [trial.state for trial in found] == ["complete"] * 6 + ["pruned"]
    for trial in heard:
        assert trial.outcome is not None
        curve = trial.outcome.curves["validation_f1_macro"]
        assert trial.score == pytest.approx(max(curve))
        assert trial.outcome.metrics["epochs_done"] == len(curve) == len(trial.outcome.curves["train_loss"])
        assert (len(curve) == 8) == (trial.state == "complete")
    best = best_of(found)
    assert best is not None
    assert best.score is not None
    assert best.score > 0.9


def test_a_learner_is_watched_although_it_has_no_early_stopping(tmp_path: Path) -> None:
    base: dict[str, object] = {"learner": "protonet", "epochs": 4, "shots": 2, "queries": 2, "adaptation_shots": 4}
    base |= {"tasks": 4, "steps": 4, "hidden_units": 16, "max_length": 12}
    rates = [{"meta_learning_rate": rate} for rate in (0.3, 0.1, 1e-6)]
    found, heard = search(tmp_path, MetaLearning(), base, "meta_learning_rate", rates, 3)
    assert [trial.state for trial in found] == ["complete"] * 3
    for trial in heard:
        assert trial.outcome is not None
        assert len(trial.outcome.curves["validation_f1_macro"]) == 4
        assert trial.score == pytest.approx(trial.outcome.curves["validation_f1_macro"][-1])

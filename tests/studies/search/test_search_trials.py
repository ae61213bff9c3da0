"""Trials as cells: what is trained, on which examples, and what comes out."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import optuna
import pytest
from search_cases import Climb
from search_stages import Search, request

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.approaches.synthetic import Synthetic, score
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.search.training import TrialReport, Tuned, mean_curves
from mlflow_l3d.studies.search.trials import TrialCell, reports_in
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.sources.packaged import generate

WORDS = (("superb", "moving", "a joy", "brilliant"), ("dull", "a mess", "tedious", "awful"))
B = {"x": 0.3, "kind": "b"}


@pytest.mark.parametrize(("many", "calls"), [(1, ["1"] * 5), (2, ["2", "2", "1"]), (64, ["5"])])
def test_a_trial_is_scored_by_the_mean_over_its_configurations(tmp_path: Path, many: int, calls: list[str]) -> None:
    search = Search(tmp_path, Climb(many=many), settings={"search_seeds": 5})
    (outcome,) = search.train({"x": 0.5, "kind": "b"})
    scores = search.expected(0.5, "b")
    assert [line[1] for line in search.trace.lines("call")] == calls
    assert outcome.metrics["score"] == pytest.approx(np.mean(scores))
    assert outcome.metrics["score_std"] == pytest.approx(np.std(scores, ddof=1))
    done = [outcome.metrics[name] for name in ("epochs_done", "configurations_done", "pruned")]
    assert done == [40, 5, 0]
    assert outcome.predictions is None
    assert len(outcome.curves["validation_height"]) == 8
    assert outcome.curves["validation_height"][-1] == pytest.approx(np.mean(scores))


def test_the_inner_session_stays_while_the_hyperparameters_do(tmp_path: Path) -> None:
    search = Search(tmp_path)
    search.train({"x": 0.1}, {"x": 0.1}, {"x": 0.2}, {"x": 0.1})
    assert [line[1] for line in search.trace.lines("prepare")] == ["0.1", "0.2", "0.1"]
    everything = [line[0] for line in search.trace.lines() if line[0] in {"prepare", "close"}]
    assert everything == ["prepare", "close"] * 3


def test_no_trial_sees_a_test_example(tmp_path: Path) -> None:
    tasks = []

    class Spy(Climb):
        def prepare(self, task, hyperparameters, **kwargs):
            tasks.append(task)
            return super().prepare(task, hyperparameters, **kwargs)

    search = Search(tmp_path, Spy(), settings={"metric": "accuracy", "search_seeds": 2})
    (outcome,) = search.train(B)
    scores = []
    for seeds, height in zip(search.request.searched_on, search.expected(**B), strict=True):
        whole, seen = search.task.split(seeds), tasks[0].split(seeds)
        assert np.array_equal(seen.train, whole.train)
        assert np.array_equal(seen.test, whole.validation)
        assert not set(whole.test) & {*seen.train, *seen.validation, *seen.test}
        scores.append(round(height * len(whole.validation)) / len(whole.validation))
    assert outcome.metrics["score"] == pytest.approx(np.mean(scores))
    assert search.request.validation_examples == len(whole.validation)


def test_any_approach_can_be_tuned_by_a_metric_of_its_own(tmp_path: Path) -> None:
    settings = {"metric": "synthetic_score", "space": "a_data_order=0..5"}
    search = Search(tmp_path, Synthetic(), settings=settings)
    (outcome,) = search.train({"a_data_order": 3.0})
    hyperparameters = {**search.job.hyperparameters, "a_data_order": 3.0}
    assert outcome.metrics["score"] == score(search.request.searched_on[0], hyperparameters)


def test_what_fails_inside_fails_the_trial_and_not_the_next(tmp_path: Path) -> None:
    search = Search(tmp_path, settings={"search_seeds": 2})
    broken, unprepared, fine = search.train({"kind": "broken"}, {"kind": "unprepared"}, {"kind": "b"})
    assert broken.error == "configuration 0: RuntimeError: this kind is broken"
    assert broken.traceback is not None
    assert unprepared.error == "approach climb could not be prepared: RuntimeError: cannot be prepared"
    assert fine.error is None
    search.job = replace(search.job, approach=Tuned(search.approach, metric="depth"))
    (outcome,) = search.train({"kind": "b"})
    assert str(outcome.error).startswith("metric=depth: approach climb did not return it, it returned accuracy, f1_ma")


def test_the_key_is_that_of_the_result() -> None:
    def key(params=None, number=0, **changes) -> str:
        return request(**changes).trial_cell(params or {}, number).key

    same = [key(), key(number=7), key({"x": 0.9}), key({"x": "0.9"}), key(space="x", pruner="median")]
    assert len(set(same)) == 1
    other = [
        key(num_labelled=42),
        key(task=generate(220, 2)),
        key(approach=Climb(version="2")),
        key(metric="accuracy"),
        key({"x": 0.8}),
        key(search_seeds=2),
        key(root_seed=1),
    ]
    assert len({*other, same[0]}) == len(other) + 1


def test_curves_are_means_over_the_configurations_that_reach_an_epoch() -> None:
    assert mean_curves([{"a": [1, 2, 3], "b": []}, {"a": [3.0], "c": [5]}, {}]) == {"a": [2, 2, 3], "c": [5]}


@pytest.mark.parametrize("reports_epochs", [True, False])
def test_trials_that_report_end_as_silent_ones_do_if_nothing_is_pruned(tmp_path: Path, reports_epochs: bool) -> None:
    search = Search(tmp_path, Climb(reports_epochs=reports_epochs), settings={"pruner": "median", "search_seeds": 2})
    (outcome,) = search.train(B)
    (unwatched,) = Search(tmp_path, settings={"search_seeds": 2}).train(B)
    assert (outcome.metrics, outcome.curves) == (unwatched.metrics, unwatched.curves)
    assert unwatched.logged is None
    reported = reports_in(outcome.logged.metrics) if outcome.logged else {}
    if not reports_epochs:
        assert reported == {}
        return
    first, second = zip(*(search.expected(**B, epochs=epoch) for epoch in range(1, 9)), strict=True)
    assert [reported[step] for step in range(8)] == pytest.approx(first)
    assert [reported[1000 + step] for step in range(8)] == pytest.approx([(first[-1] + v) / 2 for v in second])
    assert len(reported) == 16


@pytest.mark.parametrize("number", [0, 1])
def test_only_the_first_trial_is_spared(number: int) -> None:
    """It is the setting that was given."""
    cell = TrialCell.of("key", {}, [{}], number)
    report = TrialReport(cell, Tuned(Climb(), metric="height", pruner="median"))
    report._trial = Mock(should_prune=Mock(return_value=True))
    report.begin([])
    assert report.on_epoch_end("key", 0, {"validation_height": 0.1}) is (number > 0)
    assert report.pruned is (number > 0)
    report._trial.report.assert_called_once_with(0.1, 0)


@pytest.mark.parametrize(("score", "ends"), [(0.1, True), (0.9, False)])
@pytest.mark.parametrize("greater_is_better", [True, False])
def test_a_trial_is_compared_with_those_before_it(score: float, ends: bool, greater_is_better: bool) -> None:
    values = dict.fromkeys(range(3), 0.5)
    earlier = tuple(optuna.trial.create_trial(value=0.5, intermediate_values=values) for _ in range(5))
    tuned = Tuned(Climb(), metric="height", pruner="median", greater_is_better=greater_is_better)
    report = TrialReport(TrialCell.of("key", {}, [{}], 5, earlier), tuned)
    report.begin([])
    ended = [report.on_epoch_end("key", epoch, {"validation_height": score}) for epoch in range(2)]
    assert ended == [False, ends == greater_is_better]


def sentences(n: int = 160) -> Task:
    rng = np.random.default_rng(0)
    labels = np.arange(n, dtype=np.int64) % 2
    texts = tuple(f"the film is {rng.choice(WORDS[label])} number {i}" for i, label in enumerate(labels))
    return Task("sentences", (texts,), labels, ("good", "bad"), np.arange(n), fingerprint="sentences")


HEAD = "epochs=8,max_length=12,early_stopping_patience=0,hidden_units=16"
PROTONET = (
    "learner=protonet,epochs=4,shots=2,queries=2,adaptation_shots=4,tasks=4,steps=4,hidden_units=16,max_length=12"
)


def search_for_real(folder: Path, approach: Any, hyperparameters: str, name: str, values: list[float]) -> Any:
    settings = {"metric": "f1_macro", "pruner": "median", "space": name, "hyperparameters": hyperparameters}
    settings["num_labelled"] = "60"
    search = Search(folder, approach, sentences(), settings=settings)
    return search.run(len(values), [{name: value} for value in values])


@pytest.mark.slow
def test_heads_are_scored_by_their_best_epoch_and_pruned_in_the_middle(tmp_path: Path) -> None:
    good = [10 ** (-2.0 - number / 10) for number in range(6)]
    trials, heard = search_for_real(tmp_path, Finetuning(), HEAD, "learning_rate", [*good, 1e-8])
    assert [trial.state for trial in trials] == ["complete"] * 6 + ["pruned"]
    for trial, outcome in heard:
        curve = outcome.curves["validation_f1_macro"]
        assert trial.score == pytest.approx(max(curve))
        assert outcome.metrics["epochs_done"] == len(curve) == len(outcome.curves["train_loss"])
        assert (len(curve) == 8) == (trial.state == "complete")
    assert max(trial.score for trial in trials) > 0.9


@pytest.mark.slow
def test_a_learner_is_watched_although_it_has_no_early_stopping(tmp_path: Path) -> None:
    trials, heard = search_for_real(tmp_path, MetaLearning(), PROTONET, "meta_learning_rate", [0.3, 0.1, 1e-6])
    assert [trial.state for trial in trials] == ["complete"] * 3
    for trial, outcome in heard:
        assert len(outcome.curves["validation_f1_macro"]) == 4
        assert trial.score == pytest.approx(outcome.curves["validation_f1_macro"][-1])


def test_cells_and_the_approach_survive_pickling_and_carry_their_name(tmp_path: Path) -> None:
    search = Search(tmp_path)
    with pytest.raises(ParameterError):
        search.request.trial_cell({"x": 2.0}, 0)
    cell, tuned = pickle.loads(pickle.dumps((search.request.trial_cell(B, 4), search.job.approach)))
    assert (cell.name, cell.key) == ("trial 4", search.request.trial_cell(B, 4).key)
    assert (tuned.name, tuned.factors, tuned.metric) == ("climb", Climb().factors, "height")

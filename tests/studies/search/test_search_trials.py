"""Trials as cells: what is trained, on which examples, and what comes out."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import optuna
import pytest
from search_cases import Climb, height, luck
from search_stages import Search, seeds_of, small_task

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.synthetic import Synthetic, score
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import run_cell
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.studies.search.cells import TrialMaker, search_key
from mlflow_l3d.studies.search.results import reports_in
from mlflow_l3d.studies.search.trials import TrialReport, Tuned, mean_curves


def run(search: Search, *settings: dict[str, object]) -> list[Outcome]:
    """Run trials in one session, without Optuna."""
    session = search.tuned.prepare(search.task, search.job.hyperparameters, model="", device="cpu", cache=search.folder)
    cells = [search.maker(params, number) for number, params in enumerate(settings)]
    outcomes = [run_cell(session, cell, search.job) for cell in cells]
    session.close()
    return outcomes


def test_a_trial_is_scored_by_the_mean_over_its_configurations(tmp_path: Path) -> None:
    search = Search(tmp_path, configurations=3)
    (outcome,) = run(search, {"x": 0.5, "kind": "b"})
    end = height(0.5, "b") * (1 - 0.5**8)
    scores = [end + luck(seeds) for seeds in seeds_of(3)]
    assert outcome.metrics["score"] == pytest.approx(np.mean(scores))
    assert outcome.metrics["score_std"] == pytest.approx(np.std(scores, ddof=1))
    assert outcome.metrics["epochs_done"] == 24
    assert outcome.metrics["configurations_done"] == 3
    assert outcome.metrics["pruned"] == 0
    assert outcome.predictions is None
    assert len(outcome.curves["validation_height"]) == 8
    assert outcome.curves["validation_height"][-1] == pytest.approx(np.mean(scores))


@pytest.mark.parametrize(("many", "calls"), [(1, ["1"] * 5), (2, ["2", "2", "1"]), (64, ["5"])])
def test_configurations_share_calls_and_stay_in_their_order(tmp_path: Path, many: int, calls: list[str]) -> None:
    search = Search(tmp_path, Climb(many=many), configurations=5)
    (outcome,) = run(search, {"x": 0.3, "kind": "b"})
    assert [line[1] for line in search.trace.lines("call")] == calls
    assert (
        outcome.metrics["score"] == run(Search(tmp_path, configurations=5), {"x": 0.3, "kind": "b"})[0].metrics["score"]
    )


def test_the_inner_session_stays_while_the_hyperparameters_do(tmp_path: Path) -> None:
    search = Search(tmp_path)
    run(search, {"x": 0.1}, {"x": 0.1}, {"x": 0.2}, {"x": 0.1})
    assert [line[1] for line in search.trace.lines("prepare")] == ["0.1", "0.2", "0.1"]
    everything = [line[0] for line in search.trace.lines() if line[0] in {"prepare", "close"}]
    assert everything == ["prepare", "close"] * 3


def test_no_trial_sees_a_test_example(tmp_path: Path) -> None:
    asked = []

    class Spy(Climb):
        def prepare(self, task, hyperparameters, **kwargs):
            asked.append(task)
            return super().prepare(task, hyperparameters, **kwargs)

    search = Search(tmp_path, Spy(), metric="accuracy", configurations=2)
    (outcome,) = run(search, {"x": 0.3, "kind": "b"})
    scores = []
    for seeds in seeds_of(2):
        whole, seen = search.task.split(seeds), asked[0].split(seeds)
        assert np.array_equal(seen.train, whole.train)
        assert np.array_equal(seen.test, whole.validation)
        assert not set(whole.test) & {*seen.train, *seen.validation, *seen.test}
        n = len(whole.validation)
        scores.append(round(((0.9 * (1 - 0.5**8)) + luck(seeds)) * n) / n)
    assert outcome.metrics["score"] == pytest.approx(np.mean(scores))


def test_any_approach_can_be_tuned_by_a_metric_of_its_own(tmp_path: Path) -> None:
    approach = Synthetic()
    task, base = small_task(), resolve_hyperparameters(approach, {})
    key = search_key(task, approach, model_revision="none", numerics={}, metric="synthetic_score")
    seeds = {factor: number for number, factor in enumerate(approach.factors)}
    maker = TrialMaker(approach, {}, key, (seeds,))
    tuned = Tuned(approach, metric="synthetic_score")
    job = Job(tuned, task, base, "", "cpu", tmp_path)
    session = tuned.prepare(task, base, model="", device="cpu", cache=tmp_path)
    outcome = run_cell(session, maker({"a_data_order": 3.0}, 0), job)
    assert outcome.metrics["score"] == score(seeds, {**base, "a_data_order": 3.0})


def test_what_fails_inside_fails_the_trial_and_not_the_next(tmp_path: Path) -> None:
    search = Search(tmp_path, configurations=2)
    broken, unprepared, fine = run(search, {"kind": "broken"}, {"kind": "unprepared"}, {"kind": "b"})
    assert broken.error == "configuration 0: RuntimeError: this kind is broken"
    assert broken.traceback is not None
    assert unprepared.error == "approach climb could not be prepared: RuntimeError: cannot be prepared"
    assert fine.error is None


def test_a_metric_that_the_approach_does_not_have_is_named(tmp_path: Path) -> None:
    (outcome,) = run(Search(tmp_path, metric="depth"), {"kind": "b"})
    assert outcome.error is not None
    assert outcome.error.startswith("metric=depth: approach climb did not return it, it returned accuracy, f1_macro,")


def test_the_key_is_that_of_the_result() -> None:
    task, approach = small_task(), Climb()

    def key(task=task, approach=approach, metric="height", params=None, number=0, seeds=None) -> str:
        shared = search_key(task, approach, model_revision="none", numerics={}, metric=metric)
        return TrialMaker(approach, {}, shared, seeds or seeds_of(1))(params or {}, number).key

    same = [key(), key(number=7), key(params={"x": 0.9}), key(params={"x": "0.9"})]
    same.append(key(task=small_task(evaluated="validation")))
    assert len(set(same)) == 1
    other = [
        key(task=replace(task, settings=replace(task.settings, num_labelled=42))),
        key(task=replace(task, fingerprint="other")),
        key(approach=Climb(version="2")),
        key(metric="accuracy"),
        key(params={"x": 0.8}),
        key(seeds=seeds_of(2)),
        key(seeds=seeds_of(1, root=1)),
    ]
    assert len({*other, same[0]}) == len(other) + 1


def test_cells_and_the_approach_survive_pickling_and_carry_their_name(tmp_path: Path) -> None:
    search = Search(tmp_path, configurations=2)
    cell = search.maker({"x": 0.25}, 4, (optuna.trial.create_trial(value=0.5, intermediate_values={0: 0.25}),))
    assert pickle.loads(pickle.dumps(cell)) == cell
    assert (cell.name, cell.index) == ("trial 4", 4)
    assert cell.seeds == seeds_of(1)[0]
    assert pickle.loads(pickle.dumps(search.tuned)).name == "climb"


def test_settings_that_the_approach_refuses_are_an_error_of_the_maker(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="is too far for kind=a"):
        Search(tmp_path).maker({"x": 0.99, "kind": "a"}, 0)


def test_curves_of_unequal_length_are_averaged_over_those_that_go_on() -> None:
    assert mean_curves([{"a": [1, 2, 3], "b": []}, {"a": [3.0], "c": [5]}, {}]) == {"a": [2, 2, 3], "c": [5]}


@pytest.mark.parametrize("reports_epochs", [True, False])
def test_trials_that_report_end_as_silent_ones_do_where_nothing_is_pruned(tmp_path: Path, reports_epochs: bool) -> None:
    settings = {"x": 0.4, "kind": "b"}
    search = Search(tmp_path, Climb(reports_epochs=reports_epochs), pruner="median", configurations=2)
    (outcome,) = run(search, settings)
    (unwatched,) = run(Search(tmp_path, configurations=2), settings)
    assert outcome.metrics == unwatched.metrics
    assert outcome.curves == unwatched.curves
    assert unwatched.logged is None
    reported = reports_in(outcome.logged.metrics) if outcome.logged else {}
    if not reports_epochs:
        assert reported == {}
        return
    first, second = ([height(0.4, "b") * (1 - 0.5 ** (e + 1)) + luck(s) for e in range(8)] for s in seeds_of(2))
    assert [reported[step] for step in range(8)] == pytest.approx(first)
    assert [reported[1000 + step] for step in range(8)] == pytest.approx([(first[-1] + v) / 2 for v in second])
    assert len(reported) == 16


@pytest.mark.parametrize("number", [0, 1])
def test_only_the_first_trial_is_spared(tmp_path: Path, number: int) -> None:
    """It is the setting that was given."""
    search = Search(tmp_path, pruner="median")
    report = TrialReport(search.maker({}, number), search.tuned)
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
    cell = TrialMaker(Climb(), {}, "key", seeds_of(1))({}, 5, earlier)
    tuned = Tuned(Climb(), metric="height", pruner="median", greater_is_better=greater_is_better)
    report = TrialReport(cell, tuned)
    report.begin([])
    told = [report.on_epoch_end("key", epoch, {"validation_height": score}) for epoch in range(2)]
    assert told == [False, ends == greater_is_better]

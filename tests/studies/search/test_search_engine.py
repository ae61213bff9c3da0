"""A stage of a search: nothing is trained twice, nothing is lost, and the best setting is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from search_cases import BEST, Climb
from search_stages import Search

from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.studies.search.request import specify_search
from mlflow_l3d.studies.search.space import grid_settings
from mlflow_l3d.studies.search.trials import FinishedTrial, best_trial
from mlflow_l3d.tasks.base import TaskKind
from mlflow_l3d.tasks.identity import make_task


def test_the_best_setting_is_found_with_the_defaults_first(tmp_path: Path) -> None:
    search = Search(tmp_path)
    defaults = {"x": 0.9, "kind": "a"}
    trials, heard = search.run(30, [defaults])
    assert [trial.number for trial in trials] == list(range(30))
    assert dict(trials[0].params) == defaults
    best = best_trial(trials)
    assert best.params["kind"] == BEST["kind"]
    assert best.params["x"] == pytest.approx(BEST["x"], abs=0.1)
    assert best.hyperparameters == {"x": best.params["x"], "kind": "b", "epochs": 8}
    assert best.score == pytest.approx(search.expected(best.params["x"], "b")[0])
    assert best.score > trials[0].score
    assert [trial for trial, _ in heard] == trials
    assert all(outcome is not None for trial, outcome in heard if trial.key)
    assert all(trial.reports == {} for trial in trials), "without a pruner nothing is reported"


def test_settings_are_asked_for_as_they_are_needed(tmp_path: Path) -> None:
    search, running = Search(tmp_path), []

    def listen(trial: FinishedTrial, outcome: Any) -> None:
        running.append(len(stage_run.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))))

    stage_run = search.stage(listen, 6)
    stage_run.run(InlineExecutor(job=search.job))
    assert running == [1] * 6


@pytest.mark.slow
def test_workers_train_trials_side_by_side_and_prune(tmp_path: Path) -> None:
    search = Search(tmp_path, Climb(seconds=0.005), settings={"pruner": "median", "hyperparameters": "epochs=10"})
    good = [{"x": 0.2 + 0.01 * number, "kind": "b"} for number in range(10)]  # each better than before
    bad = [{"x": 1.0, "kind": "b"}, {"x": 0.9, "kind": "a"}, {"x": 0.8, "kind": "a"}]
    trials, heard = search.run(13, [*good, *bad], ProcessExecutor(job=search.job, workers=2))
    assert sorted(trial.number for trial, _ in heard) == list(range(13))
    assert {trial.state for trial in trials[10:]} == {"pruned"}
    for trial, outcome in heard:
        epochs = int(outcome.metrics["epochs_done"])
        assert (epochs < 5) if trial.number >= 10 else (epochs == 10)
        assert outcome.metrics["pruned"] == (trial.state == "pruned")
        assert trial.score == pytest.approx(search.expected(trial.params["x"], trial.params["kind"], epochs)[0])
    assert len(search.trace.lines("epoch")) == sum(outcome.metrics["epochs_done"] for _, outcome in heard)
    assert best_trial(trials).params["x"] == pytest.approx(0.29)


def test_a_pruned_trial_has_no_further_configuration(tmp_path: Path) -> None:
    search = Search(tmp_path, settings={"pruner": "median", "search_seeds": 3})
    good = [{"x": 0.26 + 0.01 * number, "kind": "b"} for number in range(6)]
    trials, heard = search.run(7, [*good, {"x": 0.9, "kind": "a"}])
    assert [trial.state for trial in trials] == ["complete"] * 6 + ["pruned"]
    assert [outcome.metrics["configurations_done"] for _, outcome in heard] == [3] * 6 + [1]
    assert search.trained() == 6 * 3 + 1


def test_a_repeated_setting_takes_the_score_of_the_first(tmp_path: Path) -> None:
    search = Search(tmp_path, settings={"space": "kind=a|b,epochs=7|8", "fine_sampler": "random"})
    trials, heard = search.run(25)
    assert search.trained() == 4
    assert [trial.origin for trial in trials].count("repeated") == 21
    for trial in trials:
        expected = search.expected(0.9, trial.params["kind"], int(trial.params["epochs"]))
        assert [trial.score] == pytest.approx(expected)
    assert [outcome is None for _, outcome in heard] == [trial.origin == "repeated" for trial in trials]


def test_a_setting_that_is_being_trained_is_waited_for(tmp_path: Path) -> None:
    class Greedy:
        """Takes every cell before it trains the first."""

        def run(self, cells):
            yield from InlineExecutor(job=search.job).run(iter(list(cells)))

    search = Search(tmp_path, settings={"space": "kind=a|broken", "fine_sampler": "random"})
    trials, heard = search.run(12, executor=Greedy())
    assert (search.trained(), len(heard)) == (2, 12)
    assert {trial.state for trial in trials if trial.params["kind"] == "a"} == {"complete"}
    assert {trial.error for trial in trials if trial.params["kind"] == "broken"} == {
        "RuntimeError: this kind is broken"
    }


def test_scores_that_are_known_are_not_computed_again(tmp_path: Path) -> None:
    search = Search(tmp_path)
    key = search.request.trial_cell({"x": 0.5, "kind": "b"}, 0).key
    known = {key: FinishedTrial(0, {}, {}, key, "complete", 0.987, "known")}
    trials, heard = search.run(2, [{"x": 0.5, "kind": "b"}, {"x": 0.6, "kind": "b"}], known_trials=known)
    assert [trial.origin for trial in trials] == ["known", "trained"]
    assert trials[0].score == 0.987
    assert heard[0][1] is None
    assert search.trained() == 1


@pytest.mark.slow
def test_failed_trials_count_and_the_others_go_on(tmp_path: Path) -> None:
    search = Search(tmp_path, settings={"space": "x,kind=a|b|broken|deadly"})
    settings = [{"x": 0.1, "kind": "broken"}, {"x": 1.0, "kind": "a"}, {"x": 0.3, "kind": "deadly"}]
    trials, _ = search.run(4, [*settings, {"x": 0.2, "kind": "b"}], ProcessExecutor(job=search.job, workers=1))
    assert [trial.state for trial in trials] == ["failed", "failed", "failed", "complete"]
    assert trials[0].error == "RuntimeError: this kind is broken"
    assert trials[1].error == "hyperparameters.x=1.0: is too far for kind=a."
    assert trials[1].hyperparameters == {}
    assert "2 times" in str(trials[2].error), "it ends its worker"


class KilledError(Exception):
    """Stands for the end of the process."""


class Kill:
    """An executor that ends the process, as it were, at the cell with the number `ends`."""

    def __init__(self, search: Search, ends: int) -> None:
        self.search, self.ends = search, ends

    def run(self, cells):
        for number, cell in enumerate(cells):
            if number == self.ends:
                raise KilledError
            yield from InlineExecutor(job=self.search.job).run([cell])


def recovered(trials: Sequence[FinishedTrial]) -> dict[str, Any]:
    """Return what the recorder has of trials that ended."""
    ended = [trial for trial in trials if trial.state != "failed"]
    known = {
        trial.key: FinishedTrial(0, {}, {}, trial.key, trial.state, trial.score, "known", reports=trial.reports)
        for trial in ended
    }
    return {"known_trials": known, "recorded_settings": {trial.number: trial.hyperparameters for trial in ended}}


def killed_after(search: Search, trials: int, ends: int, **before: Any) -> dict[str, Any]:
    """Run a stage and end it as a kill would, while a trial runs; return what the recorder has of it."""
    heard: list[FinishedTrial] = []
    with pytest.raises(KilledError):
        search.stage(lambda trial, _: heard.append(trial), trials, **before).run(Kill(search, ends))
    return recovered(heard)


@pytest.mark.parametrize(("sampler", "seeds"), [("tpe", 1), ("tpe", 2), ("random", 2)])
def test_a_killed_search_draws_and_prunes_as_it_would_have(sampler: str, seeds: int, tmp_path: Path) -> None:
    settings = {"pruner": "median", "fine_sampler": sampler, "search_seeds": seeds}
    expected, _ = Search(tmp_path / "quiet", settings=settings).run(12)
    disturbed, before = Search(tmp_path / "disturbed", settings=settings), {}
    for ends in (2, 6):
        before = killed_after(disturbed, 12, ends, **before)
    trials, _ = disturbed.run(12, **before)
    assert repr(trials) == repr(expected)  # nan is not equal to itself
    assert "pruned" in {trial.state for trial in trials}
    assert len({trial.params["x"] for trial in expected}) == 12


def test_what_other_workers_had_ended_keeps_its_number_and_setting(tmp_path: Path) -> None:
    """What TPE suggests with several workers depends on what was done: what is recorded is tried again as it was."""
    search = Search(tmp_path)
    first, _ = search.run(4)
    other = {"x": 0.123, "kind": "b"}
    [own], _ = search.run(1, [other])
    before = recovered([*first[:2], first[3]])
    before["known_trials"] |= recovered([own])["known_trials"]
    before["recorded_settings"][5] = own.hyperparameters
    calls = search.trained()
    trials, _ = search.run(6, **before)
    assert [*trials[:2], trials[3]] == [*first[:2], first[3]]
    assert trials[5].params == other
    assert search.trained() == calls + 2


def test_the_second_level_begins_with_the_best_of_the_first(tmp_path: Path) -> None:
    coarse = Search(tmp_path)
    grid = grid_settings(coarse.space, trials=9, seed=0)
    first, _ = coarse.run(1 + len(grid), [{"x": 0.9, "kind": "a"}, *grid])
    assert len(first) == 7
    assert coarse.trained() == 6, "the approach refuses x=1 of kind a"
    best = best_trial(first)
    assert best.params == {"x": 0.5, "kind": "b"}
    fine = Search(tmp_path, space=coarse.space.around(best.params))
    trials, heard = fine.run(12, best=best)
    assert coarse.trained() == 6 + 12
    assert (trials[0].origin, trials[0].score, trials[0].key) == ("taken over", best.score, best.key)
    assert [trial.number for trial in trials] == [*range(13)]
    assert len(heard) == 12
    assert {trial.hyperparameters["kind"] for trial in trials} == {"b"}
    assert best_trial(trials).score > best.score


def test_defaults_outside_the_space_are_tried_all_the_same(tmp_path: Path) -> None:
    search = Search(tmp_path, settings={"space": "x=0..0.5,kind=b|broken", "pruner": "median"})
    trials, _ = search.run(4, [{"x": 0.9, "kind": "a"}])
    assert trials[0].hyperparameters == {"x": 0.9, "kind": "a", "epochs": 8}
    assert [trials[0].score] == pytest.approx(search.expected(0.9, "a"))
    assert all(trial.hyperparameters["x"] <= 0.5 for trial in trials[1:])


def test_the_executor_is_closed_when_a_listener_gives_up(tmp_path: Path) -> None:
    search, closed = Search(tmp_path), []

    class Closing:
        def run(self, cells):
            try:
                yield from InlineExecutor(job=search.job).run(cells)
            finally:
                closed.append(True)

    def give_up(trial: FinishedTrial, outcome: Any) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        search.stage(give_up, 3).run(Closing())
    assert closed == [True]


@pytest.mark.parametrize("pruner", ["median", "percentile", "successivehalving", "hyperband", "wilcoxon"])
def test_every_pruner_works_from_reports(tmp_path: Path, pruner: str) -> None:
    settings: Mapping[str, Any] = {"pruner": pruner, "fine_sampler": "random", "search_seeds": 2}
    trials, _ = Search(tmp_path, settings=settings).run(12, [{"x": 0.3, "kind": "b"}, {"x": 0.35, "kind": "b"}])
    assert trials[0].state == "complete"
    assert all(trial.reports for trial in trials if trial.key)
    if pruner != "wilcoxon":
        assert "pruned" in {trial.state for trial in trials}


@pytest.mark.parametrize(
    ("kind", "labels", "metric"),
    [
        ("classification", [0, 1], "f1_macro"),
        ("regression", [0.5, 2.5], "pearson"),
        ("multiple_choice", [0, 1], "accuracy"),
        ("tagging", [["O"], ["B-X"]], "token_accuracy"),
    ],
)
def test_by_default_trials_are_scored_as_an_investigation_is(kind: TaskKind, labels: Any, metric: str) -> None:
    texts = [f"word{number}" for number in range(80)]
    given: dict[str, Any] = {"class_names": ("a", "b")} if kind == "classification" else {}
    given |= {"choices": [texts, texts[::-1]]} if kind == "multiple_choice" else {}
    task = make_task("any", [texts], labels * 40, kind=kind, **given)
    declared = {"x": Hyperparameter(0.5, "any", 0.0, 1.0)}
    given = {"factors": (), "hyperparameters": declared, "task_kinds": [kind]}
    approach = FunctionApproach(lambda *_: [], name="any", version="1", **given)
    sizes = {"space": "x", "num_labelled": 20, "test_size": 10}
    request = specify_search(sizes, approach=approach, task=task)
    assert request.metric.name == metric

"""A stage of a search: nothing is trained twice, nothing is lost, and the best setting is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from search_cases import BEST, Climb, height, luck
from search_stages import Search, seeds_of, space_of

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.studies.search.results import Ending, FinishedTrial, best_of
from mlflow_l3d.studies.search.samplers import grid_settings

Setting = Mapping[str, Value]


def stage(search: Search, trials: int, queue: Sequence[Setting] = (), executor: Any = None, best=None, **before: Any):
    """Run a stage; return all its trials and those that ended in this call, in the order of their ends."""
    heard: list[FinishedTrial] = []
    executor = executor or InlineExecutor(job=search.job)
    return search.stage(heard.append, **before).run(trials, executor, queue, best=best), heard


def trained(search: Search) -> int:
    return len(search.trace.lines("call"))


def final(x: float, kind: str, epochs: int = 8) -> float:
    return height(x, kind) * (1 - 0.5**epochs) + luck(seeds_of(1)[0])


def test_the_best_setting_is_found_with_the_defaults_first(tmp_path: Path) -> None:
    search = Search(tmp_path)
    defaults = {"x": 0.9, "kind": "a"}
    found, heard = stage(search, 30, [defaults])
    assert [trial.number for trial in found] == list(range(30))
    assert dict(found[0].params) == defaults
    best = best_of(found)
    assert best is not None
    assert best.score is not None
    assert best.params["kind"] == BEST["kind"]
    assert best.params["x"] == pytest.approx(BEST["x"], abs=0.1)
    assert best.hyperparameters == {"x": best.params["x"], "kind": "b", "epochs": 8}
    assert best.score == pytest.approx(final(best.params["x"], "b"))
    assert best.score > found[0].score
    assert heard == found
    assert all(trial.cell is not None and trial.outcome is not None for trial in heard)


def test_a_grid_is_tried_whole_and_once(tmp_path: Path) -> None:
    search = Search(tmp_path, sampler="random")
    default = {"x": 1.0, "kind": "b"}
    queue = [default, *grid_settings(search.space, trials=20, seed=0, done=[default])]
    found, _ = stage(search, len(queue), queue)
    assert len(found) == 6
    assert trained(search) == 5  # the approach refuses x=1 of kind a
    assert {(trial.params["x"], trial.params["kind"]) for trial in found} == {
        (x, kind) for x in (0.0, 0.5, 1.0) for kind in "ab"
    }


def test_settings_are_asked_for_as_they_are_needed(tmp_path: Path) -> None:
    search = Search(tmp_path)
    seen = []

    def listen(trial: FinishedTrial) -> None:
        seen.append(len(run.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))))

    run = search.stage(listen)
    run.run(6, InlineExecutor(job=search.job), best=None)
    assert seen == [1] * 6


@pytest.mark.slow
def test_workers_train_trials_side_by_side_and_prune(tmp_path: Path) -> None:
    search = Search(tmp_path, Climb(seconds=0.005), pruner="median", base={"epochs": 10})
    good = [{"x": 0.2 + 0.01 * number, "kind": "b"} for number in range(10)]  # each better than before
    bad = [{"x": 1.0, "kind": "b"}, {"x": 0.9, "kind": "a"}, {"x": 0.8, "kind": "a"}]
    found, heard = stage(search, 13, [*good, *bad], pool(search))
    assert sorted(trial.number for trial in heard) == list(range(13))
    assert {trial.state for trial in found[10:]} == {"pruned"}
    for trial in heard:
        epochs = trial.outcome.metrics["epochs_done"]
        assert (epochs < 5) if trial.number >= 10 else (epochs == 10)
        assert trial.outcome.metrics["pruned"] == (trial.state == "pruned")
        assert trial.score == pytest.approx(final(trial.params["x"], trial.params["kind"], int(epochs)))
    whole = sum(trial.outcome.metrics["epochs_done"] for trial in heard)
    assert len(search.trace.lines("epoch")) == whole < 10 * 10 + 3 * 5
    best = best_of(found)
    assert best is not None
    assert best.params["x"] == pytest.approx(0.29)


def test_a_pruned_trial_has_no_further_configuration(tmp_path: Path) -> None:
    search = Search(tmp_path, pruner="median", configurations=3)
    good = [{"x": 0.26 + 0.01 * number, "kind": "b"} for number in range(6)]
    found, heard = stage(search, 7, [*good, {"x": 0.9, "kind": "a"}])
    assert [trial.state for trial in found] == ["complete"] * 6 + ["pruned"]
    assert heard[-1].outcome.metrics["configurations_done"] == 1
    assert trained(search) == 6 * 3 + 1
    assert heard[0].outcome.metrics["configurations_done"] == 3


def test_without_a_pruner_nothing_is_reported(tmp_path: Path) -> None:
    found, _ = stage(Search(tmp_path), 3)
    assert all(trial.reports == {} for trial in found)


def test_a_repeated_setting_takes_the_known_score(tmp_path: Path) -> None:
    search = Search(tmp_path, space=space_of("kind=a|b,epochs=7|8"), sampler="random")
    found, heard = stage(search, 25)
    assert len(found) == 25
    assert trained(search) == 4
    assert [trial.origin for trial in found].count("repeated") == 21
    for trial in found:
        expected = final(0.9, trial.params["kind"], int(trial.params["epochs"]))
        assert trial.score == pytest.approx(expected)
    assert [trial.outcome is None for trial in heard] == [trial.origin == "repeated" for trial in heard]


def test_a_setting_that_is_being_trained_is_waited_for(tmp_path: Path) -> None:
    class Greedy:
        """Takes every cell before it trains the first."""

        def run(self, cells):
            yield from InlineExecutor(job=search.job).run(iter(list(cells)))

    search = Search(tmp_path, space=space_of("kind=a|broken"), sampler="random")
    found, heard = stage(search, 12, executor=Greedy())
    assert trained(search) == 2
    assert {trial.state for trial in found if trial.params["kind"] == "a"} == {"complete"}
    assert {trial.error for trial in found if trial.params["kind"] == "broken"} == {"RuntimeError: this kind is broken"}
    assert len(heard) == 12


def test_scores_that_are_known_are_not_computed_again(tmp_path: Path) -> None:
    search = Search(tmp_path)
    known = {search.maker({"x": 0.5, "kind": "b"}, 0).key: Ending("complete", 0.987)}
    found, heard = stage(search, 2, [{"x": 0.5, "kind": "b"}, {"x": 0.6, "kind": "b"}], known=known)
    assert [trial.origin for trial in found] == ["known", "trained"]
    assert found[0].score == 0.987
    assert heard[0].cell is not None
    assert heard[0].outcome is None
    assert trained(search) == 1


def test_failed_trials_count_and_the_others_go_on(tmp_path: Path) -> None:
    search = Search(tmp_path, space=space_of("x,kind=a|b|broken"))
    queue = [{"x": 0.1, "kind": "broken"}, {"x": 1.0, "kind": "a"}, {"x": 0.2, "kind": "b"}]
    found, heard = stage(search, 3, queue)
    assert [trial.state for trial in found] == ["failed", "failed", "complete"]
    assert found[0].error == "RuntimeError: this kind is broken"
    assert found[1].error == "hyperparameters.x=1.0: is too far for kind=a."
    assert heard[1].cell is None
    assert heard[1].hyperparameters == {}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("broken", "RuntimeError: this kind is broken"), ("unprepared", "approach climb could not be prepared: Runtime")],
)
def test_where_all_fail_the_first_is_named(tmp_path: Path, kind: str, reason: str) -> None:
    search = Search(tmp_path, space=space_of("x"), base={"kind": kind})
    with pytest.raises(L3DError, match=f"all 3 fine trials failed; the first: {reason}"):
        stage(search, 3)


def test_a_setting_that_ends_its_worker_is_a_failed_trial(tmp_path: Path) -> None:
    search = Search(tmp_path, space=space_of("x,kind=b|deadly"), pruner="median")
    queue = [{"x": 0.3, "kind": "deadly"}, {"x": 0.3, "kind": "b"}]
    found, _ = stage(search, 2, queue, ProcessExecutor(job=search.job, workers=1))
    assert [trial.state for trial in found] == ["failed", "complete"]
    assert "2 times" in str(found[0].error)


def pool(search: Search) -> ProcessExecutor:
    return ProcessExecutor(job=search.job, workers=2)


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


def killed_after(search: Search, trials: int, queue: Sequence[Setting], ends: int, **before: Any) -> dict[str, Any]:
    """Run a stage and end it as a kill would, while a trial runs; return what the recorder knows of it."""
    heard: list[FinishedTrial] = []
    with pytest.raises(KilledError):
        search.stage(heard.append, **before).run(trials, Kill(search, ends), queue, best=None)
    return recovered(heard)


def recovered(heard: Sequence[FinishedTrial]) -> dict[str, Any]:
    ended = [trial for trial in heard if trial.state != "failed"]
    return {
        "known": {trial.key: Ending(trial.state, trial.score or 0.0, trial.reports) for trial in ended},
        "recorded": {trial.number: trial.hyperparameters for trial in ended},
    }


def test_a_killed_search_goes_on(tmp_path: Path) -> None:
    search = Search(tmp_path, pruner="median")
    queue = [{"x": 0.9, "kind": "a"}, *({"x": 0.1 * number, "kind": "b"} for number in range(5))]
    before = killed_after(search, 9, queue, 3)
    assert sorted(before["recorded"]) == [0, 1, 2]
    found, heard = stage(search, 9, queue, **before)
    assert found == heard
    assert [trial.number for trial in found] == [*range(9)]
    assert [trial.params for trial in found[:6]] == queue
    assert {trial.origin for trial in found} == {"trained"}
    assert trained(search) == 9 - sum(trial.error is not None for trial in found)


@pytest.mark.parametrize("name", ["tpe", "random"])
@pytest.mark.parametrize("configurations", [1, 2])
def test_a_killed_search_draws_and_prunes_as_it_would_have(name: str, configurations: int, tmp_path: Path) -> None:
    def new(folder: str) -> Search:
        (place := tmp_path / folder).mkdir()
        return Search(place, pruner="median", sampler=name, configurations=configurations)

    expected, _ = stage(new("quiet"), 12)
    disturbed, before = new("disturbed"), {}
    for ends in (2, 6):
        before = killed_after(disturbed, 12, (), ends, **before)
    found, _ = stage(disturbed, 12, **before)
    assert found == expected
    assert "pruned" in {trial.state for trial in found}
    assert len({trial.params["x"] for trial in expected}) == 12


def test_what_other_workers_had_ended_keeps_its_number_and_setting(tmp_path: Path) -> None:
    """What TPE suggests with several workers depends on what was done: what is recorded is tried again as it was."""
    search = Search(tmp_path)
    _, heard = stage(search, 4)
    other = {"x": 0.123, "kind": "b"}
    _, [own] = stage(search, 1, [other])
    before = recovered([*heard[:2], heard[3]])
    before["known"][own.key] = Ending("complete", own.score)
    before["recorded"][5] = own.hyperparameters
    calls = trained(search)
    found, _ = stage(search, 6, **before)
    assert found[:2] == heard[:2]
    assert found[3] == heard[3]
    assert found[5].params == other
    assert trained(search) == calls + 2


def test_the_second_level_begins_with_the_best_of_the_first(tmp_path: Path) -> None:
    coarse = Search(tmp_path, sampler="random")
    queue = [{"x": 0.9, "kind": "a"}, *grid_settings(coarse.space, trials=9, seed=0)]
    first, _ = stage(coarse, len(queue), queue)
    best = best_of(first)
    assert best is not None
    assert best.params == {"x": 0.5, "kind": "b"}

    fine = Search(tmp_path, space=coarse.space.around(best.params))
    before = trained(coarse)
    found, heard = stage(fine, 12, best=best)
    assert trained(coarse) == before + 12
    assert (found[0].origin, found[0].score, found[0].key) == ("taken over", best.score, best.key)
    assert found[0].hyperparameters == best.hyperparameters
    assert [trial.number for trial in found] == [*range(13)]
    assert len(heard) == 12
    assert all(trial.hyperparameters["kind"] == "b" for trial in found)
    better = best_of(found)
    assert better is not None
    assert better.score is not None
    assert best.score is not None
    assert better.score > best.score


def test_defaults_outside_the_space_are_tried_all_the_same(tmp_path: Path) -> None:
    search = Search(tmp_path, space=space_of("x=0..0.5,kind=b|broken"), pruner="median")
    found, _ = stage(search, 4, [{"x": 0.9, "kind": "a"}])
    assert found[0].hyperparameters == {"x": 0.9, "kind": "a", "epochs": 8}
    assert found[0].score == pytest.approx(final(0.9, "a"))
    assert all(trial.hyperparameters["x"] <= 0.5 for trial in found[1:])


def test_the_executor_is_closed_when_a_listener_gives_up(tmp_path: Path) -> None:
    closed = []

    class Closing:
        def run(self, cells):
            try:
                yield from InlineExecutor(job=search.job).run(cells)
            finally:
                closed.append(True)

    def listen(trial: FinishedTrial) -> None:
        raise KilledError

    search = Search(tmp_path)
    with pytest.raises(KilledError):
        search.stage(listen).run(3, Closing(), best=None)
    assert closed == [True]


def test_zero_is_a_seed_and_the_same_one_gives_the_same_search(tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        (folder := tmp_path / name).mkdir()
        found.append(stage(Search(folder, Climb()), 8)[0])
    assert found[0] == found[1]


@pytest.mark.parametrize("pruner", ["median", "percentile", "successivehalving", "hyperband", "wilcoxon"])
def test_every_pruner_works_from_reports(tmp_path: Path, pruner: str) -> None:
    search = Search(tmp_path, pruner=pruner, sampler="random", configurations=2)
    found, _ = stage(search, 9, [{"x": 0.3, "kind": "b"}])
    assert found[0].state == "complete"
    assert {trial.state for trial in found} <= {"complete", "pruned", "failed"}
    assert all(trial.reports for trial in found if trial.key)
    assert all(trial.score is not None for trial in found if trial.state == "pruned")


@pytest.mark.parametrize("pruner", ["successivehalving", "hyperband"])
def test_pruners_that_note_with_a_trial_how_far_it_came_prune(tmp_path: Path, pruner: str) -> None:
    search = Search(tmp_path, pruner=pruner, sampler="random")
    queue = [{"x": 0.3 + 0.05 * number, "kind": "b"} for number in range(12)]
    found, _ = stage(search, 12, queue)
    assert "pruned" in {trial.state for trial in found}

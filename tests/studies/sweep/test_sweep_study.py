"""A sweep as it runs: cells of separate commands, breadth first, shared, within a budget, continued, and evaluated."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from refusals import refuses
from run_helpers import SMALL, Hooked, Place, copied, sqlite_place

from mlflow_l3d import delete, evaluate, plan_sweep, sweep
from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.sweep import engine
from mlflow_l3d.studies.sweep.point import PointStudy
from mlflow_l3d.studies.sweep.run import Sweep
from mlflow_l3d.tracking.opening import BusyError

pytestmark = pytest.mark.slow

NOISE = [0, 0.1, 0.2]
SIZES: dict[str, Any] = {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 2}
CELLS = 6
"""Cells of a point with these sizes, three a row."""
LONGER = {"mitigation_runs": 3, "golden_runs": 3}
"""One row more."""


def run(**parameters: Any) -> Any:
    return sweep(**{**SMALL, "executor": "inline", **SIZES, **parameters})


def points_of(place: Place, run_id: str) -> list[Any]:
    return place.runs(f"tags.`mlflow.parentRunId` = '{run_id}'")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, Sweep]:
    with sqlite_place(migrated_store, tmp_path_factory.mktemp("swept")).entered() as place:
        return place, run(over={"noise": NOISE})


@pytest.fixture
def again(swept: tuple[Place, Sweep], tmp_path: Path) -> Iterator[tuple[Place, Sweep]]:
    """Let the test work in a copy of that place."""
    with copied(swept[0], tmp_path / "copy").entered() as place:
        yield place, swept[1]


def test_three_levels_of_runs(swept: tuple[Place, Sweep]) -> None:
    place, found = swept
    study = place.client.get_run(found.run_id)
    assert study.data.tags["l3d.role"] == "sweep"
    assert (study.info.status, study.data.tags["l3d.state"]) == ("FINISHED", "complete")
    assert study.data.metrics["points_complete"] == study.data.metrics["points"] == len(NOISE)
    parents = points_of(place, found.run_id)
    assert [point.run_id for point in found.points] == [parent.info.run_id for parent in parents]
    for parent, noise in zip(parents, NOISE, strict=True):
        assert parent.data.tags["l3d.sweep"] == found.run_id
        assert parent.data.params["choice.noise"] == f"{noise:g}"
        assert float(parent.data.params["hyperparameter.noise"]) == noise
        assert set(parent.data.params) >= {f"hyperparameter.{name}" for name in Synthetic.hyperparameters}
        assert parent.info.run_name.startswith(f"noise={noise:g} | ")
        cells = place.cells(parent.info.run_id)
        assert len(cells) == CELLS
        assert {cell.info.status for cell in cells} == {"FINISHED"}
    document = json.loads(place.download(found.run_id, "sweep.json", place.cache).read_text())
    assert [point["choices"] for point in document["points"]] == [{"noise": noise} for noise in NOISE]
    assert place.spooled() == set()


def test_keys_numbers_and_predictions_are_those_of_separate_commands(
    swept: tuple[Place, Sweep], place: Place, tmp_path: Path
) -> None:
    there, found = swept
    for point, noise in list(zip(found.points, NOISE, strict=True))[1:]:
        alone = place.investigate(**SIZES, hyperparameters=f"noise={noise}")
        first, second = place.client.get_run(alone.run_id), there.client.get_run(point.run_id)
        for tag in ("l3d.investigation_key", "l3d.context_key", "l3d.factor", "l3d.state"):
            assert first.data.tags[tag] == second.data.tags[tag]
        assert first.data.metrics == second.data.metrics
        for name in ("predictions.parquet", "cells.parquet"):
            one, two = (
                pd.read_parquet(where.download(run_id, name, tmp_path)).drop(
                    columns=["run_id", "duration_seconds"], errors="ignore"
                )
                for where, run_id in ((place, alone.run_id), (there, point.run_id))
            )
            pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_the_separate_command_finds_everything_done(again: tuple[Place, Sweep]) -> None:
    place, _ = again
    alone = place.investigate(**SIZES, hyperparameters="noise=0.1")
    assert (alone.computed, alone.reused) == (0, CELLS)


def test_the_result_is_made_again_from_the_runs(again: tuple[Place, Sweep]) -> None:
    place, found = again
    before = place.client.get_run(found.run_id)
    read = evaluate(found.run_id)
    pd.testing.assert_frame_equal(read.to_frame(), found.to_frame())
    after = place.client.get_run(found.run_id)
    assert after.data.metrics == pytest.approx(before.data.metrics)
    artifacts = {each.path for each in place.client.list_artifacts(found.run_id)}
    assert artifacts >= {"sweep.json", "sweep.html", "summary.svg"}
    assert artifacts >= {f"points.{kind}" for kind in ("parquet", "csv", "tex", "json")}
    assert "points.json" in after.data.tags["mlflow.loggedArtifacts"]
    assert not any(path.endswith(".png") for path in artifacts)
    assert after.data.tags["mlflow.note.content"].startswith(f"**{read.report().headline}** ")
    assert "sweep.html" in read.summary()


def test_points_are_set_side_by_side_in_a_run_of_their_own(again: tuple[Place, Sweep]) -> None:
    place, found = again
    run_ids = [point.run_id for point in found.points[:2]]
    beside = evaluate(",".join(run_ids))
    quiet = evaluate(",".join(run_ids), log=False)
    run = place.client.get_run(beside.run_id)
    assert run.data.tags["l3d.role"] == "side_by_side"
    assert run.data.tags["l3d.investigations"] == ",".join(run_ids)
    assert run.data.metrics["points"] == 2
    assert beside.to_frame()["noise"].tolist() == found.to_frame()["noise"].tolist()[: len(beside.to_frame())]
    assert quiet.run_id == ""
    pd.testing.assert_frame_equal(quiet.to_frame(), beside.to_frame())


def test_options_that_a_sweep_does_not_have(again: tuple[Place, Sweep]) -> None:
    _, found = again
    refuses("metric=accuracy: has no effect on a sweep", evaluate, found.run_id, metric="accuracy")
    refuses("must be named once", evaluate, f"{found.points[0].run_id},{found.points[0].run_id}")


def test_delete_takes_all_three_levels(again: tuple[Place, Sweep]) -> None:
    place, found = again
    assert delete(found.run_id).runs == 1 + len(NOISE) + len(NOISE) * CELLS
    assert place.runs() == []


def test_the_run_of_mlflow_run_becomes_the_one_on_top(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made = place.client.create_run("0", run_name="nosy-ram-123")
    place.client.log_param(made.info.run_id, "mitigation_runs", "2")
    monkeypatch.setenv("MLFLOW_RUN_ID", made.info.run_id)
    found = run(over={"noise": NOISE[:2]}, mitigation_runs=2)
    assert found.run_id == made.info.run_id
    assert place.client.get_run(found.run_id).info.run_name == found.request.title
    assert len(points_of(place, found.run_id)) == 2


def test_cells_that_points_share_are_trained_once(place: Place) -> None:
    found = run(factor="data_order;data_split;data_order,data_split")
    # 2 x 2 cells of each of two factors, and 2 golden runs that all three points have.
    assert found.computed == 10
    assert len(place.cells()) == 10
    analyses = [point.analysis for point in found.points]
    assert all(analysis is not None and analysis.cells_failed == 0 for analysis in analyses)
    golden = [analysis.importances[name].golden for analysis in analyses for name in analysis.importances]
    assert all(np.array_equal(golden[0], other) for other in golden[1:])
    states = {parent.data.tags["l3d.state"] for parent in points_of(place, found.run_id)}
    assert states == {"complete"}
    listed = pd.read_parquet(place.download(found.points[2].run_id, "cells.parquet", place.cache))
    assert set(listed["run_id"]) == {cell.info.run_id for cell in place.cells()}


def test_a_budget_of_cells_is_kept_and_a_larger_one_continues(place: Place) -> None:
    given: dict[str, Any] = {"over": {"noise": NOISE[:2]}, **LONGER}
    first = run(**given, budget=14)
    assert (first.computed, first.spent) == (12, True)  # the next row of three would be the 15th cell
    rows = [next(iter(point.analysis.importances.values())).table.shape[0] for point in first.points]
    assert rows == [2, 2]
    parents = points_of(place, first.run_id)
    assert {(run.info.status, run.data.tags["l3d.state"]) for run in parents} == {("FINISHED", "incomplete")}
    assert {run.data.params["resolved.golden_runs"] for run in parents} == {"2"}
    study = place.client.get_run(first.run_id)
    assert study.data.tags["l3d.state"] == "incomplete"
    assert "budget" in first.summary()
    alone = evaluate(first.points[1].run_id)  # by itself, as any parent
    assert alone.analysis.metrics() == first.points[1].analysis.metrics()

    second = run(**given)
    assert (second.computed, second.spent) == (2 * 9 - 12, False)
    assert place.client.get_run(first.run_id).data.tags["l3d.superseded_by"] == second.run_id
    assert [point.run_id for point in evaluate(first.run_id).sweep.points] == [each.run_id for each in first.points]
    own = points_of(place, second.run_id)
    assert [run.data.tags["l3d.state"] for run in own] == ["complete"] * 2
    for parent in own:
        assert len(place.cells(parent.info.run_id)) == 9
    assert len(place.cells()) == 2 * 9


def test_complete_points_that_a_later_sweep_took_over_are_read_with_the_earlier_one(place: Place) -> None:
    given: dict[str, Any] = {"over": {"noise": NOISE[:2]}, **LONGER}
    run(**given, budget=14)
    second = run(**given, budget=3)
    third = run(**given)
    assert third.points[0].run_id == second.points[0].run_id
    read = evaluate(second.run_id, log=False).sweep
    assert [point.run_id for point in read.points] == [point.run_id for point in second.points]
    assert read.failed == ()


class Clock(Synthetic):
    """Each cell takes one second of a clock that stands still otherwise."""

    now = 0.0

    def prepare(self, *args: Any, **kwargs: Any) -> Session:
        session, clock = super().prepare(*args, **kwargs), self

        class Timed(Session):
            def run(self, cells: Any) -> Any:
                for outcome in session.run(cells):
                    clock.now += 1.0
                    yield replace(outcome, duration_seconds=1.0)

        return Timed()

    def monotonic(self) -> float:
        return self.now


def test_a_budget_of_time_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(engine, "time", clock)
    found = run(approach=clock, over={"noise": NOISE}, **LONGER, budget="10s")
    assert (found.computed, found.spent) == (9, True)  # three rows of three cells; a fourth would be over after 12 s
    assert [point.analysis is not None for point in found.points] == [True, False, False]
    states = [(run.info.status, run.data.tags["l3d.state"]) for run in points_of(place, found.run_id)]
    assert states == [("FINISHED", "incomplete"), ("KILLED", "incomplete")]
    assert found.points[2].run_id == ""  # never begun
    again = run(approach=clock, over={"noise": NOISE}, **LONGER, budget="1h")
    assert (again.computed, again.spent) == (3 * 9 - 9, False)


def test_points_that_are_complete_are_taken_as_they_are(place: Place, tmp_path: Path) -> None:
    longer = {"when": {"noise": 0.1}, "mitigation_runs": 4}
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps({"over": {"noise": [0, 0.1]}, "mitigation_runs": 2, "overrides": [longer]}))
    sizes = {"file": str(file), "mitigation_runs": "auto", "golden_runs": 4}  # 8 and 12 cells
    first = run(**sizes, budget=14)
    assert [run.data.tags["l3d.state"] for run in points_of(place, first.run_id)] == ["complete", "incomplete"]
    second = run(**sizes)
    assert second.computed == 6
    assert second.points[0].run_id == first.points[0].run_id
    assert second.points[1].run_id != first.points[1].run_id
    old, new = points_of(place, second.run_id)
    assert old.data.tags["l3d.sweep"] == second.run_id
    assert (old.data.tags["l3d.state"], new.data.tags["l3d.state"]) == ("complete", "complete")
    before, after = (each.points[0].analysis for each in (first, second))
    assert after.metrics().items() <= before.metrics().items()  # as read back, without the single examples


class Stumbling(Synthetic):
    """Cannot be prepared where noise is 0.1; a cell with noise 0.2 fails."""

    def prepare(self, task: Any, hyperparameters: Any, **more: Any) -> Session:
        if hyperparameters["noise"] == 0.1:
            raise RuntimeError("no such thing")
        return super().prepare(task, hyperparameters, **more)


def test_a_point_that_fails_is_said_and_the_others_go_on(place: Place) -> None:
    found = run(approach=Stumbling(), over={"noise": NOISE})
    errors = [point.error for point in found.points]
    assert errors[0] == errors[2] == ""
    assert errors[1] == "approach synthetic could not be prepared: RuntimeError: no such thing"
    first, failed, last = points_of(place, found.run_id)
    assert (failed.info.status, failed.data.tags["l3d.error"]) == ("FAILED", errors[1])
    assert place.cells(failed.info.run_id) == []
    assert {run.data.tags["l3d.state"] for run in (first, last)} == {"complete"}
    study = place.client.get_run(found.run_id)
    assert (study.info.status, study.data.tags["l3d.state"]) == ("FINISHED", "incomplete")
    assert "noise=0.1: approach synthetic could not be prepared" in study.data.tags["mlflow.note.content"]
    assert "noise=0.1" in found.summary()
    assert found.computed == study.data.metrics["cells_computed"] == 2 * CELLS


def test_a_point_that_another_process_is_at_is_waited_for_when_all_others_are_done(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    attempts, opened, lock = list[int](), PointStudy.open, FileLock(tmp_path / "lock", thread_local=False)
    is_held = threading.Event()
    scored, finish = list[int](), engine._finish

    def finish_late(group: Any) -> None:
        threading.Event().wait(0.5)
        finish(group)
        scored.extend(point.number for point in group)

    def hold() -> None:
        with lock:
            is_held.set()
            threading.Event().wait(0.3)

    def open_point(point: PointStudy, *arguments: Any) -> Any:
        attempts.append(point.number)
        if attempts == [0]:
            threading.Thread(target=hold).start()
            is_held.wait()
            raise BusyError("at the same work", FileLock(lock.lock_file))
        assert point.number or {*scored} == {0, 1, 2}  # else it would borrow cells of points that are about to end
        assert point.number or not lock.is_locked
        return opened(point, *arguments)

    monkeypatch.setattr(PointStudy, "open", open_point)
    monkeypatch.setattr(engine, "_finish", finish_late)
    found = run(over={"noise": NOISE})
    assert (found.exit_status, [point.error for point in found.points]) == (0, [""] * 3)
    assert (attempts, found.computed) == ([0, 1, 2, 0], 3 * CELLS)
    assert "Waiting for another process to train 1 point." in caplog.text


def test_cells_that_fail_are_not_counted_as_computed(place: Place) -> None:
    found = run(over={"a_data_order": [1, 2]}, hyperparameters="fail_every=4", self_test="skip")
    finished = place.runs("tags.`l3d.role` = 'cell' AND attributes.status = 'FINISHED'")
    assert 0 < found.computed == len(finished) < 2 * CELLS


def test_a_command_that_fails_in_its_first_run_leaves_the_other_points(
    place: Place, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("command")
    monkeypatch.chdir(folder)  # the files of the folder are searched for what decides the scores
    script = folder / "score.py"
    checks = "assert sys.argv[1] != '2', 'bad rate'\nif sys.argv[1] == '3': sys.exit()"
    script.write_text(f"import sys\n{checks}\nprint('accuracy: 0.5' + sys.argv[2][:2])\n")
    commands = [f"{sys.executable} -SE {script} {rate} {{data_order}} {{data_split}}" for rate in (1, 2, 3)]
    given: dict[str, Any] = {"task": "auto", "approach": "command", "metric": "auto", "self_test": "skip"}
    assert plan_sweep(**{**SMALL, **SIZES, **given}, command=commands[:2]).exit_status == 1
    assert plan_sweep(**{**SMALL, **SIZES, **given}, command=commands[0]).exit_status == 0
    found = run(**given, command=[commands[2], *commands[:2]])
    assert found.exit_status == 1
    study = place.client.get_run(found.run_id)
    assert (study.data.metrics["points_failed"], study.data.metrics["points_complete"]) == (2, 1)
    assert study.data.tags["l3d.state"] == "incomplete"
    read = evaluate(found.run_id)
    for points in (found.points, read.sweep.points):
        silent, good, bad = points
        assert "printed no score" in silent.error
        assert (good.error, good.complete) == ("", True)
        assert "score.py 2" in bad.choices["command"]
        assert "bad rate" in bad.error
    with pytest.raises(L3DError, match=r"^Every point failed; the first said: .* bad rate\. That was a first run"):
        run(**given, command=[commands[1], f"{commands[1]} 1"])


def test_when_every_point_fails_the_sweep_does(place: Place) -> None:
    with pytest.raises(L3DError, match=r"^Every point failed; the first said: The first 3 runs .*fail_every asks"):
        run(over={"noise": NOISE[:2]}, hyperparameters="fail_every=1")
    assert {run.info.status for run in place.runs("tags.`l3d.role` != 'cell'")} == {"FAILED"}


def test_an_interrupt_leaves_no_parent_open_and_something_for_every_point(place: Place) -> None:
    def interrupt(number: int) -> None:
        if number == 7:
            raise KeyboardInterrupt

    given: dict[str, Any] = {"over": {"noise": NOISE[:2]}, **LONGER}
    # Each point counts its own cells: the eighth of a point comes in the second round, when all have two rows.
    with pytest.raises(KeyboardInterrupt):
        run(approach=Hooked(interrupt), **given)
    parents = place.parents()
    assert [(parent.info.status, parent.data.tags["l3d.state"]) for parent in parents] == [("KILLED", "incomplete")] * 2
    assert all("runs done" in parent.data.tags["l3d.error"] for parent in parents)
    [study] = place.runs("tags.`l3d.role` = 'sweep'")
    assert (study.info.status, study.data.tags["l3d.state"]) == ("KILLED", "incomplete")
    done = Counter(cell.data.params["noise"] for cell in place.cells())
    assert min(done.values()) >= 6
    again = run(**given)
    assert again.computed == 2 * 9 - sum(done.values())
    assert len(place.cells()) == 2 * 9
    assert [run.info.run_name for run in place.runs() if run.info.status == "RUNNING"] == []


def test_a_last_row_that_was_interrupted_is_trained_to_its_end(place: Place) -> None:
    def interrupt(number: int) -> None:
        if number == 5:
            raise KeyboardInterrupt

    parameters = {"mitigation_runs": 2, "golden_runs": 4, "over": {"noise": NOISE[:2]}}
    with pytest.raises(KeyboardInterrupt):
        run(approach=Hooked(interrupt), **parameters)
    found = run(approach=Hooked(lambda _: None), **parameters)
    assert [point.error for point in found.points] == ["", ""]
    assert place.client.get_run(found.run_id).data.tags["l3d.state"] == "complete"


def test_threads_do_not_grow_with_the_points(place: Place) -> None:
    most: list[int] = []
    before = threading.active_count()
    hook = Hooked(lambda _: most.append(threading.active_count()))
    run(approach=hook, over={"noise": [0, 0.1, 0.2, 0.3]}, mitigation_runs=2, golden_runs=2)
    assert max(most) <= before + 4  # two uploads, the heartbeat, and the scoring


def test_a_stopping_rule_ends_each_point_by_itself(place: Place) -> None:
    sizes = {"investigation_runs": 3, "mitigation_runs": "auto", "golden_runs": "auto", "stop": "epsilon"}
    found = run(over={"a_data_order": [0, 9]}, **sizes, epsilon=3)
    for point in found.points:
        value = dict(point.choices)["a_data_order"]
        alone = place.investigate(**sizes, epsilon=3, hyperparameters=f"a_data_order={value:g}")
        assert alone.computed == 0
        params = [place.client.get_run(run_id).data.params for run_id in (alone.run_id, point.run_id)]
        assert params[0]["resolved.mitigation_runs"] == params[1]["resolved.mitigation_runs"]

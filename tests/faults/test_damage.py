"""Small files of the cache that a bad disk or a power cut damaged: nothing is lost, doubled, or left running."""

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE
from run_helpers import CELLS, Hooked, Place, assert_whole, sqlite_place
from search_cases import Climb, Trace

from mlflow_l3d import cure, evaluate, search
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.search.run import HyperparameterSearch
from mlflow_l3d.tracking.children import ChildWriter
from mlflow_l3d.tracking.parent import end_early
from mlflow_l3d.tracking.recorder import RunRecorder

pytestmark = pytest.mark.slow

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "random": lambda content: random.Random(1).randbytes(max(len(content), 32)),
}
KINDS = (*DAMAGE, "gone")
SEARCH: dict[str, Any] = {"metric": "height", "hyperparameters": "epochs=2", "pruner": "none", "executor": "inline"}
SEARCH |= {"space": '{"x": {"low": 0.0, "high": 0.9, "coarse": [0.0, 0.2]}}', "fine_trials": 0, "held_out_runs": 0}


def damage(paths: Iterable[Path], kind: str) -> None:
    some = list(paths)
    assert some
    for path in some:
        if kind == "gone":
            path.unlink()
        else:
            path.write_bytes(DAMAGE[kind](path.read_bytes()))


@pytest.fixture(scope="module")
def cut_off() -> Iterable[pytest.MonkeyPatch]:
    """Let uploads end after their run was made, and a study be killed before its end."""

    def away(*_: object) -> None:
        raise MlflowException("away", TEMPORARILY_UNAVAILABLE)

    def killed(recorder: RunRecorder[Any], *_: object, **__: object) -> None:
        recorder._close()
        for thread in recorder.uploader._line.threads:
            thread.join(60)  # an upload under way would find its server again
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChildWriter, "_log", away)
        patch.setattr(RunRecorder, "wait", killed)
        yield patch


def half_done(place: Place, study: Callable[[], object]) -> Place:
    with pytest.raises(KeyboardInterrupt):
        study()
    assert {run.info.status for run in place.runs()} == {"RUNNING"}
    return place


@pytest.fixture(scope="module")
def investigated(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path, cut_off: pytest.MonkeyPatch) -> Place:
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("investigated"))
    return half_done(place, place.investigate)


def test_files_of_runs_on_the_server(place: Place) -> None:
    study = place.investigate()
    cell = place.cells()[0].info.run_id
    readers: list[tuple[str, str, Callable[[], object]]] = [
        (cell, "predictions.parquet", lambda: evaluate(study.run_id)),
        (cell, "predictions.parquet", lambda: place.investigate(mitigation_runs=3)),
        (study.run_id, "cells.parquet", lambda: evaluate(study.run_id)),
        (study.run_id, "cells.parquet", lambda: cure(study.run_id)),
        (study.run_id, "investigation.json", lambda: cure(study.run_id)),
    ]
    for run_id, name, read in readers:
        path = place.cache.with_name("artifacts") / run_id / "artifacts" / name
        whole = path.read_bytes()
        damage([path], "half")
        with place.entered(), pytest.raises(L3DError, match=rf"Run {run_id}: {name} is damaged .*\. Restore it, or "):
            read()
        path.write_bytes(whole)
    again = place.investigate(mitigation_runs=3)
    assert (again.computed, again.reused) == (0, CELLS + 3)


def test_cells_that_were_deleted(place: Place) -> None:
    study = place.investigate()
    for run in place.cells():
        place.client.delete_run(run.info.run_id)
    advice = r"they were deleted.* mlflow runs restore .*or give the command of the study again"
    with place.entered(), pytest.raises(L3DError, match=advice):
        evaluate(study.run_id)
    again = place.investigate()
    assert (again.computed, again.reused) == (CELLS, 0)


def test_a_working_folder_that_is_removed_meanwhile(place, tmp_path, monkeypatch) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    found = place.investigate(approach=Hooked(lambda number: here.rmdir() if number == 1 else None))
    assert not here.exists()
    assert found.computed == CELLS
    assert_whole(place, found.run_id, CELLS)


def find(place: Place, **parameters: Any) -> HyperparameterSearch:
    with place.entered():
        return search(approach=Climb(), **{**SEARCH, **parameters})


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path, cut_off: pytest.MonkeyPatch) -> Place:
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("searched"))
    return half_done(place, lambda: find(place))


@pytest.fixture(autouse=True)
def again(investigated: Place, searched: Place, cut_off: pytest.MonkeyPatch) -> None:
    """Let the next study go to its end."""
    cut_off.undo()


def copied(place: Place, folder: Path) -> Place:
    """Return a copy of a place, but for its artifacts: by where these are the store is the same."""
    shutil.copytree(place.cache.parent, folder)
    return Place(f"sqlite:///{folder / 'mlflow.db'}", folder / "cache")


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_runs_and_of_the_machine(investigated: Place, tmp_path: Path, kind: str) -> None:
    place = copied(investigated, tmp_path / "place")
    damage(place.cache.glob("spool/*/*/run_id"), kind)
    if kind != "gone":  # without its name the machine is another one, whose parent ends when its heartbeat is old
        damage(place.cache.glob("spool/id.*"), kind)
    found = place.investigate()
    assert (found.computed, found.reused) == (0, CELLS)
    assert_whole(place, found.run_id, CELLS)


@pytest.mark.parametrize("kind", KINDS)
def test_trials(searched: Place, tmp_path: Path, kind: str) -> None:
    place = copied(searched, tmp_path / "place")
    [broken, *others] = sorted(place.cache.glob("spool/*/*/cell.json"))
    damage([broken], kind)
    found = find(place)
    assert len(Trace(place.cache).trained()) == len(others) + 2
    trials = [run for run in place.runs("tags.`l3d.role` = 'trial'") if run.info.status != "KILLED"]
    assert {run.info.status for run in trials} == {"FINISHED"}
    assert sorted(run.data.metrics["score"] for run in trials) == sorted(found.result.trials["score"])
    assert [run.info.run_name for run in place.runs() if run.info.status == "RUNNING"] == []


def test_more_runs_find_what_a_killed_study_left_in_the_spool(investigated: Place, tmp_path: Path) -> None:
    place = copied(investigated, tmp_path / "place")
    damage([next(place.cache.glob("spool/*/*/predictions.parquet"))], "half")
    more = place.investigate(mitigation_runs=3)
    assert (more.computed, more.reused) == (3 + 1, CELLS - 1)
    killed = place.parents()[0]
    assert (killed.info.status, killed.data.tags["l3d.state"]) == ("KILLED", "incomplete")
    again = place.investigate()
    assert (again.computed, again.reused) == (0, CELLS)
    assert [run.info.run_name for run in place.runs() if run.info.status == "RUNNING"] == []


def test_deleted_children_of_a_killed_study_are_uploaded_anew_with_its_own_commit(investigated, tmp_path) -> None:
    place, commit = copied(investigated, tmp_path / "place"), "mlflow.source.git.commit"
    [killed] = place.parents()
    place.client.set_tag(killed.info.run_id, commit, "before")
    begun = next(place.cache.glob("spool/*/*/run_id"))
    place.client.delete_run(begun.read_text())
    more = place.investigate(mitigation_runs=3)
    assert (more.computed, more.reused) == (3, CELLS)
    [again] = [run for run in place.cells() if run.data.tags["l3d.cell_key"] == begun.parent.name]
    assert (again.info.status, again.data.tags[commit]) == ("FINISHED", "before")


@pytest.mark.parametrize("status", ["RUNNING", "KILLED"])
def test_more_trials_find_what_a_killed_search_left_in_the_spool(searched: Place, tmp_path: Path, status: str) -> None:
    place = copied(searched, tmp_path / "place")
    if status == "KILLED":  # by Ctrl-C, while the server was slow
        [killed] = place.runs("tags.`l3d.role` = 'search'")
        end_early(place.client, killed.info.run_id, "Interrupted", status)
    left = len(Trace(place.cache).trained())
    assert left == len([*place.cache.glob("spool/*/*/cell.json")])
    more = find(place, fine_trials=1)
    assert len(Trace(place.cache).trained()) == left + 1
    trials = more.result.trials
    assert len(trials) == left + 2  # the best one is on both levels
    again = find(place)
    assert len(Trace(place.cache).trained()) == left + 1
    assert again.result.best_score == trials.loc[trials["level"] == "coarse", "score"].max()
    assert [run.info.run_name for run in place.runs() if run.info.status == "RUNNING"] == []

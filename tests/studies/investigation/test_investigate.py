"""The main job where something goes wrong in the middle, and where something is there already."""

from __future__ import annotations

import errno
import html
import json
import logging
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from refusals import refuses
from run_helpers import CELLS, Place, assert_whole, copied, sqlite_place

import mlflow_l3d
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.synthetic import Synthetic, fails
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.studies.investigation.run import investigate
from mlflow_l3d.tracking import spool as spool_module
from mlflow_l3d.tracking.opening import _spool_folder
from mlflow_l3d.tracking.records import CellRecord


def test_the_functions_of_the_package_stay_functions() -> None:
    """The modules of both are imported above; a module of the package with a function's name would take its place."""
    modules = {module.name for module in pkgutil.iter_modules(mlflow_l3d.__path__)}
    assert modules.isdisjoint(mlflow_l3d.__all__)
    assert callable(mlflow_l3d.investigate)
    assert callable(mlflow_l3d.evaluate)
    assert (mlflow_l3d.investigate, mlflow_l3d.evaluate) == (investigate, evaluate)


@pytest.mark.parametrize(("metric", "greater"), [("gap", True), ("gap:lower", False)])
def test_the_direction_of_a_named_metric_is_kept_and_recorded(
    metric: str, greater: bool, place: Place, tmp_path: Path
) -> None:
    def gap(_task: Any, _split: Any, seeds: Mapping[str, int], _hyperparameters: Any) -> dict[str, float]:
        return {"gap": seeds["data_order"] % 97 / 100}

    factors = ["data_order", "model_initialisation"]
    approach = FunctionApproach(gap, name="gap", version="1", factors=factors, metrics=["gap"])
    sizes = {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 3, "self_test": "skip"}
    found = investigate(approach=approach, metric=metric, executor="inline", **sizes)
    again = evaluate(found.run_id)
    assert found.analysis.metric.greater_is_better == greater
    for name in ("importance.json", "investigation.json"):
        document = json.loads(place.download(found.run_id, name, tmp_path).read_text())
        assert (document["metric"], document["greater_is_better"]) == ("gap", greater)
    assert again.analysis.metric.greater_is_better == greater


@pytest.mark.slow
def test_cells_that_raise(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    failing: dict[str, Any] = {"hyperparameters": "fail_every=4", "mitigation_runs": 3}
    result = place.investigate(**failing)
    design = list(result.request.design().cells())
    wrong = {cell.key for cell in design if fails(cell.key, 4)}
    assert 0 < len(wrong) < len(design)
    assert result.computed == len(design)
    parent = place.client.get_run(result.run_id)
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["l3d.state"] == "incomplete"
    assert parent.data.metrics["cells_failed"] == len(wrong) == result.analysis.cells_failed
    failed = [run for run in place.cells(result.run_id) if run.info.status == "FAILED"]
    assert {run.data.tags["l3d.cell_key"] for run in failed} == wrong
    for run in failed:
        assert run.data.tags["l3d.error"] == "RuntimeError: this cell fails, as fail_every asks"
        assert "synthetic_score" not in run.data.metrics
        text = place.download(run.info.run_id, "traceback.txt", place.cache).read_text()
        assert text.startswith("Traceback")
        assert "RuntimeError: this cell fails" in text
        assert str(Path.home()) not in text
        assert str(Path.cwd()) not in text
    more = f"failed: RuntimeError: this cell fails, as fail_every asks. {len(wrong) - 1} more failed."
    assert more in " ".join(result.summary().split())
    assert more in result.about.notes[0]
    assert len([record for record in caplog.records if "this cell fails" in record.message]) == len(wrong)

    again = place.investigate(**failing)
    assert (again.computed, again.reused) == (len(wrong), len(design) - len(wrong))
    assert again.analysis.metrics() == result.analysis.metrics()
    [old, new] = [place.client.get_run(run_id).data.tags for run_id in (result.run_id, again.run_id)]
    assert (old["l3d.superseded_by"], new["l3d.continues"]) == (again.run_id, result.run_id)
    assert f"Continued by [run {again.run_id[:8]}]" in old["mlflow.note.content"]
    assert f"Continues [run {result.run_id[:8]}]" in new["mlflow.note.content"]
    assert "l3d.cells_of" not in new
    assert evaluate(again.run_id, log=False).analysis.metrics() == pytest.approx(again.analysis.metrics())


@pytest.mark.slow
def test_what_matters_stands_in_terminal_description_and_report(place: Place, tmp_path: Path) -> None:
    class Remarking(Synthetic):
        def remarks(self, cells: pd.DataFrame) -> tuple[str, ...]:
            return (f"{len(cells)} cells, all with a score: {cells['synthetic_score'].notna().all()}.",)

        def inactive_factors(self, hyperparameters: Mapping[str, Any]) -> Mapping[str, str]:
            return {"sample_choice": "nothing is chosen"}

    found = place.investigate(approach=Remarking(), num_labelled=20, test_size="auto")
    report = html.unescape(place.download(found.run_id, "report.html", tmp_path).read_text())
    parent, task = place.client.get_run(found.run_id).data, found.request.setup.task
    [sizes, design, few, remark, left_out] = found.request.notes(found.cells)
    assert re.fullmatch(r"Each run: 16 training, 4 validation, [\d,]+ test examples\.", sizes)
    assert design == "design=crossed: one factor, as published."
    assert "test examples evaluated instead of the default 1,000" in few
    assert remark == f"{len(found.cells)} cells, all with a score: True."
    assert "has no effect and is left out" in left_out
    for text in (" ".join(found.summary().split()), parent.tags["mlflow.note.content"], report):
        for note in (sizes, design, few, remark, left_out):
            assert note in text
    assert parent.params["resolved.test_size"] == str(len(found.request.split.test))
    assert "resolved.num_labelled" not in parent.params
    assert found.run_id in report
    assert ", ".join(task.class_names) in report
    assert f"mlflow-l3d {mlflow_l3d.__version__}" in report


def test_every_cell_raises(place: Place) -> None:
    with pytest.raises(L3DError, match=r"^The first 3 runs failed alike: RuntimeError: this cell fails, as .* Mend"):
        place.investigate(hyperparameters="fail_every=1")
    [parent] = place.parents()
    assert parent.info.status == "FAILED"
    assert "The first 3 runs failed" in parent.data.tags["l3d.error"]
    assert [run.info.status for run in place.cells()] == ["FAILED"] * 3


@pytest.mark.slow
def test_golden_runs_are_shared_between_factors(done: tuple[Place, Investigation]) -> None:
    place, first = done
    assert first.request.factors == ("data_order",)
    second = place.investigate(factor="data_split")
    assert (second.computed, second.reused) == (6, 4)
    golden = second.cells[second.cells["phase"] == "golden"]
    made = [run.info.run_id for run in place.cells(first.run_id) if run.data.tags["l3d.phase"] == "golden"]
    assert set(golden["run_id"]) == set(made)
    assert len(place.cells(second.run_id)) == 6
    about = place.client.get_run(second.run_id).data.tags
    assert about["l3d.cells_of"] == first.run_id
    link = f"[run {first.run_id[:8]}](#/experiments/0/runs/{first.run_id})"
    assert f"4 of its cells are children of {link}." in about["mlflow.note.content"]
    listed = pd.read_parquet(place.download(second.run_id, "cells.parquet", place.cache))
    assert listed["run_id"].tolist() == second.cells["run_id"].tolist()
    found = evaluate(second.run_id)
    assert link in place.client.get_run(second.run_id).data.tags["mlflow.note.content"]
    assert found.analysis.metrics() == pytest.approx(second.analysis.metrics(), rel=1e-12)
    assert found.analysis.metrics()["golden_std"] == first.analysis.metrics()["golden_std"]
    both = place.investigate(factor="data_order,data_split")
    # On shared rows and golden runs: nothing is left to compute.
    assert (both.computed, both.reused) == (0, 16)
    assert place.client.get_run(both.run_id).data.tags["l3d.cells_of"] == f"{first.run_id},{second.run_id}"


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 4])
def test_a_full_disk(place: Place, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    write, count = spool_module.Spool.add, iter(range(100))

    def full(self: Any, *args: Any) -> None:
        if next(count) < after:
            return write(self, *args)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", _no_space)
            return write(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(spool_module.Spool, "add", full)
        with pytest.raises(L3DError, match="No space left on device") as caught:
            place.investigate()
    assert "\n" not in str(caught.value)
    [parent] = place.parents()
    assert parent.info.status == "FAILED"
    assert "No space left on device" in parent.data.tags["l3d.error"]
    assert len(place.cells()) == after
    again = place.investigate()
    assert (again.computed, again.reused) == (CELLS - after, after)
    assert_whole(place, again.run_id, CELLS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mkdir", "open"])
def test_a_full_disk_at_the_start(place: Place, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    original = getattr(Path, name)

    def full(self: Path, *args: Any, **kwargs: Any) -> Any:
        if "spool" in self.parts or "x" in args:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, *args, **kwargs)

    monkeypatch.setenv("MLFLOW_RUN_ID", place.client.create_run("0").info.run_id)
    with monkeypatch.context() as patch:
        patch.setattr(Path, name, full)
        with pytest.raises(L3DError, match=r"The spool cannot be written \(No space left on device\)"):
            place.investigate()
    [parent] = place.runs()
    assert parent.info.status == "FAILED"
    again = place.investigate()
    assert again.computed == CELLS


def _no_space(self: Path, _target: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


class Stopped(BaseException):
    """Ends a process as `kill -9` would: nobody is told."""


@pytest.fixture(scope="module")
def _silent(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Place:
    from mlflow_l3d.studies.investigation.run import InvestigationStudy
    from mlflow_l3d.tracking.recorder import RunRecorder

    recorders: list[RunRecorder[CellRecord]] = []
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("silent"))

    def stop(study: InvestigationStudy) -> None:
        recorders.append(study.recorder)
        raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InvestigationStudy, "conclude", stop)
        with pytest.raises(Stopped):
            place.investigate()
    recorders[0]._close()
    assert len(place.spooled()) == CELLS
    return place


@pytest.fixture
def half_done(_silent: Place, tmp_path: Path) -> Place:
    """Give a place where an investigation fell silent before its last upload and its conclusion."""
    place = copied(_silent, tmp_path)
    # A spool belongs to the address of its store, which is another one now.
    [spool] = place.cache.glob("spool/*/")
    with place.entered():
        spool = spool.rename(_spool_folder(place.client, "0", spool.name.partition("-")[2]))
    [parent] = place.parents()
    place.client.set_tag(parent.info.run_id, "l3d.spool", spool_module.Spool(spool, CellRecord).identity)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [False, True], ids=["all there", "runs deleted"])
def test_what_was_computed_but_not_concluded_is_written_from_the_spool(half_done: Place, deleted: bool) -> None:
    for run in half_done.runs() if deleted else ():
        half_done.client.delete_run(run.info.run_id)
    again = half_done.investigate()
    assert (again.computed, again.reused) == (0, CELLS)
    assert_whole(half_done, again.run_id, CELLS)


@pytest.mark.slow
def test_a_takeover_that_was_cut_short_is_completed(half_done: Place) -> None:
    """The parent before last is superseded, and still has children."""
    [old] = half_done.parents()
    half_done.client.set_tag(old.info.run_id, "l3d.superseded_by", "0" * 32)
    again = half_done.investigate()
    [left, new] = [half_done.client.get_run(run_id).data.tags for run_id in (old.info.run_id, again.run_id)]
    assert left["l3d.superseded_by"] == "0" * 32
    assert "l3d.continues" not in new
    assert half_done.cells(old.info.run_id) == []
    assert_whole(half_done, again.run_id, CELLS)


@pytest.mark.slow
def test_a_parent_of_another_machine_is_left_alone(half_done: Place, caplog: pytest.LogCaptureFixture) -> None:
    [old] = half_done.parents()
    half_done.client.set_tag(old.info.run_id, "l3d.spool", "another")
    again = half_done.investigate()
    assert (again.computed, again.reused) == (0, CELLS)
    left = half_done.client.get_run(old.info.run_id)
    assert left.info.status == "RUNNING"
    assert "l3d.superseded_by" not in left.data.tags
    assert len(half_done.cells(old.info.run_id)) == CELLS
    assert "on another machine" in caplog.text
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []


@pytest.mark.slow
def test_a_broken_cell_of_the_spool_is_computed_again(half_done: Place) -> None:
    key = sorted(half_done.spooled())[0]
    for run in half_done.cells():
        if run.data.tags["l3d.cell_key"] == key:
            half_done.client.delete_run(run.info.run_id)
    next(half_done.cache.glob(f"spool/*/{key}/cell.json")).write_text("{")
    again = half_done.investigate()
    assert (again.computed, again.reused) == (1, CELLS - 1)
    assert_whole(half_done, again.run_id, CELLS)


@pytest.mark.slow
def test_a_new_machine_takes_everything_from_the_server(half_done: Place, tmp_path: Path) -> None:
    elsewhere = Place(half_done.uri, tmp_path / "another cache")
    [old] = half_done.parents()
    half_done.client.set_tag(old.info.run_id, "l3d.heartbeat", "1")
    again = elsewhere.investigate()
    assert (again.computed, again.reused) == (0, CELLS)
    assert_whole(elsewhere, again.run_id, CELLS)


@pytest.mark.parametrize("given", ["soon", "-1", "nan"])
def test_patience_must_be_a_number(place: Place, given: str) -> None:
    impatient = Place(place.uri, place.cache, {"L3D_UPLOAD_PATIENCE": given})
    refuses("L3D_UPLOAD_PATIENCE", impatient.investigate)
    assert place.runs() == []

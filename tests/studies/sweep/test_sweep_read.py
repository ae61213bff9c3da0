"""Points read back from what their parents hold."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from refusals import refuses
from run_helpers import sqlite_place
from sweep_cases import drawn_sweep

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import Planned, design_named
from mlflow_l3d.designs.analyse import analyse
from mlflow_l3d.report.source import About
from mlflow_l3d.studies.files import read_result, temporary_folder, write_result
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.results import Evaluation
from mlflow_l3d.studies.sweep.numbers import analyse_sweep, long_table
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint
from mlflow_l3d.studies.sweep.results import (
    SweepEvaluation,
    choices_among,
    evaluate_sweep,
    left_out,
    points_of_runs,
    points_of_sweep,
    write_sweep,
)
from mlflow_l3d.tracking import names

FACTORS = ("data_order", "sample_choice")


def analysed(design: str, *, collapse: float = 0.0, pooled: bool = False) -> Analysis:
    """Return the analysis of simulated cells of a design."""
    rng = np.random.default_rng(5)
    plan = design_named(design)(FACTORS, (*FACTORS, "data_split"), 5, 8, 0 if design == "radial" else 30, 0, "key")
    rows = []
    for cell in plan.cells():
        place = {name: getattr(cell, name) for name in ("phase", "factor", "row", "column", "index")}
        effects = [np.random.default_rng([at, seed]).normal() for at, seed in enumerate(cell.configurations.values())]
        score = 0.8 + 0.02 * float(np.dot(effects, (1.0, 0.6, 0.8))) - 0.5 * (rng.random() < collapse)
        rows.append({**place, "f1_macro": score, **{f"factor.{k}": v for k, v in cell.configurations.items()}})
    cells = pd.DataFrame(rows)
    if pooled:
        cells = cells[cells["phase"] != "golden"]
    cells.loc[3, "f1_macro"] = math.nan
    return analyse(cells, Planned(design=design_named(design), pooled=pooled, classes=2), metric="f1_macro")


@pytest.fixture
def client(tmp_path: Path, migrated_store: Path) -> MlflowClient:
    return sqlite_place(migrated_store, tmp_path / "place").client


def hold_result(client: MlflowClient, run_id: str, analysis: Analysis) -> None:
    """Write the result of a parent."""
    with temporary_folder() as folder:
        write_result(folder, Evaluation(run_id=run_id, analysis=analysis, about=About(title="t")))
        client.log_artifacts(run_id, str(folder))


@pytest.mark.parametrize(
    ("design", "kind"),
    [("crossed", "pooled"), *product(("crossed", "nested", "radial", "random"), ("plain", "collapse"))],
)
def test_an_analysis_comes_back_from_its_run(design: str, kind: str, client: MlflowClient) -> None:
    analysis = analysed(design, collapse=0.15 * (kind == "collapse"), pooled=kind == "pooled")
    run_id = client.create_run("0").info.run_id
    hold_result(client, run_id, analysis)
    found = read_result(client, run_id).analysis
    points = [SweptPoint("a", {}, "sst2", each) for each in (analysis, found)]
    tables = [long_table([point]) for point in points]
    pd.testing.assert_frame_equal(*tables)
    assert found.metrics() == analysis.metrics()
    pd.testing.assert_frame_equal(found.to_frame(), analysis.to_frame())
    for factor, record in analysis.importances.items():
        assert Shown(found).verdict(found.importances[factor]) == Shown(analysis).verdict(record)
        if analysis.collapse is not None:
            np.testing.assert_array_equal(found.collapse.rest[factor].golden, analysis.collapse.rest[factor].golden)
    assert (analysis.collapse is None) == (found.collapse is None)
    assert found.checks == analysis.checks


def test_no_folder_is_made_for_files_that_are_not_read(client: MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = client.create_run("0").info.run_id
    hold_result(client, run_id, analysed("radial"))
    monkeypatch.setattr("mlflow_l3d.studies.files.temporary_folder", lambda: pytest.fail("a folder was made"))
    assert read_result(client, run_id).run_id == run_id


def logged(client: MlflowClient, points: list[SweptPoint], top: str = "", **params: str) -> list[str]:
    """Write points as parents; return their run ids."""
    run_ids = []
    for point in points:
        tags = {names.ROLE: "investigation", names.INVESTIGATION_KEY: point.name, names.STATE: "complete"}
        run = client.create_run("0", tags=tags | ({names.PARENT_RUN_ID: top} if top else {}))
        run_ids.append(run.info.run_id)
        start = "choice" if top else "hyperparameter"
        own = {f"{start}.{name}": value for name, value in point.choices.items()}
        for name, value in {**own, "task": point.task, **params}.items():
            client.log_param(run.info.run_id, name, value)
        if point.analysis is not None:
            hold_result(client, run.info.run_id, point.analysis)
    return run_ids


def written(folder: Path, points: list[SweptPoint]) -> SweepEvaluation:
    """Write the result of some points; return it."""
    result = SweepEvaluation(sweep=analyse_sweep(points, left_out(points)), title="a sweep")
    write_sweep(folder, result)
    return result


@pytest.mark.slow
def test_the_result_of_a_sweep_is_the_same_from_its_parents(client: MlflowClient, tmp_path: Path) -> None:
    points = drawn_sweep({"shots": [2.0, 4.0, 8.0], "prompt_format": ["A", "B"]})
    points.append(SweptPoint("", {"shots": 16.0, "prompt_format": "A"}, "sst2", None, "no such model"))
    top = client.create_run("0", tags={names.ROLE: "sweep"}).info.run_id
    run_ids = logged(client, points[-2::-1], top)[::-1]  # begun in another order
    (tmp_path / "top").mkdir()
    written(tmp_path / "top", [replace(each, run_id=own) for each, own in zip(points, [*run_ids, ""], strict=True)])
    client.log_artifacts(top, str(tmp_path / "top"))
    found, _ = points_of_sweep(client, top)
    assert [point.run_id for point in found] == [*run_ids, ""]
    assert found[-1].error == "no such model"
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    results = [written(folder, each) for folder, each in zip(folders, (points, found), strict=True)]
    pd.testing.assert_frame_equal(*[result.to_frame(full=True).drop(columns="run_id") for result in results])
    assert results[0].sweep.metrics() == pytest.approx(results[1].sweep.metrics())


@pytest.mark.slow
def test_choices_of_parents_that_were_never_swept(client: MlflowClient) -> None:
    points = drawn_sweep({"shots": [2, 4], "prompt_format": ["A", "B"]})
    run_ids = logged(client, points, workers="2", model="flan", executor="inline")
    found, _ = points_of_runs(client, run_ids)
    assert [dict(point.choices) for point in found] == [
        {"shots": "2", "prompt_format": "A"},
        {"shots": "2", "prompt_format": "B"},
        {"shots": "4", "prompt_format": "A"},
        {"shots": "4", "prompt_format": "B"},
    ]
    assert [point.task for point in found] == ["sst2"] * 4
    assert long_table(found)["choice.shots"].tolist() == [2.0] * 4 + [4.0] * 4
    assert long_table(found)["importance"].tolist() == long_table(points)["importance"].tolist()


def test_hyperparameters_are_choices_and_executors_are_none(client: MlflowClient) -> None:
    runs = [client.create_run("0") for _ in range(3)]
    for run, shots in zip(runs, (2, 4, 8), strict=True):
        client.log_param(run.info.run_id, "hyperparameter.shots", shots)
        client.log_param(run.info.run_id, "executor", f"e{shots}")
    found = choices_among([client.get_run(run.info.run_id) for run in runs])
    assert found == [{"shots": "2"}, {"shots": "4"}, {"shots": "8"}]


def test_a_parent_without_a_score_says_why(client: MlflowClient) -> None:
    one, two = drawn_sweep({"shots": [2, 4]})
    run_ids = logged(client, [one, two, SweptPoint("", {"shots": 8}, "sst2", None)])
    client.set_tag(run_ids[2], names.STATE, "incomplete")
    client.log_dict(run_ids[1], {"result": "Evaluation", "content": {"run_id": 3}}, names.RESULT)
    found, _ = points_of_runs(client, run_ids)
    assert found[0].complete
    assert found[1].error == "holds no result: it is complete; if it has ended, evaluate it"
    assert found[2].error == "holds no result: it is incomplete; if it has ended, evaluate it"


def test_what_is_no_sweep_is_refused_in_one_line(client: MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = client.create_run("0").info.run_id
    refuses("is a sweep without points", points_of_sweep, client, run_id)
    refuses("must be the parent run of an investigation", points_of_runs, client, [run_id])
    old = logged(client, [SweptPoint("", {"shots": shots}, "sst2", None) for shots in (2, 4)])  # of an earlier version
    with monkeypatch.context() as patch:
        patch.setattr("mlflow_l3d.studies.sweep.results.connect", lambda: client)
        line = f"source={old[0]},{old[1]}: has no point whose result this version reads. First evaluate each: mlflow"
        refuses(line, evaluate_sweep, *old)
    refuses("no such run", points_of_runs, client, ["nobody"])


def test_parents_that_differ_in_nothing_are_told_apart_by_their_names(client: MlflowClient) -> None:
    (point,) = drawn_sweep({"shots": [2]})
    run_ids = logged(client, [point, point])
    found, _ = points_of_runs(client, run_ids)
    assert [one.choices["run"] for one in found] == [client.get_run(run_id).info.run_name for run_id in run_ids]


def test_one_table_holds_every_point_and_factor(tmp_path: Path) -> None:
    points = [*drawn_sweep({"shots": [2, 4], "prompt_format": ["A", "B"]})]
    points.append(SweptPoint("lost", {"shots": 8, "prompt_format": "A"}, "sst2", None, "out of memory"))
    result = written(tmp_path, points)
    frame = pd.read_parquet(tmp_path / "points.parquet")
    pd.testing.assert_frame_equal(frame, result.to_frame(full=True))
    assert list(frame["run_id"]) == [run for run in ("run0", "run1", "run2", "run3") for _ in range(2)] + ["lost"]
    assert list(frame["choice.shots"].unique()) == [2, 4, 8]
    assert frame["factor"].iloc[-1] == ""
    assert frame["error"].iloc[-1] == "out of memory"
    assert frame["verdict"].iloc[-1] == "failed"
    assert len(pd.read_csv(tmp_path / "points.csv")) == len(frame)
    assert (tmp_path / "points.json").is_file()
    assert result.sweep.metrics()["points"] == 5
    assert result.sweep.metrics()["points_without_score"] == 1
    assert "out of memory" in result.summary()
    record = points[0].analysis.importances["data_order"]
    assert frame["importance_corrected_ci_low"].iloc[0] == record.importance_corrected_ci_low


def test_numbers_beside_texts_are_one_column_of_texts(tmp_path: Path) -> None:
    points = drawn_sweep({"num_labelled": [100, "all"]})
    frame = written(tmp_path, points).to_frame(full=True)
    assert list(frame["choice.num_labelled"].unique()) == ["100", "all"]

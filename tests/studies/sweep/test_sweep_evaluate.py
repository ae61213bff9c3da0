"""`evaluate` of a sweep, and of investigations that were never swept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_helpers import SMALL, Place, sqlite_place

import mlflow_l3d
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.sweep.results import SweepEvaluation
from mlflow_l3d.studies.sweep.run import Sweep

SIZES: dict[str, Any] = {**SMALL, "investigation_runs": 3, "mitigation_runs": 4, "golden_runs": 6, "executor": "inline"}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, Sweep]:
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("evaluated"))
    with place.entered():
        found = mlflow_l3d.sweep(**SIZES, over={"noise": [0.1, 0.2, 0.4]})
    assert isinstance(found, Sweep)
    return place, found


@pytest.mark.slow
def test_the_result_is_made_again_from_the_runs(swept: tuple[Place, Sweep]) -> None:
    place, found = swept
    before = place.client.get_run(found.run_id)
    with place.entered():
        again = mlflow_l3d.evaluate(found.run_id)
    assert isinstance(again, SweepEvaluation)
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())
    after = place.client.get_run(found.run_id)
    assert after.data.metrics == pytest.approx(before.data.metrics)
    artifacts = {each.path for each in place.client.list_artifacts(found.run_id)}
    assert artifacts >= {"sweep.json", "sweep.html", "summary.svg"}
    assert artifacts >= {f"points.{kind}" for kind in ("parquet", "csv", "tex", "json")}
    assert "points.json" in after.data.tags["mlflow.loggedArtifacts"]
    assert not any(path.endswith(".png") for path in artifacts)
    assert after.data.tags["mlflow.note.content"].startswith(f"**{again.report().headline}** ")
    assert "sweep.html" in again.summary()


@pytest.mark.slow
def test_points_are_set_side_by_side_in_a_run_of_their_own(swept: tuple[Place, Sweep]) -> None:
    place, found = swept
    run_ids = [point.run_id for point in found.points[:2]]
    with place.entered():
        beside = mlflow_l3d.evaluate(",".join(run_ids))
        quiet = mlflow_l3d.evaluate(",".join(run_ids), log=False)
    assert isinstance(beside, SweepEvaluation)
    assert isinstance(quiet, SweepEvaluation)
    run = place.client.get_run(beside.run_id)
    assert run.data.tags["l3d.role"] == "side_by_side"
    assert run.data.tags["l3d.investigations"] == ",".join(run_ids)
    assert run.data.metrics["points"] == 2
    assert beside.to_frame()["noise"].tolist() == found.to_frame()["noise"].tolist()[: len(beside.to_frame())]
    assert quiet.run_id == ""
    pd.testing.assert_frame_equal(quiet.to_frame(), beside.to_frame())


@pytest.mark.slow
def test_options_that_a_sweep_does_not_have(swept: tuple[Place, Sweep]) -> None:
    place, found = swept
    with place.entered():
        with pytest.raises(ParameterError, match="metric=accuracy: has no effect on a sweep"):
            mlflow_l3d.evaluate(found.run_id, metric="accuracy")
        with pytest.raises(ParameterError, match="must be named once"):
            mlflow_l3d.evaluate(f"{found.points[0].run_id},{found.points[0].run_id}")

"""What a sweep leaves as files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from sweep_cases import drawn_sweep

from mlflow_l3d.studies.sweep.artifacts import write_sweep
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint


def test_one_table_holds_every_point_and_factor(tmp_path: Path) -> None:
    points = [*drawn_sweep({"shots": [2, 4], "prompt_format": ["A", "B"]})]
    points.append(SweptPoint("lost", {"shots": 8, "prompt_format": "A"}, "sst2", None, "out of memory"))
    result = write_sweep(tmp_path, points, title="a sweep")
    frame = pd.read_parquet(tmp_path / "points.parquet")
    pd.testing.assert_frame_equal(frame, result.to_frame())
    assert list(frame["run_id"]) == [run for run in ("run0", "run1", "run2", "run3") for _ in range(2)] + ["lost"]
    assert list(frame["choice.shots"].unique()) == [2, 4, 8]
    assert frame["factor"].iloc[-1] == ""
    assert frame["error"].iloc[-1] == "out of memory"
    assert frame["verdict"].iloc[-1] == "failed"
    assert len(pd.read_csv(tmp_path / "points.csv")) == len(frame)
    assert "points.json" in result.tables
    assert result.metrics()["points"] == 5
    assert result.metrics()["points_without_score"] == 1
    assert "out of memory" in result.summary()
    record = points[0].analysis.importances["data_order"]
    assert frame["importance_corrected_ci_low"].iloc[0] == record.importance_corrected_ci_low


def test_numbers_beside_texts_are_one_column_of_texts(tmp_path: Path) -> None:
    points = drawn_sweep({"num_labelled": [100, "all"]})
    frame = write_sweep(tmp_path, points, title="a sweep").to_frame()
    assert list(frame["choice.num_labelled"].unique()) == ["100", "all"]

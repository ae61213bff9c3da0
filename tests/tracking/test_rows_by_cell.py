"""Predictions of a parent's one table, cell by cell, and averages that are computed from them."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlflow_l3d.tracking.earlier.predictions import rows_by_cell, with_whole_averages


def test_row_groups_are_read_when_their_cells_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["c", "a", "b", "other"]
    rows = [(key, str(example), 1, example % 2) for key in keys for example in range(4)]
    columns = zip(("cell_key", "example_id", "label", "prediction"), zip(*rows, strict=True), strict=True)
    path = tmp_path / "predictions.parquet"
    pq.write_table(pa.table({name: list(values) for name, values in columns}), path, row_group_size=4)
    read, read_row_groups = [], pq.ParquetFile.read_row_groups

    def counting(file: pq.ParquetFile, groups: list[int], *more: object, **options: object) -> pa.Table:
        read.extend(groups)
        return read_row_groups(file, groups, *more, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counting)
    found = rows_by_cell(path, ["a", "b", "c"], at_once=4)
    place, table = next(found)
    assert place == 2
    assert table["prediction"].to_pylist() == [0, 1, 0, 1]
    assert {*read} == {0}
    assert [place for place, _ in found] == [0, 1]


def test_averages_of_version_0_1_0_are_computed_again_if_every_cell_has_predictions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cells = pd.DataFrame({"cell_key": ["a", "b"], "status": "FINISHED", "f1_macro": 1.0, "accuracy": 0.5})
    answers = pd.DataFrame({"cell_key": [*"aabb"], "label": [0, 1, 0, 2], "prediction": [0, 1, 0, 2]})
    of_task = {"task": {"classes": ["no", "yes", "rare"]}}
    whole = with_whole_averages("run", of_task, cells, answers)  # each cell lacks another class
    assert whole["f1_macro"].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert whole["accuracy"].tolist() == [0.5, 0.5]
    for known in ({"hyperparameters": {"classes": "no+yes"}}, {"imported_from": "csv"}, {"greater_is_better": True}):
        assert with_whole_averages("run", {**of_task, **known}, cells, answers) is cells
    for lost in (answers[:2], None):  # predictions of one of two, or of both
        assert with_whole_averages("run", of_task, cells, lost) is cells
    assert len(caplog.messages) == 3

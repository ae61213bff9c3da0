"""Predictions of a parent's one table, cell by cell."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlflow_l3d.tracking.earlier.predictions import rows_by_cell


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

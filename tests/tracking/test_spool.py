"""A cell lies in the spool whole or not at all."""

import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mlflow_l3d.cells.cell import Cell, Logged, Outcome
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import private_folder
from mlflow_l3d.tracking.records import CellRecord, without_private_paths
from mlflow_l3d.tracking.spool import Spool


def outcome(key: str, **more: object) -> Outcome:
    return Outcome(
        key=key,
        example_ids=np.array([7, 3]),
        labels=np.array([0, 1]),
        predictions=np.array([1, -1]),
        scores=np.array([[0.25, 0.75], [0.5, 0.5]], dtype=np.float32),
        metrics={"accuracy": 0.1 + 0.2},
        duration_seconds=0.5,
        **more,  # type: ignore[arg-type]
    )


def record(key: str, result: Outcome) -> CellRecord:
    cell = Cell("investigation", "data_order", 1, 2, None, {"data_order": 2}, {"data_order": 2**53 - 1}, key)
    return replace(CellRecord.of(cell, result), end_time=1_000)


def spool_of(folder: Path, result: Outcome) -> Spool[CellRecord]:
    """Return a spool with one outcome."""
    spool = Spool(folder, CellRecord)
    spool.add(record(result.key, result), result)
    return spool


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    spool_of(tmp_path / "spool", outcome("k"))
    again = Spool(tmp_path / "spool", CellRecord)
    assert list(again) == ["k"]
    assert again.record("k") == record("k", outcome("k"))
    assert again.record("k").metrics == {"accuracy": 0.1 + 0.2, "duration_seconds": 0.5}
    table = pq.read_table(again.predictions("k"), partitioning=None)
    assert table.column_names == ["example_id", "label", "prediction", "score_0", "score_1"]
    assert table["prediction"].to_pylist() == [1, -1]


def test_what_a_training_logged_is_whole_or_not_there(tmp_path: Path) -> None:
    logged = Logged({"a": "1"}, {"b": "2"}, [("c", 0.5, 7, 1)], {"notes/a.txt": b"a"})
    spool = spool_of(tmp_path, outcome("k", logged=logged))
    found = spool.record("k")
    assert (found.params_logged, found.tags_logged) == ({"a": "1"}, {"b": "2"})
    assert found.metrics_logged == [["c", 0.5, 7, 1]]
    path = spool.artifacts("k") / "notes" / "a.txt"  # type: ignore[operator]
    assert (path.read_bytes(), spool.has("k")) == (b"a", True)
    path.write_bytes(b"")
    assert not spool.has("k")


def test_the_run_id_is_kept_and_forgotten(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, outcome("k"))
    assert spool.run_id("k") is None
    spool.set_run_id("k", "r1")
    assert Spool(tmp_path, CellRecord).run_id("k") == "r1"
    spool.set_run_id("k", None)
    assert spool.run_id("k") is None


def test_a_half_written_cell_is_not_there(tmp_path: Path) -> None:
    (tmp_path / ".k.tmp").mkdir()
    (tmp_path / ".k.tmp" / "cell.json").write_text("{}")
    spool = Spool(tmp_path, CellRecord)
    assert list(spool) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["cell.json", "predictions.parquet", "checksum"])
@pytest.mark.parametrize("content", [b"", b"{", b'{"phase": "golden"}', None])
def test_what_a_power_cut_leaves_is_not_there(tmp_path: Path, name: str, content: bytes | None) -> None:
    spool = spool_of(tmp_path / "spool", outcome("k"))
    assert spool.has("k")
    file = tmp_path / "spool" / "k" / name
    file.unlink() if content is None else file.write_bytes(content)
    assert not spool.has("k")
    spool.set_aside("k")
    assert list(spool) == []
    assert (tmp_path / "broken" / ".k").is_dir()


def test_a_record_under_another_key_does_not_count(tmp_path: Path) -> None:
    spool = spool_of(tmp_path / "spool", outcome("k"))
    (tmp_path / "spool" / "k").rename(tmp_path / "spool" / "other")
    assert not spool.has("other")


def test_nobody_else_can_write_to_it(tmp_path: Path) -> None:
    before = tmp_path / "spool"
    before.mkdir(mode=0o777)
    before.chmod(0o777)
    Spool(before, CellRecord)
    assert before.stat().st_mode & 0o777 == 0o755
    before.chmod(0o777)
    with pytest.raises(ParameterError, match=r"L3D_CACHE=.*everybody"):
        private_folder(before)
    private_folder(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_full_disk_is_one_line_and_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = spool_of(tmp_path, outcome("first"))

    def full(self: Path, *_args: object, **_kwargs: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(L3DError, match=r"No space left on device\): free disk space, or set L3D_CACHE") as caught:
        spool.add(record("second", outcome("second")), outcome("second"))
    assert str(tmp_path) not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first"]


def test_an_error_keeps_no_private_path() -> None:
    home = str(Path.home())
    text = f'File "{home}/venv/lib/python3.11/site-packages/torch/nn.py", line 3\nFileNotFoundError: {home}/data.csv'
    assert without_private_paths(text) == 'File "torch/nn.py", line 3\nFileNotFoundError: ~/data.csv'
    result = Outcome("k", error=f"OSError: no {home}/data.csv", traceback=f'  File "{home}/a/b/c/d.py", line 1')
    kept = record("k", result)
    assert kept.error == "OSError: no ~/data.csv"
    assert kept.traceback == '  File "b/c/d.py", line 1'


def test_a_spool_that_was_emptied_has_no_cells(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", CellRecord)
    spool.clear()
    assert list(spool) == []
    assert not spool.has("k")

"""The local spool: one folder a cell, written at once or not at all, so that a killed process loses nothing.

A cell's folder is named by its key and holds ``cell.json`` (a :class:`~mlflow_l3d.tracking.records.CellRecord`), the
very ``predictions.parquet`` that is uploaded, and, once a run was created for it on the server, ``run_id``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from mlflow_l3d.errors import L3DError
from mlflow_l3d.tracking.names import PREDICTIONS
from mlflow_l3d.tracking.records import RunRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from mlflow_l3d.plan.cells import Outcome

R = TypeVar("R", bound=RunRecord)

_RECORD = "cell.json"
_RUN_ID = "run_id"


class Spool(Generic[R]):
    """The spool of one investigation or search on one tracking server.

    Parameters
    ----------
    folder
        Where the cells' folders lie; created if need be. Of several processes, one at a time may own it (the ledger
        holds a lock); several threads may use it.
    kind
        Class of the records.
    """

    def __init__(self, folder: Path, kind: type[R]) -> None:
        self.folder = folder
        self.kind = kind
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(error) from error
        for leftover in folder.glob(".*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)

    def add(self, record: R, outcome: Outcome | None = None) -> None:
        """Write one cell; it is either there whole or not at all.

        Raises
        ------
        L3DError
            If the disk is full or the folder cannot be written.
        """
        self._write(record, None if outcome is None else predictions_table(outcome))

    def add_copy(self, record: R, predictions: Path | None, run_id: str) -> None:
        """Write a cell that the server already holds, for the tables of the parent."""
        target = self._place(record.key)
        partial = self.folder / f".{record.key}.tmp"
        partial.mkdir(exist_ok=True)
        (partial / _RECORD).write_text(json.dumps(record.to_dict(), allow_nan=True), encoding="utf-8")
        (partial / _RUN_ID).write_text(run_id, encoding="ascii")
        if predictions is not None:
            shutil.copyfile(predictions, partial / PREDICTIONS)
        partial.rename(target)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys of the cells in the spool."""
        found = self.folder.iterdir() if self.folder.is_dir() else iter(())
        return (path.name for path in found if path.is_dir() and not path.name.startswith("."))

    def record(self, key: str) -> R:
        """Read the record of a cell."""
        content = json.loads((self._place(key) / _RECORD).read_text(encoding="utf-8"))
        return self.kind(**content)

    def predictions(self, key: str) -> Path | None:
        """Return the file of a cell's predictions; None where the cell has none."""
        path = self._place(key) / PREDICTIONS
        return path if path.is_file() else None

    def run_id(self, key: str) -> str | None:
        """Return the run that was created for a cell; None before."""
        try:
            return (self._place(key) / _RUN_ID).read_text(encoding="ascii") or None
        except FileNotFoundError:
            return None

    def set_run_id(self, key: str, run_id: str | None) -> None:
        """Remember, or with None forget, the run that was created for a cell."""
        path = self._place(key) / _RUN_ID
        if run_id is None:
            path.unlink(missing_ok=True)
            return
        partial = path.with_suffix(".tmp")
        partial.write_text(run_id, encoding="ascii")
        partial.replace(path)

    def has(self, key: str) -> bool:
        """Return whether the cell is in the spool and can be read."""
        try:
            self.record(key)
        except (OSError, ValueError, TypeError):
            return False
        return True

    def discard(self, key: str) -> None:
        """Remove one cell."""
        shutil.rmtree(self._place(key), ignore_errors=True)

    def clear(self) -> None:
        """Remove everything: the server holds it all."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _place(self, key: str) -> Path:
        return self.folder / key

    def _write(self, record: R, table: pa.Table | None) -> None:
        target = self._place(record.key)
        partial = self.folder / f".{record.key}.tmp"
        try:
            partial.mkdir(exist_ok=True)
            if table is not None:
                import pyarrow.parquet as pq

                pq.write_table(table, partial / PREDICTIONS, compression="zstd")
            (partial / _RECORD).write_text(json.dumps(record.to_dict(), allow_nan=True), encoding="utf-8")
            if target.exists():
                shutil.rmtree(target)
            partial.rename(target)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise unwritable(error) from error


def unwritable(error: OSError) -> L3DError:
    """Return the error of a spool that cannot be written."""
    reason = error.strerror or str(error)
    return L3DError(f"The spool cannot be written ({reason}): free disk space, or set L3D_CACHE to another folder.")


def predictions_table(outcome: Outcome) -> pa.Table | None:
    """Return the columns ``example_id``, ``label``, ``prediction`` and, where there are any, ``score_<class>``."""
    if outcome.predictions is None:
        return None
    import pyarrow as pa

    numbers = pa.float64() if outcome.predictions.dtype.kind == "f" else pa.int64()
    columns = {
        "example_id": pa.array(outcome.example_ids),
        "label": pa.array(outcome.labels, numbers),
        "prediction": pa.array(outcome.predictions, numbers),
    }
    if outcome.scores is not None:
        columns |= {f"score_{k}": pa.array(outcome.scores[:, k], pa.float32()) for k in range(outcome.scores.shape[1])}
    return pa.table(columns)

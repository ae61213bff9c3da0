"""The local spool: one folder a cell, written at once or not at all, so that a killed process loses nothing.

A cell's folder is named by its key and holds ``cell.json`` (a :class:`~mlflow_l3d.tracking.records.CellRecord`), the
very ``predictions.parquet`` that is uploaded, ``artifacts`` that its training logged, a ``checksum`` of them all, and,
once a run was created for it on the server, ``run_id``. After a power cut files may be there without their content:
what does not fit its checksum is not there.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Generic, TypeVar

from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.paths import private_folder
from mlflow_l3d.tracking.names import CLASS_SCORE, PREDICTIONS, REFERENCE
from mlflow_l3d.tracking.records import RunRecord

R = TypeVar("R", bound=RunRecord)

_RECORD = "cell.json"
_RUN_ID = "run_id"
_CHECKSUM = "checksum"
_ARTIFACTS = "artifacts"


class Spool(Generic[R]):
    """The spool of one investigation or search on one tracking server.

    Parameters
    ----------
    folder
        Where the cells' folders lie; created if need be. Of several processes, one at a time may own it (the recorder
        holds a lock); several threads may use it.
    kind
        Class of the records.

    Attributes
    ----------
    identity
        What tells it from those of other machines.
    """

    def __init__(self, folder: Path, kind: type[R]) -> None:
        self.folder = folder
        self.kind = kind
        try:
            private_folder(folder, ours=True)
            machine = _machine_id(folder.parent)
        except OSError as error:
            raise unwritable(error) from error
        self.identity = hashlib.sha256(f"{machine}\n{folder.name}".encode()).hexdigest()[:16]
        for leftover in folder.glob(".*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)

    def add(
        self, record: R, outcome: Outcome | None = None, *, predictions: Path | None = None, run_id: str | None = None
    ) -> None:
        """Write one cell; it is either there whole or not at all.

        Parameters
        ----------
        record
            Facts about the cell.
        outcome
            Holds its predictions and artifacts, if any.
        predictions, run_id
            Of a cell that the server already holds: a file, and the run.

        Raises
        ------
        L3DError
            If the disk is full or the folder cannot be written.
        """
        target = self.folder / record.key
        partial = self.folder / f".{record.key}.tmp"
        try:
            partial.mkdir(exist_ok=True)
            if outcome is not None and outcome.predictions is not None:
                _write_predictions(outcome, partial / PREDICTIONS)
            if outcome is not None and outcome.logged is not None:
                for name, content in outcome.logged.artifacts.items():
                    path = partial / _ARTIFACTS / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
            if predictions is not None:
                shutil.copyfile(predictions, partial / PREDICTIONS)
            if run_id is not None:
                (partial / _RUN_ID).write_text(run_id, encoding="ascii")
            (partial / _RECORD).write_text(json.dumps(asdict(record), allow_nan=True), encoding="utf-8")
            (partial / _CHECKSUM).write_text(_checksum(partial), encoding="ascii")
            if target.exists():
                shutil.rmtree(target)
            partial.rename(target)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise unwritable(error) from error

    def __iter__(self) -> Iterator[str]:
        """Yield the keys of the cells in the spool."""
        return iter(cells_in(self.folder))

    def record(self, key: str) -> R:
        """Read the record of a cell."""
        return _read_record(self.folder / key, self.kind)

    def predictions(self, key: str) -> Path | None:
        """Return the file of a cell's predictions; None if the cell has none."""
        path = self.folder / key / PREDICTIONS
        return path if path.is_file() else None

    def artifacts(self, key: str) -> Path | None:
        """Return the folder of what a cell's training logged; None if there is nothing."""
        path = self.folder / key / _ARTIFACTS
        return path if path.is_dir() else None

    def run_id(self, key: str) -> str | None:
        """Return the run that was created for a cell; None before."""
        path = self.folder / key / _RUN_ID
        text = path.read_text(encoding="ascii", errors="replace") if path.is_file() else ""
        return text if re.fullmatch(r"[a-zA-Z0-9][\w-]{0,255}", text) else None

    def set_run_id(self, key: str, run_id: str | None) -> None:
        """Remember, or with None forget, the run that was created for a cell."""
        path = self.folder / key / _RUN_ID
        if run_id is None:
            path.unlink(missing_ok=True)
            return
        partial = path.with_suffix(".tmp")
        partial.write_text(run_id, encoding="ascii")
        partial.replace(path)

    def has(self, key: str) -> bool:
        """Return whether the cell is in the spool, whole."""
        return _whole_record(self.folder / key, self.kind) is not None

    def set_aside(self, key: str) -> None:
        """Move a cell that is not whole to the folder ``broken`` next to the spool."""
        broken = self.folder.with_name("broken")
        broken.mkdir(mode=0o700, exist_ok=True)
        target = broken / f".{key}"
        shutil.rmtree(target, ignore_errors=True)
        (self.folder / key).rename(target)

    def discard(self, key: str) -> None:
        """Remove one cell."""
        shutil.rmtree(self.folder / key, ignore_errors=True)

    def clear(self) -> None:
        """Remove everything: the server holds it all."""
        shutil.rmtree(self.folder, ignore_errors=True)


def cells_in(folder: Path) -> list[str]:
    """Return the keys of the cells in the folder of a spool, whoever owns it."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return [path.name for path in paths if path.is_dir() and not path.name.startswith(".")]


def read_records(folder: Path, kind: type[R]) -> list[R]:
    """Return the records that are whole in the folder of a spool, whoever owns it."""
    return [record for record in (_whole_record(folder / key, kind) for key in cells_in(folder)) if record is not None]


def _read_record(place: Path, kind: type[R]) -> R:
    return kind(**json.loads((place / _RECORD).read_text(encoding="utf-8")))


def _whole_record(place: Path, kind: type[R]) -> R | None:
    """Return the record of a cell; None if it does not fit its checksum or its folder."""
    try:
        is_whole = (place / _CHECKSUM).read_text(encoding="ascii") == _checksum(place)
        record = _read_record(place, kind)
    except (OSError, ValueError, TypeError):
        return None
    return record if is_whole and record.key == place.name else None


def _machine_id(folder: Path) -> str:
    """Return a number that is drawn once a cache folder, and kept as the name of a file there: no content to spoil."""
    if not any(folder.glob("id.*")):
        (folder / f"id.{uuid.uuid4().hex}").touch()
    return min(folder.glob("id.*"), key=lambda path: (path.stat().st_mtime_ns, path.name)).name  # of two at once


def unwritable(error: OSError) -> L3DError:
    """Return the error of a spool that cannot be written."""
    reason = error.strerror or str(error)
    return L3DError(f"The spool cannot be written ({reason}): free disk space, or set L3D_CACHE to another folder.")


def _checksum(folder: Path) -> str:
    """Return a hash of the record of a cell, and of its predictions and artifacts, if it has any."""
    digest = hashlib.sha256((folder / _RECORD).read_bytes())
    with suppress(FileNotFoundError):
        digest.update(hashlib.sha256((folder / PREDICTIONS).read_bytes()).digest())
    for path in sorted(path for path in (folder / _ARTIFACTS).rglob("*") if path.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _write_predictions(outcome: Outcome, path: Path) -> None:
    """Write ``example_id``, ``label``, ``prediction`` and, if there are any, ``reference`` and ``score_<class>``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"example_id": outcome.example_ids, "label": outcome.labels, "prediction": outcome.predictions}
    if outcome.reference is not None:
        columns[REFERENCE] = outcome.reference
    scores = () if outcome.scores is None else outcome.scores.T
    columns |= {f"{CLASS_SCORE}{number}": column for number, column in enumerate(scores)}
    # Nearly all scores differ: a dictionary makes them larger, and their bytes by place a quarter smaller, exactly.
    split = {f"{CLASS_SCORE}{number}": "BYTE_STREAM_SPLIT" for number in range(len(scores))}
    few = ["label", "prediction"]
    pq.write_table(pa.table(columns), path, compression="zstd", use_dictionary=few, column_encoding=split or None)

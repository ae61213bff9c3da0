"""Cells of other processes: those finished while a study runs, and those that killed ones left in the spool here."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Container, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import ChildWriter, Parent, condition, forget_lost_run, own_metrics, search
from mlflow_l3d.tracking.connection import file_of, is_outage
from mlflow_l3d.tracking.earlier.predictions import read_rows
from mlflow_l3d.tracking.parent import end_early
from mlflow_l3d.tracking.records import CellRecord
from mlflow_l3d.tracking.spool import Spool, cells_in

if TYPE_CHECKING:
    from mlflow.entities import Run

    from mlflow_l3d.cells.cell import Cell
    from mlflow_l3d.tracking.recorder import RunRecorder

_PAUSE: Final = 10.0
"""Seconds between two looks, and at least so many times as long as a look takes: looks take 1 % of the time at most."""
LOOK_SECONDS: Final = 0.5
"""Between two looks at what others finish, if nothing else is left to do."""
_TIMES: Final = 100.0
_MARGIN: Final = 300.0
"""Seconds that clocks may differ, and that an upload may take."""


class Elsewhere:
    """What others finish of the cells of a recorder, since it was opened.

    Parameters
    ----------
    recorder
        Their cells are recovered there, as at its opening.
    among
        How many look in turn: all of them together take 1 % of the time at most.
    """

    def __init__(self, recorder: RunRecorder[CellRecord], among: int = 1) -> None:
        self._recorder, self._times = recorder, _TIMES * among
        self._opened = self._last = time.time()
        self._next = time.monotonic() + _PAUSE

    def free(self, cell: Cell) -> bool:
        """Claim a cell that is to be trained; return False if it is done by now, or another process trains it."""
        self.look()
        return cell.key not in self._recorder.recovered.metrics and self._recorder.claims.take(cell.key)

    def settled(self, cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
        """Return those of the cells of other processes that are done now, and those given back, which are claimed."""
        done, claims = self._recorder.recovered.metrics, self._recorder.claims
        # Before the look: what ends here is found.
        locked = {cell.key for cell in cells if claims.lock(cell.key, alone=True)}
        for whole in (False, True):
            if not whole or locked - done.keys():
                self.look_now(locked, whole=whole)
        for key in locked & done.keys():
            claims.release(key)
        given_back = [cell for cell in cells if cell.key in locked and cell.key not in done]
        return [cell for cell in cells if cell.key in done], given_back

    def look(self) -> None:
        """Look, if it was not done a moment ago."""
        if time.monotonic() >= self._next:
            self.look_now()

    def look_now(self, also: Container[str] = (), *, whole: bool = False) -> None:
        """Look at once.

        Parameters
        ----------
        also
            Keys of cells that are wanted although this recorder has claimed them.
        whole
            Whether to look for all that was finished since the recorder was opened, not since the last look.
        """
        from mlflow.exceptions import MlflowException

        recorder, began = self._recorder, time.monotonic()
        since = (self._opened if whole else self._last) - _MARGIN
        recent = f"attributes.end_time > {int(1000 * since)}"
        not_ours = f"tags.`{names.PARENT_RUN_ID}` != '{recorder.parent.run_id}'"
        tags = {names.CONTEXT_KEY: recorder.work.context_key, names.ROLE: "cell"}
        self._last = time.time()
        try:
            runs = {
                key: run
                for run in search(recorder.client, None, f"{condition(tags, 'FINISHED')} and {not_ours} and {recent}")
                if (key := run.data.tags.get(names.CELL_KEY, "")) not in recorder.recovered.metrics
                and (key in also or key not in recorder.claims)
                and not recorder.spool.has(key)
            }
        except MlflowException as error:
            if not is_outage(error):
                raise
            self._last, runs = since + _MARGIN, {}
        for cell in recorder.work.cells() if runs and recorder.work.cells is not None else ():
            if cell.key in runs:
                recorder.recovered.held_by(cell.key, runs[cell.key])
                take_finished(recorder, cell, runs[cell.key])
        self._next = time.monotonic() + max(_PAUSE, self._times * (time.monotonic() - began))


def take_finished(recorder: RunRecorder[CellRecord], cell: Cell, run: Run) -> None:
    """Take a cell that the server holds as done; its predictions are copied to the spool by and by."""
    recorder.recovered.metrics[cell.key] = own_metrics(run)
    recorder.uploader.submit(f"the predictions of run {run.info.run_id}", partial(_fetch, recorder, cell, run))


def _fetch(recorder: RunRecorder[CellRecord], cell: Cell, run: Run) -> None:
    """Copy a cell that the server holds into the spool; safe to call again."""
    if recorder.spool.has(cell.key):
        return
    with tempfile.TemporaryDirectory() as folder:
        uri = str(run.info.artifact_uri)
        predictions = file_of(uri, names.PREDICTIONS, Path(folder), str(recorder.client.tracking_uri))
        if predictions is not None:
            read_rows(predictions, f"Run {run.info.run_id}: {names.PREDICTIONS}")
        ended = int(run.info.end_time or time.time() * 1000)
        record = CellRecord(**asdict(cell), name=cell.name, metrics=own_metrics(run), end_time=ended)
        recorder.spool.add(record, predictions=predictions, run_id=run.info.run_id)


def upload_abandoned(recorder: RunRecorder[Any], on_server: Container[str]) -> bool:
    """Upload what killed processes finished in the context of a recorder, and end their parents; return whether any.

    It becomes children of those parents, whose own commands still continue them. `on_server` are the keys of cells
    that the server holds.
    """
    from filelock import FileLock, Timeout

    ours, uploaded = recorder.spool.folder, False
    store = ours.name.rpartition("-")[0]
    for folder in sorted(ours.parent.glob(f"{store}-*")):
        if folder == ours or all(key in on_server for key in cells_in(folder)):
            continue
        try:
            with FileLock(folder.with_suffix(".upload"), timeout=60), FileLock(folder.with_suffix(".lock"), timeout=0):
                uploaded |= _upload(recorder, folder, on_server)
        except Timeout:  # its process is alive, and uploads them itself
            continue
    return uploaded


def _upload(recorder: RunRecorder[Any], folder: Path, on_server: Container[str]) -> bool:
    client, work, experiment_id = recorder.client, recorder.work, recorder.parent.experiment_id
    spool: Spool[Any] = Spool(folder, work.kind)
    theirs = condition({names.SPOOL: spool.identity, names.CONTEXT_KEY: work.context_key})
    [*_, parent] = [None, *search(client, [experiment_id], theirs)]
    if parent is None:
        return False
    writer = ChildWriter(client, Parent.of(parent), work.context_key, work.shared_params)
    for key in spool:
        is_finished = key not in on_server and spool.has(key) and spool.record(key).status == "FINISHED"
        if is_finished and recorder.claims.take(key, alone=True):
            forget_lost_run(client, spool, key)
            writer.write(spool, key, repeated=True)
            recorder.claims.release(key, done=True)
    if parent.info.status == "RUNNING":
        end_early(client, parent.info.run_id, "Its process was killed. The same command continues it.", "KILLED")
    return True

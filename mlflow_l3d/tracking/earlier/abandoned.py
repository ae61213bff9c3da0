"""Results that killed processes left in the spool of this machine, under another number of trials, runs or workers."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import ChildWriter, condition, forget_lost_run, search
from mlflow_l3d.tracking.parent import end_early, source_tags
from mlflow_l3d.tracking.spool import Spool, cells_in

if TYPE_CHECKING:
    from pathlib import Path

    from mlflow_l3d.tracking.recorder import RunRecorder


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
    shared = work.context_key, work.shared_params, source_tags(parent)
    writer = ChildWriter(client, experiment_id, parent.info.run_id, *shared)
    for key in spool:
        is_finished = key not in on_server and spool.has(key) and spool.record(key).status == "FINISHED"
        if is_finished and recorder.claims.take(key, alone=True):
            forget_lost_run(client, spool, key)
            writer.write(spool, key, repeated=True)
            recorder.claims.release(key, done=True)
    if parent.info.status == "RUNNING":
        end_early(client, parent.info.run_id, "Its process was killed. The same command continues it.", "KILLED")
    return True

"""What an earlier process left: finished cells to take, half-written ones to end, parents to continue."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.children import children_of, finished_cells, own_metrics, pruned_trials
from mlflow_l3d.tracking.connection import is_outage
from mlflow_l3d.tracking.ledger import Recovered
from mlflow_l3d.tracking.reader import fetch_artifact
from mlflow_l3d.tracking.records import CellRecord

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from mlflow_l3d.plan.cells import Cell
    from mlflow_l3d.tracking.ledger import Opened
    from mlflow_l3d.tracking.spool import Spool

_logger = logging.getLogger("mlflow_l3d")


def recover(opened: Opened[Any], context_key: str, cells: Callable[[], Iterable[Cell]] | None) -> Recovered:
    """Find what is done, take over the children of interrupted parents, and fetch what the tables of the parent need.

    Moving children and fetching predictions goes on in the uploader's threads after the return.

    Parameters
    ----------
    opened
        The new parent.
    context_key
        Hash of everything that the cells or trials share.
    cells
        Returns the cells that are planned; None for trials, of which all in the context are of use.
    """
    client, spool = opened.client, opened.spool
    found = Recovered()
    on_server = finished_cells(client, context_key, spool.kind.role)
    planned: set[str] | None = None
    if cells is not None:
        planned = {cell.key for cell in cells()} if on_server or any(True for _ in spool) else set()
    spooled = sorted(key for key in list(spool) if _usable(spool, key, planned))
    take_over(opened, set(spooled))
    for key in spooled:
        record = spool.record(key)
        if record.status == "KILLED":
            last = {f"curve/{name}": values[-1] for name, values in record.curves.items() if values}
            found.pruned.setdefault(record.stage, {})[key] = {**record.metrics, **last}
        else:
            found.metrics[key] = record.metrics
        if key in on_server:
            spool.set_run_id(key, on_server[key].info.run_id)
        else:
            forget_deleted(client, spool, key)
            found.to_upload.append(key)
    if cells is None:
        _trials_on_server(opened, on_server, found)
    for cell in cells() if cells is not None and planned else ():
        if cell.key in on_server and cell.key not in found.metrics:
            run = on_server[cell.key]
            found.metrics[cell.key] = own_metrics(run)
            opened.uploader.submit(f"the predictions of run {run.info.run_id}", _fetching(client, spool, cell, run))
    return found


def _trials_on_server(opened: Opened[Any], on_server: Mapping[str, Run], found: Recovered) -> None:
    """Note the trials that the server holds; what the spool says of one comes first."""
    for key, run in on_server.items():
        found.metrics.setdefault(key, own_metrics(run))
        found.runs[key] = str(run.info.run_id)
    for run in pruned_trials(opened.client, opened.parent.experiment_id, opened.card.key):
        key = run.data.tags.get(names.CELL_KEY, "")
        found.pruned.setdefault(run.data.tags.get(names.LEVEL, ""), {}).setdefault(key, run.data.metrics)
        found.runs.setdefault(key, str(run.info.run_id))


def _usable(spool: Spool[Any], key: str, planned: set[str] | None) -> bool:
    """Keep what is planned, whole and did not fail; remove any other."""
    if (planned is None or key in planned) and spool.has(key) and spool.record(key).status != "FAILED":
        return True
    spool.discard(key)
    return False


def forget_deleted(client: MlflowClient, spool: Spool[Any], key: str) -> None:
    """Let a cell be uploaded anew whose run somebody deleted."""
    from mlflow.exceptions import MlflowException

    run_id = spool.run_id(key)
    if run_id is None:
        return
    try:
        active = client.get_run(run_id).info.lifecycle_stage == "active"
    except MlflowException as error:
        if is_outage(error):
            raise
        active = False
    if not active:
        spool.set_run_id(key, None)


def take_over(opened: Opened[Any], spooled: set[str]) -> None:
    """Move the children of interrupted parents of the same work to the new one, and end what was left running.

    Parameters
    ----------
    opened
        The new parent.
    spooled
        Keys of the records that lie in the spool and are of use.
    """
    client, parent, spool = opened.client, opened.parent, opened.spool
    for earlier in parents.earlier_parents(client, parent, opened.card):
        earlier_id = str(earlier.info.run_id)
        if parents.may_be_alive(earlier, opened.spool_id):
            _logger.warning("Run %s is at the same work on another machine; its children are left there.", earlier_id)
            continue
        for child in children_of(client, parent.experiment_id, earlier_id):
            key = child.data.tags.get(names.CELL_KEY, "")
            pruned = child.data.tags.get(names.TRIAL_STATE) == "pruned" and child.info.status == "KILLED"
            if child.info.status == "FINISHED" or pruned:
                opened.uploader.submit(f"run {child.info.run_id}", _adopting(client, child, parent.run_id))
            elif child.info.status == "RUNNING" and key in spooled and spool.run_id(key) in {None, child.info.run_id}:
                spool.set_run_id(key, child.info.run_id)
                client.set_tag(child.info.run_id, names.PARENT_RUN_ID, parent.run_id)
            elif child.info.status == "RUNNING":
                client.set_terminated(child.info.run_id, "KILLED")
        if earlier.info.status == "RUNNING":
            client.set_terminated(earlier_id, "KILLED")
        if names.SUPERSEDED_BY not in earlier.data.tags:
            parents.set_tags(client, earlier_id, {names.STATE: "incomplete", names.SUPERSEDED_BY: parent.run_id})


def _adopting(client: MlflowClient, child: Run, parent_run_id: str) -> Callable[[bool], object]:
    return lambda _repeated: client.set_tag(child.info.run_id, names.PARENT_RUN_ID, parent_run_id)


def _fetching(client: MlflowClient, spool: Spool[CellRecord], cell: Cell, run: Run) -> Callable[[bool], object]:
    def work(_repeated: bool) -> None:
        if spool.has(cell.key):
            return
        with tempfile.TemporaryDirectory() as folder:
            predictions = fetch_artifact(client, run.info.run_id, names.PREDICTIONS, Path(folder))
            end_time = int(run.info.end_time or time.time() * 1000)
            record = CellRecord.known(cell, own_metrics(run), end_time)
            spool.add_copy(record, predictions, run.info.run_id)

    return work

"""What an earlier process left: finished cells to take, half-written ones to end, parents to continue."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.children import children_of, finished_cells, own_metrics
from mlflow_l3d.tracking.connection import is_outage
from mlflow_l3d.tracking.reader import fetch_predictions
from mlflow_l3d.tracking.records import CellRecord

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from mlflow_l3d.parameters.setup import Setup
    from mlflow_l3d.plan.cells import Cell
    from mlflow_l3d.tracking.recorder import Opened
    from mlflow_l3d.tracking.spool import Spool

_logger = logging.getLogger("mlflow_l3d")


class HasCells(Protocol):
    """Cells in their order."""

    def cells(self) -> Iterator[Cell]:
        """Yield them."""
        ...


class CellWork(Protocol):
    """What has cells: an investigation, or a study of seeds."""

    @property
    def context_key(self) -> str:
        """Hash of everything that the cells share."""
        ...

    @property
    def setup(self) -> Setup:
        """What is trained, on what and where."""
        ...

    def design(self) -> HasCells:
        """Return what holds the cells."""
        ...


@dataclass(slots=True)
class Recovered:
    """What need not be computed.

    Attributes
    ----------
    metrics
        Key -> metrics of every cell of the plan that is already done.
    to_upload
        Keys of cells that lie in the spool, but not on the server.
    continued
        Parents that the new one continues.
    """

    metrics: dict[str, Mapping[str, float]] = field(default_factory=dict)
    to_upload: list[str] = field(default_factory=list)
    continued: list[str] = field(default_factory=list)


def recover(opened: Opened[CellRecord], specification: CellWork) -> Recovered:
    """Find what is done, take over the children of interrupted parents, and fetch what the tables of the parent need.

    Moving children and fetching predictions goes on in the uploader's threads after the return.
    """
    client, spool = opened.client, opened.spool
    result = Recovered()
    on_server = finished_cells(client, specification.context_key)
    nothing = not on_server and not any(True for _ in spool)
    planned = set() if nothing else {cell.key for cell in specification.design().cells()}
    spooled = {key for key in list(spool) if _usable(spool, key, planned)}
    result.continued = take_over(opened, spooled)
    for cell in specification.design().cells() if planned else ():
        key = cell.key
        if key in spooled:
            result.metrics[key] = spool.record(key).metrics
            if key in on_server:
                spool.set_run_id(key, on_server[key].info.run_id)
            else:
                forget_deleted(client, spool, key)
                result.to_upload.append(key)
        elif key in on_server:
            run = on_server[key]
            result.metrics[key] = own_metrics(run)
            opened.uploader.submit(f"the predictions of run {run.info.run_id}", _fetching(client, spool, cell, run))
    return result


def _usable(spool: Spool[CellRecord], key: str, planned: set[str]) -> bool:
    """Keep a cell of the spool that is planned, whole and did not fail; remove any other."""
    if key in planned and spool.has(key) and spool.record(key).error is None:
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


def take_over(opened: Opened[Any], spooled: set[str]) -> list[str]:
    """Move the children of interrupted parents of the same work to the new one, and end what was left running.

    Parameters
    ----------
    opened
        The new parent.
    spooled
        Keys of the records that lie in the spool and are of use.

    Returns
    -------
    list of str
        The parents that the new one continues.
    """
    client, parent, spool = opened.client, opened.parent, opened.spool
    continued = []
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
            continued.append(earlier_id)
    return continued


def _adopting(client: MlflowClient, child: Run, parent_run_id: str) -> Callable[[bool], object]:
    return lambda _repeated: client.set_tag(child.info.run_id, names.PARENT_RUN_ID, parent_run_id)


def _fetching(client: MlflowClient, spool: Spool[CellRecord], cell: Cell, run: Run) -> Callable[[bool], object]:
    def work(_repeated: bool) -> None:
        if spool.has(cell.key):
            return
        with tempfile.TemporaryDirectory() as folder:
            predictions = fetch_predictions(client, run.info.run_id, Path(folder))
            end_time = int(run.info.end_time or time.time() * 1000)
            record = CellRecord.known(cell, own_metrics(run), end_time)
            spool.add_copy(record, predictions, run.info.run_id)

    return work

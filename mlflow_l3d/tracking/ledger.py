"""One parent run and its children on one tracking server: spool first, uploads beside the work, a true end."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.children import ChildWriter, children_of
from mlflow_l3d.tracking.connection import error_line
from mlflow_l3d.tracking.records import RunRecord
from mlflow_l3d.tracking.spool import Spool
from mlflow_l3d.tracking.uploader import Uploader

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    from mlflow_l3d.plan.cells import Outcome

_logger = logging.getLogger("mlflow_l3d")
_HEARTBEAT_SECONDS: Final = 60.0
PATIENCE_SECONDS: Final = 120.0
"""How long the end of the work waits for a server that is away; ``$L3D_UPLOAD_PATIENCE`` overrides it."""

R = TypeVar("R", bound=RunRecord)


@dataclass(frozen=True)
class Opened(Generic[R]):
    """What a ledger works with.

    Attributes
    ----------
    client, parent
        The tracking server, and the parent run on it.
    card
        What the parent says of itself.
    spool, spool_id
        Where records lie until the server holds them, and what tells it from those of other machines.
    lock
        Held as long as the parent is open.
    uploader
        Threads that write to the server.
    """

    client: MlflowClient
    parent: parents.Parent
    card: parents.Card
    spool: Spool[R]
    spool_id: str
    lock: BaseFileLock
    uploader: Uploader


@dataclass(slots=True)
class Recovered:
    """What need not be computed.

    Attributes
    ----------
    metrics
        Key -> metrics of every cell or trial that is already done.
    runs
        Key -> run of those trials that are on the server.
    pruned
        Stage -> key -> metrics of trials that an earlier process at the same search pruned.
    to_upload
        Keys of what lies in the spool, but not on the server.
    """

    metrics: dict[str, Mapping[str, float]] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    pruned: dict[str, dict[str, Mapping[str, float]]] = field(default_factory=dict)
    to_upload: list[str] = field(default_factory=list)


class Ledger(Generic[R]):
    """What is done, what is new, and a parent in a true state at the end.

    Open with :func:`mlflow_l3d.tracking.opening.open_ledger`; then `add` every record, and end with `finish`,
    `interrupt` or `fail`.

    Contract: `add` and `log_metrics` never wait for the server. What was added is never lost: it lies in the spool
    until the server holds it. The main thread owns the ledger.

    Parameters
    ----------
    opened
        The parent and what belongs to it.
    context_key
        Tag of everything that the children share.
    shared_params
        Parameters that every child has.

    Attributes
    ----------
    recovered
        What was done before.
    """

    def __init__(self, opened: Opened[R], context_key: str, shared_params: Mapping[str, str]) -> None:
        self.client = opened.client
        self.parent = opened.parent
        self.spool = opened.spool
        self.uploader = opened.uploader
        self.recovered = Recovered()
        self._lock = opened.lock
        self._writer = ChildWriter(
            client=opened.client,
            experiment_id=opened.parent.experiment_id,
            parent_run_id=opened.parent.run_id,
            context_key=context_key,
            shared_params=shared_params,
            source_tags=opened.parent.source_tags,
        )
        self._metrics: deque[Metric] = deque()
        self._metrics_lock = threading.Lock()
        self._metrics_queued = False
        self._ended = threading.Event()
        threading.Thread(target=self._beat, name="l3d-heartbeat", daemon=True).start()

    def add(self, record: R, outcome: Outcome | None = None) -> R:
        """Keep one record: in the spool at once, on the server by and by; `outcome` holds its predictions, if any."""
        self.spool.add(record, outcome)
        self.submit(record.key)
        return record

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Put metrics on the parent, by and by."""
        batch = parents.metrics_of(metrics, step)
        with self._metrics_lock:
            self._metrics.extend(batch)
            under_way, self._metrics_queued = self._metrics_queued, True
        if not under_way:
            self.uploader.submit("the metrics of the parent", self._upload_metrics)

    def log_params(self, params: Mapping[str, str]) -> None:
        """Put parameters on the parent, by and by."""
        from mlflow.entities import Param

        batch = [Param(name, value) for name, value in params.items()]
        self.uploader.submit(
            "the parameters of the parent", lambda _repeated: self.client.log_batch(self.parent.run_id, params=batch)
        )

    def wait(self, patience: float | None = None) -> None:
        """Wait until the server holds everything.

        Raises
        ------
        L3DError
            If the server is away for longer than `patience` seconds (by default :func:`patience_seconds`), or refused
            something.
        """
        patience = patience_seconds() if patience is None else patience
        if not self.uploader.wait(patience=patience):
            msg = (
                f"The tracking server does not answer: {self.uploader.pending} uploads wait in the spool. "
                "Run the same command again when it is back: nothing is computed twice."
            )
            raise L3DError(msg)
        if self.uploader.refused:
            name, line = self.uploader.refused[0]
            msg = f"The tracking server refused {len(self.uploader.refused)} uploads; the first was {name}: {line}"
            raise L3DError(msg)

    def finish(self, artifacts: Path, *, complete: bool, description: str) -> None:
        """Upload the folder `artifacts` to the parent, set its state and description, end it, and empty the spool."""
        tables = [name for name in names.TABLES if (artifacts / name).exists()]
        table = json.dumps([{"path": name, "type": "table"} for name in tables])
        state = "complete" if complete else "incomplete"
        tags = {names.STATE: state, names.LOGGED_ARTIFACTS: table, names.NOTE: description}

        def work(_repeated: bool) -> None:
            self.client.log_artifacts(self.parent.run_id, str(artifacts))
            parents.set_tags(self.client, self.parent.run_id, tags)
            self.client.set_terminated(self.parent.run_id, "FINISHED")

        self.uploader.submit("the artifacts of the parent", work)
        self.wait()
        self.spool.clear()
        self._close()

    def interrupt(self, line: str, *, patience: float = 10.0) -> None:
        """End the parent as KILLED and resumable (Ctrl-C); waits for uploads as long as the server answers."""
        self.end("KILLED", line, patience)

    def fail(self, line: str, *, patience: float = 10.0) -> None:
        """End the parent as FAILED with the line that says why; what is done stays."""
        self.end("FAILED", line, patience)

    def run_ids(self) -> dict[str, str]:
        """Return key -> run id of every cell in the spool, after removing what a retried call doubled."""
        wanted = {key: run_id for key in self.spool if (run_id := self.spool.run_id(key)) is not None}
        doubled = [
            str(run.info.run_id)
            for run in children_of(self.client, self.parent.experiment_id, self.parent.run_id)
            if wanted.get(run.data.tags.get(names.CELL_KEY, ""), run.info.run_id) != run.info.run_id
        ]
        for run_id in doubled:
            self.client.delete_run(run_id)
        return wanted

    def run_of(self, key: str) -> str:
        """Return the run of a trial; the empty text where it has none yet."""
        return self.spool.run_id(key) or self.recovered.runs.get(key, "")

    def submit(self, key: str, *, repeated: bool = False) -> None:
        """Queue the upload of a record of the spool; `repeated` where an earlier attempt may have created its run."""

        def work(repeated: bool) -> str:
            return self._writer.write(self.spool, key, repeated=repeated)

        self.uploader.submit(f"run {key}", work, repeated=repeated)

    def end(self, status: str, line: str, patience: float) -> None:
        """End the parent with a status and the line that says why; never raises."""
        if self._ended.is_set():
            return
        try:
            self.uploader.wait(patience=0.0 if self.uploader.outage_seconds else patience)
            tags = {names.STATE: "incomplete", names.ERROR: line[:5000], names.NOTE: line[:5000]}
            parents.set_tags(self.client, self.parent.run_id, tags)
            self.client.set_terminated(self.parent.run_id, status)
        except Exception as error:  # noqa: BLE001 - the user must see `line`, not that the server is away, too
            _logger.error("The parent run could not be ended: %s", error_line(error))
        finally:
            self._close()

    def _close(self) -> None:
        self._ended.set()
        self.uploader.stop()
        self._lock.release()

    def _upload_metrics(self, _repeated: bool) -> None:
        """Send what has come together, in as few calls as there can be; safe to call again after a failure."""
        while True:
            with self._metrics_lock:
                batch = list(islice(self._metrics, parents.METRICS_A_BATCH))
                if not batch:
                    self._metrics_queued = False
                    return
            self.client.log_batch(self.parent.run_id, metrics=batch)
            with self._metrics_lock:
                for _ in batch:
                    self._metrics.popleft()

    def _beat(self) -> None:
        while not self._ended.wait(_HEARTBEAT_SECONDS):
            if self.uploader.outage_seconds == 0.0:
                self.uploader.submit("the heartbeat", self._heartbeat())

    def _heartbeat(self) -> Callable[[bool], object]:
        tags = {names.HEARTBEAT: str(int(time.time()))}
        return lambda _repeated: parents.set_tags(self.client, self.parent.run_id, tags)


def patience_seconds() -> float:
    """Return how long the end of the work waits for a server that is away.

    Raises
    ------
    ParameterError
        If ``$L3D_UPLOAD_PATIENCE`` is no number of seconds.
    """
    given = os.environ.get("L3D_UPLOAD_PATIENCE")
    try:
        seconds = PATIENCE_SECONDS if given is None else float(given)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0.0:
        raise ParameterError("L3D_UPLOAD_PATIENCE", given, "must be a number of seconds, 0 or more")
    return seconds

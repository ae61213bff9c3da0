"""One parent run and its children on one tracking server: spool first, uploads during the work, a true end."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic

from mlflow_l3d.errors import L3DError, ParameterError, logger
from mlflow_l3d.execution.environment import deferred_interrupts
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.children import ChildWriter, Parent, children_of, found, renamed
from mlflow_l3d.tracking.connection import Client, Run, error_line
from mlflow_l3d.tracking.pages import link_of
from mlflow_l3d.tracking.spool import R, Spool
from mlflow_l3d.tracking.uploader import Uploader

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from mlflow.entities import Metric

    from mlflow_l3d.cells.cell import Cell, Outcome
    from mlflow_l3d.tracking.claims import Claims

PATIENCE_SECONDS: Final = 120.0
"""How long the end of the work waits for a server that is away; ``$L3D_UPLOAD_PATIENCE`` overrides it."""


@dataclass(frozen=True)
class Work(Generic[R]):
    """What a recorder is opened for.

    Attributes
    ----------
    card
        What the parent says of itself.
    kind
        Class of the records.
    context_key
        Hash of everything that the cells or trials share.
    shared_params
        Parameters that every child has.
    cells
        Returns the cells that are planned; None for trials, which are not known beforehand.
    """

    card: parents.Card
    kind: type[R]
    context_key: str
    shared_params: Mapping[str, str]
    cells: Callable[[], Iterable[Cell]] | None = None


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
    notes
        Which runs this one continues, in Markdown.
    holders
        Key -> experiment and id of the other parent that a cell is a child of.
    """

    metrics: dict[str, Mapping[str, float]] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    pruned: dict[str, dict[str, Mapping[str, float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    holders: dict[str, tuple[str, str]] = field(default_factory=dict)

    def held_by(self, key: str, run: Run) -> None:
        """Note that a run of another parent is a cell of this one."""
        if holder := run.data.tags.get(names.PARENT_RUN_ID):
            self.holders[key] = str(run.info.experiment_id), holder

    def told(self) -> tuple[str, dict[str, str]]:
        """Return what a description says of this, and the tags that name the other parents."""
        held = Counter(self.holders.values()).most_common()
        notes = [f"{count:,} of its cells are children of {link_of(*holder)}." for holder, count in held]
        tags = {names.CELLS_OF: ",".join(run_id for (_, run_id), _ in held)} if held else {}
        return "\n\n".join([*self.notes, *notes]), tags


class RunRecorder(Generic[R]):
    """What is done, what is new, and a parent in a true state at the end.

    Open with :func:`~mlflow_l3d.tracking.opening.open_recorder`; then `add` every record, and `finish` or `end`.

    Contract: `add` and `log_metrics` never wait for the server. What was added is never lost: it lies in the spool
    until the server holds it. The main thread owns the recorder.

    Parameters
    ----------
    client, parent
        The tracking server, and the parent run on it.
    work
        What is to be recorded.
    spool
        Where records lie until the server holds them.
    lock
        Held as long as the parent is open.
    claims
        Cells that others train, and that this recorder's owner does.
    beside
        A recorder that is open all the while, whose threads do the work of this one, too.

    Attributes
    ----------
    recovered
        What was done before.
    """

    def __init__(
        self,
        client: Client,
        parent: Parent,
        work: Work[R],
        spool: Spool[R],
        lock: BaseFileLock,
        claims: Claims,
        beside: RunRecorder[Any] | None = None,
    ) -> None:
        self.client, self.parent, self.work, self.spool, self.claims = client, parent, work, spool, claims
        remote = str(client.tracking_uri).startswith(("http://", "https://", "databricks"))
        self.uploader: Uploader = Uploader(8 if remote else 2, beside=None if beside is None else beside.uploader)
        self.recovered = Recovered()
        self._lock = lock
        self._writer = ChildWriter(client, parent, work.context_key, work.shared_params)
        self._repeated = False
        self._metrics: list[Metric] = []
        self._points: dict[tuple[str, int], float] = {}
        self._renamed: set[tuple[str, str]] = set()
        self._sending_metrics = threading.Lock()
        self._ended = threading.Event()
        self._beating: list[RunRecorder[Any]] = [] if beside is None else beside._beating
        self._beating.append(self)
        if beside is None:
            threading.Thread(target=self._beat, name="l3d-heartbeat", daemon=True).start()

    def add(self, record: R, outcome: Outcome | None = None) -> R:
        """Keep one record: in the spool at once, on the server by and by; `outcome` holds its predictions, if any."""
        self.spool.add(record, outcome)
        for name, own in renamed(record).items() - self._renamed:
            logger.warning("MLflow does not take the metric name %r: it is logged as %s.", own, name)
        self._renamed |= renamed(record).items()
        self.submit(record.key)
        return record

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Put metrics on the parent, by and by."""
        news = {name: value for name, value in metrics.items() if self._points.get((name, step)) != value}
        self._points |= {(name, step): value for name, value in news.items()}
        self._metrics.extend(parents.metrics_of(news, step))
        self.uploader.submit("the metrics of the parent", self._upload_metrics)

    def log_params(self, params: Mapping[str, str]) -> None:
        """Put parameters on the parent, by and by."""
        logging_them = partial(parents.log_params, self.client, self.parent.run_id, params)
        self.uploader.submit("the parameters of the parent", logging_them)

    def wait(self) -> None:
        """Wait until the server holds everything.

        Raises
        ------
        L3DError
            If the server is away for longer than :func:`patience_seconds`, or refused something.
        """
        if not self.uploader.wait(patience=patience_seconds()):
            waiting = f"{self.uploader.why} {self.uploader.pending} uploads wait in the spool"
            raise L3DError(f"{waiting}: the same command continues later, and computes nothing twice.")
        if refused := self.uploader.refused:
            name, line = refused[0]
            what = f"The tracking server refused {len(refused)} uploads; the first was {name}: {line.rstrip('.')}"
            raise L3DError(f"{what}. Mend that and run the same command again: nothing is computed twice.")

    def finish(self, artifacts: Path, *, complete: bool, description: str) -> None:
        """Upload the folder `artifacts` to the parent, set its state and description, end it, and empty the spool."""
        tables = [name for name in names.TABLES if (artifacts / name).exists()]
        related, of_others = self.recovered.told()
        note = "\n\n".join(filter(None, [description, related]))
        tags = {names.STATE: "complete" if complete else "incomplete", names.NOTE: note, **of_others}

        client, run_id = self.client, self.parent.run_id
        log_results = partial(parents.log_results, client, run_id, artifacts, tags, tables)
        self.uploader.submit("the artifacts of the parent", log_results)
        self.wait()
        # The end comes last: whoever finds the parent at work goes on with it, and one that has ended left nothing.
        self.spool.clear()
        self.uploader.submit("the end of the parent", lambda: client.set_terminated(run_id, "FINISHED"))
        self.wait()
        self._close()

    def run_ids(self) -> dict[str, str]:
        """Return key -> run id of every cell in the spool, after removing what a retried call doubled."""
        run_ids = {key: run_id for key in self.spool if (run_id := self.spool.run_id(key)) is not None}
        children = children_of(self.client, self.parent.experiment_id, self.parent.run_id) if self._repeated else ()
        for run in list(children):
            run_id = str(run.info.run_id)
            if run_ids.get(run.data.tags.get(names.CELL_KEY, ""), run_id) != run_id:
                found(self.client.delete_run, run_id)
        return run_ids

    def run_of(self, key: str) -> str:
        """Return the run of a trial; the empty text if it has none yet."""
        return self.spool.run_id(key) or self.recovered.runs.get(key, "")

    def submit(self, key: str, *, repeated: bool = False) -> None:
        """Queue the upload of a record of the spool; `repeated` if an earlier attempt may have created its run."""
        attempts = count(int(repeated))

        def writing() -> None:
            again = next(attempts) > 0
            self._repeated |= again
            # Trials are claimed only now: two searches may train one, and the first to have it uploads it.
            is_claimed = key in self.claims or self.spool.record(key).status != "FINISHED"
            if is_claimed or self.claims.take_soon(key) or not self._writer.take_other(self.spool, key):
                self._writer.write(self.spool, key, repeated=again)
                self.claims.release(key, done=True)

        self.uploader.submit(f"run {key}", writing)

    def end(self, status: str, line: str, patience: float = 10.0) -> None:
        """End the parent as FAILED, or after Ctrl-C as KILLED, with the line that says why; what is done stays.

        Waits up to `patience` seconds of an outage for uploads. Never raises.
        """
        if self._ended.is_set():
            return
        try:
            try:
                self.uploader.wait(patience=0.0 if self.uploader.outage_seconds else patience)
            finally:  # a second Ctrl-C ends the wait alone
                with deferred_interrupts():
                    parents.end_early(self.client, self.parent.run_id, line, status)
        except Exception as error:  # noqa: BLE001 - the user must see `line`, not that the server is away, too
            logger.error("The parent run could not be ended: %s", error_line(error))
        finally:
            self._close()

    def _close(self) -> None:
        self._ended.set()
        self._beating.remove(self)
        self.uploader.stop()
        self.claims.close()
        self._lock.release()

    def _upload_metrics(self) -> None:
        """Send what has come together, in as few calls as there can be; safe to call again after a failure."""
        with self._sending_metrics:
            while batch := self._metrics[: parents.METRICS_A_BATCH]:
                self.client.log_batch(self.parent.run_id, metrics=batch)
                del self._metrics[: len(batch)]

    def _beat(self) -> None:
        while not self._ended.wait(parents.HEARTBEAT_SECONDS):
            for recorder in tuple(self._beating) if self.uploader.outage_seconds == 0.0 else ():
                beat = partial(parents.set_tags, recorder.client, recorder.parent.run_id, parents.heartbeat())
                recorder.uploader.submit("the heartbeat", beat)


def patience_seconds() -> float:
    """Return how long the end of the work waits for a server that is away.

    Raises
    ------
    ParameterError
        If ``$L3D_UPLOAD_PATIENCE`` is not a number of seconds.
    """
    text = os.environ.get("L3D_UPLOAD_PATIENCE")
    try:
        seconds = PATIENCE_SECONDS if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0.0:
        raise ParameterError("L3D_UPLOAD_PATIENCE", text, "must be a number of seconds, 0 or more")
    return seconds

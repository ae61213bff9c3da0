"""One cell or trial as one child run: written in four calls, found again by its key."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client, Run, T, is_outage, log_files
from mlflow_l3d.tracking.pages import STUDIES

if TYPE_CHECKING:
    from mlflow.entities import Metric
    from mlflow.store.entities import PagedList

    from mlflow_l3d.tracking.records import RunRecord
    from mlflow_l3d.tracking.spool import Spool

_SOURCE_TAGS: Final[tuple[str, ...]] = (
    "mlflow.user",
    "mlflow.source.name",
    "mlflow.source.type",
    "mlflow.source.git.commit",
)
_RUNS_A_PAGE = 500  # a run takes tens of kilobytes of memory; each page is sorted anew by the server


@dataclass(frozen=True, slots=True)
class Parent:
    """A parent run that was opened; `source_tags` are user and commit, as MLflow gives them to it."""

    run_id: str
    experiment_id: str
    source_tags: Mapping[str, str]

    @classmethod
    def of(cls, run: Run) -> Parent:
        """Return a run as a parent."""
        tags = {name: run.data.tags[name] for name in _SOURCE_TAGS if name in run.data.tags}
        return cls(str(run.info.run_id), str(run.info.experiment_id), tags)


@dataclass(frozen=True)
class ChildWriter:
    """Writes the children of one parent.

    Attributes
    ----------
    client, parent
        Where the runs go.
    context_key
        Tag of everything that the children share.
    shared_params
        Parameters that every child has: task, approach, model; of cells also the hyperparameters.
    """

    client: Client
    parent: Parent
    context_key: str
    shared_params: Mapping[str, str]

    def write(self, spool: Spool[Any], key: str, *, repeated: bool) -> str:
        """Write one cell of the spool and return its run id. May be called again after any failure.

        Parameters
        ----------
        spool
            Holds the cell.
        key
            Key of the cell.
        repeated
            Whether an earlier attempt may have created the run without our learning its id.
        """
        record, known = spool.record(key), spool.run_id(key)
        begun = self.client.get_run(known) if known else self._begun(key) if repeated else None
        info = (begun or self._create(record)).info
        spool.set_run_id(key, info.run_id)
        self._log(info.run_id, record)
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / names.TRACEBACK
            if record.traceback is not None:
                trace.write_text(record.traceback, encoding="utf-8")
            for path in (spool.predictions(key), trace, spool.artifacts(key)):
                if path is not None and path.exists():
                    log_files(info.artifact_uri, path, str(self.client.tracking_uri))
        self.client.set_terminated(info.run_id, record.status, end_time=record.end_time)
        return str(info.run_id)

    def take_other(self, spool: Spool[Any], key: str) -> bool:
        """Let a cell of the spool have its finished run of another parent; return whether there is one."""
        wanted = condition({names.CELL_KEY: key, names.CONTEXT_KEY: self.context_key}, "FINISHED")
        other = next(search(self.client, None, wanted), None)
        if other is not None:
            begun = spool.run_id(key)
            if begun is not None and begun != other.info.run_id:
                self.client.set_terminated(begun, "KILLED")
            spool.set_run_id(key, other.info.run_id)
        return other is not None

    def _create(self, record: RunRecord) -> Run:
        tags = {
            **record.tags_logged,
            names.PARENT_RUN_ID: self.parent.run_id,
            names.SCHEMA_TAG: names.SCHEMA,
            names.CONTEXT_KEY: self.context_key,
            **self.parent.source_tags,
            **record.tags(),
            **({names.ERROR: record.error[:5000]} if record.error else {}),
            **{f"{names.METRIC_NAME}.{number}": own for number, own in enumerate(renamed(record).values())},
        }
        tags = {names.accepted(name): value[:8000] for name, value in tags.items()}
        start_time = record.end_time - round(1000 * record.metrics.get("duration_seconds", 0.0))
        return self.client.create_run(self.parent.experiment_id, start_time=start_time, tags=tags, run_name=record.name)

    def _log(self, run_id: str, record: RunRecord) -> None:
        from mlflow.entities import Metric, Param

        ours = {**record.params(), **self.shared_params}
        theirs = {_beside(name, ours.get(name, value) == value): value for name, value in record.params_logged.items()}
        params = [Param(names.accepted(name), value[:6000]) for name, value in {**theirs, **ours}.items()]
        metrics = _metrics(record)
        for name, values in record.curves.items():
            metrics += [Metric(f"curve/{name}", value, record.end_time, step) for step, value in enumerate(values)]
        finite = [each for each in metrics if math.isfinite(each.value)]
        metrics = [Metric(names.accepted(each.key), each.value, each.timestamp, each.step) for each in finite]
        # MLflow takes 1,000 of both together, of which 100 may be parameters.
        for some, others in zip_longest(batches(metrics, 900), batches(params, 100), fillvalue=()):
            self.client.log_batch(run_id, metrics=some, params=others)

    def _begun(self, key: str) -> Run | None:
        wanted = condition({names.CELL_KEY: key, names.PARENT_RUN_ID: self.parent.run_id})
        return next(search(self.client, [self.parent.experiment_id], wanted), None)


def _metrics(record: RunRecord) -> list[Metric]:
    """Return the metrics of a record: what its training logged with its own times and steps, and the others at 0."""
    from mlflow.entities import Metric

    last = {name: value for name, value, *_ in record.metrics_logged}
    same = {name for name, value in last.items() if record.metrics.get(name, value) == value}
    own = [Metric(name, value, record.end_time, 0) for name, value in record.metrics.items() if name not in same]
    logged = [
        Metric(_beside(name, name in same), value, milliseconds, step)
        for name, value, milliseconds, step in record.metrics_logged
    ]
    return [*own, *logged]


def renamed(record: RunRecord) -> dict[str, str]:
    """Return the name that MLflow takes -> own name, of those metrics and curves of a record that need another."""
    own = [*record.metrics, *(f"curve/{name}" for name in record.curves)]
    return {names.accepted(name): name for name in own if names.accepted(name) != name}


def _beside(name: str, same: bool) -> str:
    """Return the name of what a training logged: another one if ours is there, and different."""
    return name if same else f"logged.{name}"


def batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Return the items in pieces of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def condition(tags: Mapping[str, str], status: str = "") -> str:
    """Return MLflow's filter for runs with these tags and, if one is given, this status."""
    parts = [f"tags.`{name}` = '{value}'" for name, value in tags.items()]
    return " and ".join([*parts, f"attributes.status = '{status}'"] if status else parts)


def search(client: Client, experiments: list[str] | None, wanted: str) -> Iterator[Run]:
    """Yield every active run of some experiments, or of all, that a filter finds, page after page, oldest first."""
    where = experiment_ids(client) if experiments is None else experiments
    order, most = ["attributes.start_time ASC"], _RUNS_A_PAGE
    return every_page(lambda page: client.search_runs(where, wanted, order_by=order, max_results=most, page_token=page))


def children_of(client: Client, experiment_id: str, parent_run_id: str) -> Iterator[Run]:
    """Yield the children of a parent, whoever logged them."""
    return search(client, [experiment_id], condition({names.PARENT_RUN_ID: parent_run_id}))


def runs_named(client: Client, run_ids: Sequence[str]) -> Iterator[Run]:
    """Yield those of some runs that are active, in any experiment, many in one call, oldest first."""
    experiments = experiment_ids(client) if run_ids else []
    for batch in batches(run_ids, _RUNS_A_PAGE):
        quoted = ", ".join(f"'{run_id}'" for run_id in batch)
        yield from search(client, experiments, f"attributes.run_id IN ({quoted})")


def whole_id(client: Client, run_id: str, parameter: str = "parent_run_id") -> str:
    """Return the id of the only study whose id begins so; the given text if none does.

    Raises
    ------
    ParameterError
        If several do: it lists them.
    """
    if not re.fullmatch(r"[0-9a-f]{4,31}", run_id):
        return run_id
    found_ids = [str(run.info.run_id) for run in search(client, None, STUDIES)]
    if len(alike := [each for each in found_ids if each.startswith(run_id)]) > 1:
        raise ParameterError(parameter, run_id, f"studies begin so: {', '.join(alike)}", "Give more of its id.")
    return alike[0] if alike else run_id


def experiment_ids(client: Client) -> list[str]:
    """Return the id of every active experiment of a server."""
    return [str(each.experiment_id) for each in every_page(lambda token: client.search_experiments(page_token=token))]


def every_page(page_after: Callable[[str | None], PagedList[T]]) -> Iterator[T]:
    """Yield what a server gives page after page."""
    token: str | None = None
    while True:
        page = page_after(token)
        yield from page
        token = page.token
        if not token:
            return


def found(get: Callable[[str], T], name: str) -> T | None:
    """Return what a call gives for a name or id; None if the server, which must not be away, has no such thing."""
    from mlflow.exceptions import MlflowException

    try:
        return get(name)
    except (MlflowException, ParameterError) as error:
        if is_outage(error):
            raise
        return None


def forget_lost_run(client: Client, spool: Spool[Any], key: str) -> None:
    """Let a cell of a spool have a new run if its own was deleted, or is another's."""
    run_id = spool.run_id(key)
    run = None if run_id is None else found(client.get_run, run_id)
    if run is None or run.info.lifecycle_stage != "active" or run.data.tags.get(names.CELL_KEY) != key:
        spool.set_run_id(key, None)


def finished_cells(client: Client, context_key: str, role: str = "cell") -> dict[str, Run]:
    """Return key -> the oldest finished run, of every cell on the server that shares a context, in any experiment.

    With ``role="trial"`` those of trials.
    """
    found: dict[str, Run] = {}
    for run in search(client, None, condition({names.CONTEXT_KEY: context_key, names.ROLE: role}, "FINISHED")):
        found.setdefault(run.data.tags.get(names.CELL_KEY, ""), run)
    found.pop("", None)
    return found


def pruned_trials(client: Client, experiment_id: str, search_key: str) -> Iterator[Run]:
    """Yield the pruned trials of every parent of the same search in an experiment."""
    parents = condition({names.SEARCH_KEY: search_key, names.ROLE: "search"})
    for parent in list(search(client, [experiment_id], parents)):
        own = {names.PARENT_RUN_ID: parent.info.run_id, names.TRIAL_STATE: "pruned"}
        yield from search(client, [experiment_id], condition(own, "KILLED"))


def metrics_in(run: Run) -> dict[str, float]:
    """Return the metrics of a run by their own names."""
    tags, values = run.data.tags, run.data.metrics
    own = {names.accepted(text): text for name, text in tags.items() if name.startswith(names.METRIC_NAME)}
    return {own.get(name, name): float(value) for name, value in values.items()}


def own_metrics(run: Run) -> dict[str, float]:
    """Return the metrics of a run without the curves."""
    return {name: value for name, value in metrics_in(run).items() if not name.startswith("curve/")}

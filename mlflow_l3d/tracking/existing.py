"""Runs that exist already, whoever logged them: read page by page into columns, nothing of them is changed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from sys import intern
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import batches, found, runs_named, search
from mlflow_l3d.tracking.connection import Client, Run, again, error_line, file_of
from mlflow_l3d.tracking.parent import current_experiment_id

EXPERIMENT: Final = "experiment:"
"""Begins a source that is a whole experiment, by its name or id."""
_SYSTEM: Final = "system/"
"""Begins the names of what MLflow measures of the machine."""
_COMMIT: Final = "mlflow.source.git.commit"
_OUTCOME: Final = "params.best_"
"""Begins the names of what a search found, which its trials did not have."""
_POINTS: Final = 10_000_000
_FORMS: Final[Mapping[str, Callable[[Path], pd.DataFrame]]] = {
    ".parquet": pd.read_parquet,
    ".csv": lambda path: pd.read_csv(path, keep_default_na=False, na_values=["", "nan", "NaN"]),  # a class may be NA
    ".json": lambda path: pd.DataFrame(**json.loads(path.read_text(encoding="utf-8"))),
}


@dataclass(frozen=True)
class ExistingRuns:
    """Runs as columns, oldest first: what 10,000 runs hold takes tens of megabytes.

    Attributes
    ----------
    experiment_id
        The experiment that gets the result.
    frame
        One row per run: ``run_id``, ``name``, ``status``, ``parent`` (the row of its parent run; -1 for none),
        ``role`` (``l3d.role``; empty for runs of other code), ``uri`` and ``tables`` (logged tables, as text).
    params
        The same rows: categories of texts by ``params.NAME`` and ``tags.NAME``, without our tags; of MLflow's the
        commit and the experiment (``tags.mlflow.experiment``). A run has the parameters of its parent runs that it
        lacks, but for what a search found (``best_...``).
    metrics, steps
        The same rows: the last value of each metric and its step, nan if a run has none.
    """

    experiment_id: str
    frame: pd.DataFrame
    params: pd.DataFrame
    metrics: pd.DataFrame
    steps: pd.DataFrame


def read_runs(client: Client, source: str | Sequence[str]) -> ExistingRuns:
    """Return the runs of a source, and the parents of these runs.

    Parameters
    ----------
    client
        The tracking server.
    source
        ``experiment:NAME`` or ``experiment:ID``, a filter for the current experiment, or run ids.

    Raises
    ------
    ParameterError
        If there is no such experiment or run, the filter cannot be read, or nothing is found.
    """
    from mlflow.exceptions import MlflowException

    if isinstance(source, str):
        whole = source.startswith(EXPERIMENT)
        experiment_id = _experiment(client, source) if whole else current_experiment_id(client)
        runs: Iterable[Run] = search(client, [experiment_id], "" if whole else source)
    else:
        runs = list(runs_named(client, list(dict.fromkeys(source))))
        if missing := set(source) - {run.info.run_id for run in runs}:
            allowed = "is not an active run on this tracking server"
            raise ParameterError("source", min(missing), allowed, "Restore it, or leave it out.")
        experiment_id = runs[0].info.experiment_id if runs else ""
    try:
        parts = [_parts_of(run, str(run.info.status)) for run in runs]
    except MlflowException as error:
        if getattr(error, "error_code", "") != "INVALID_PARAMETER_VALUE":
            raise
        allowed = f"must be {EXPERIMENT}NAME, run ids, or an MLflow filter of runs ({error_line(error)})"
        raise ParameterError("source", source, allowed) from error
    if not parts:
        where = client.get_experiment(experiment_id).name if experiment_id else "the current one"
        fix = f"Set MLFLOW_EXPERIMENT_NAME, or name an experiment that has some: {EXPERIMENT}NAME."
        raise ParameterError("source", source, f"finds no runs in the experiment {where}", fix)
    selected = {row["run_id"] for row, *_ in parts}
    while parents_left := {row["parent"] for row, *_ in parts if row["parent"]} - selected:
        parts += [_parts_of(run, "PARENT") for run in runs_named(client, sorted(parents_left))]
        selected |= parents_left
    frame, texts, metrics, steps = (pd.DataFrame([*each], range(len(parts))) for each in zip(*parts, strict=True))
    parents = pd.Index(frame["run_id"]).get_indexer(frame["parent"])
    return ExistingRuns(
        str(experiment_id), frame.assign(parent=parents), _with_inherited(texts, parents), metrics, steps
    )


def _experiment(client: Client, source: str) -> str:
    name = source.removeprefix(EXPERIMENT)
    experiment = client.get_experiment_by_name(name) or (name and found(client.get_experiment, name))
    if not experiment or experiment.lifecycle_stage != "active":
        listed = ", ".join(sorted(each.name for each in client.search_experiments(max_results=10)))
        allowed = "this tracking server has no such experiment, or it was deleted"
        raise ParameterError("source", source, allowed, f"It has: {listed}.")
    return str(experiment.experiment_id)


def _parts_of(run: Run, status: str) -> tuple[dict[str, str], dict[str, str], dict[str, float], dict[str, float]]:
    """Return the row of a run in the frame, its texts, and the last value and step of each of its metrics."""
    tags: Mapping[str, str] = run.data.tags
    texts = {f"params.{name}": text for name, text in run.data.params.items()}
    texts |= {f"tags.{name}": text for name, text in tags.items() if not name.startswith(("mlflow.", "l3d."))}
    texts["tags.mlflow.experiment"] = str(run.info.experiment_id)
    if commit := tags.get(_COMMIT):
        texts[f"tags.{_COMMIT}"] = commit
    # With steps, which the dictionary of metrics lacks.
    points = [point for point in run.data.to_proto().metrics if not point.key.startswith(_SYSTEM)]
    parent, run_id = tags.get(names.PARENT_RUN_ID, ""), str(run.info.run_id)
    row = {
        "run_id": run_id,
        "name": str(run.info.run_name or ""),
        "status": status,
        "parent": "" if parent == run_id else parent,
        "role": tags.get(names.ROLE, ""),
        "uri": str(run.info.artifact_uri),
        "tables": tags.get(names.LOGGED_ARTIFACTS, ""),
    }
    # Runs share most texts, which are kept once.
    texts = {intern(name): intern(text) for name, text in texts.items()}
    steps = {intern(point.key): float(point.step) for point in points}
    return row, texts, {intern(point.key): point.value for point in points}, steps


def _with_inherited(texts: pd.DataFrame, parents: np.ndarray) -> pd.DataFrame:
    """Return texts as categories; what a run lacks it has from its parent."""
    shared = texts[[name for name in texts if not str(name).startswith(_OUTCOME)]]
    for _ in range(3):  # levels of nested runs
        shared = shared.where(shared.notna(), shared.reindex(parents).set_axis(shared.index))
    whole = texts.assign(**shared)
    return pd.DataFrame({name: pd.Categorical(each, each.dropna().unique()) for name, each in whole.items()})


def histories(client: Client, run_ids: Sequence[str], metric: str) -> Iterator[tuple[str, int, int, float]]:
    """Yield (run id, step, time, value) of every value of a metric; many runs in one call if the store has it."""
    store = getattr(getattr(client, "_tracking_client", None), "store", None)  # not public: without it, run after run
    bulk = getattr(store, "get_metric_history_bulk", None)
    with ThreadPoolExecutor(1 if bulk else 8) as pool:
        for batch in batches(run_ids, 50):
            if bulk:
                every = [(point.run_id, point) for point in again(partial(bulk, batch, metric, _POINTS))]
            else:
                asked = pool.map(lambda run_id: client.get_metric_history(run_id, metric), batch)
                every = [(run_id, point) for run_id, points in zip(batch, asked, strict=True) for point in points]
            yield from ((run_id, point.step, point.timestamp, point.value) for run_id, point in every)


def read_table(client: Client, uri: str, artifact: str) -> pd.DataFrame | None:
    """Return a table that is Parquet, CSV, or JSON as of MLflow's ``log_table``; None if it cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = file_of(uri, artifact, Path(folder), str(client.tracking_uri))
            return None if path is None else _FORMS[path.suffix](path)
        except Exception:  # noqa: BLE001 - stores and files of other code may raise anything, and scores need none
            return None

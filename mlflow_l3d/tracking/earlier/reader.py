"""Reading back: the cells of a parent and their predictions, ours or a stranger's."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import batches, children_of, found, own_metrics, runs_named, search, whole_id
from mlflow_l3d.tracking.connection import error_line, file_of
from mlflow_l3d.tracking.earlier.predictions import read_rows, rows_by_cell, undamaged

if TYPE_CHECKING:
    import pyarrow as pa
    from mlflow import MlflowClient
    from mlflow.entities import Run

_NUMBERS: Final = ("row", "column", "index")
_OF_FACTORS: Final = ("factor.", "seed.")


@dataclass(frozen=True)
class Recorded:
    """What a tracking server holds of one investigation.

    Attributes
    ----------
    parent
        The parent run.
    cells
        One row per cell that has a role, a phase and a coordinate: ``phase``, ``factor``, ``row``, ``column``,
        ``index`` (pandas' nullable integers), ``run_id``, ``cell_key``, ``status``, the metrics, ``factor.*`` and
        ``seed.*``. Of several finished runs with one key, the oldest; runs that did not finish have no metrics.
    """

    parent: Run
    cells: pd.DataFrame


def read_investigation(
    run_id: str, client: MlflowClient, *, where: str = "", parameter: str = "parent_run_id"
) -> Recorded:
    """Read the cells of a parent: its children, and the cells of other investigations that it lists.

    Parameters
    ----------
    run_id, client, parameter
        The parent, the client of its tracking server, and the parameter that named it, for errors.
    where
        An MLflow filter: cells are then all runs of the parent's experiment that it finds, whoever their parent is.

    Raises
    ------
    ParameterError
        If there is no such run, or it has no cells.
    L3DError
        As :func:`cells_of_runs`.
    """
    from mlflow.exceptions import MlflowException

    parent = parent_run(client, run_id, parameter)
    experiment_id, run_id = str(parent.info.experiment_id), str(parent.info.run_id)
    runs = search(client, [experiment_id], where) if where else children_of(client, experiment_id, run_id)
    try:
        cells = cells_of_runs(runs)
    except MlflowException as error:
        if where and error.error_code == "INVALID_PARAMETER_VALUE":
            raise ParameterError("where", where, f"must be an MLflow filter of runs ({error_line(error)})") from error
        raise
    if not where:
        cells = _with_shared(client, parent, cells)
    if cells.empty:
        allowed = f"has no child runs with the tag {names.ROLE}=cell"
        fix = "Tag the children as docs/runs.md says, or give a filter."
        if names.INVESTIGATION_KEY in parent.data.tags and not where:
            allowed = "has no cells left: they were deleted, or none was finished"
            fix = "Run mlflow runs restore for each, or give the command of the study again."
        raise ParameterError(parameter, run_id, allowed, fix)
    return Recorded(parent, cells)


def read_listed(parent_run_id: str, client: MlflowClient) -> Recorded:
    """Read a parent as :func:`read_investigation` does; a study that ended from its own table, as it then was."""
    parent = parent_run(client, parent_run_id)
    listed = listed_cells(client, parent) if parent.info.status == "FINISHED" else None
    if listed is None or "factor" not in listed:  # a study of seeds has other columns
        return read_investigation(parent_run_id, client)
    return Recorded(parent, listed.drop(columns="agreement", errors="ignore"))


def parent_run(client: MlflowClient, run_id: str, parameter: str = "parent_run_id") -> Run:
    """Return the run that was given as `parameter` by its id, or the beginning of it.

    If there is none, or it was deleted, raise a ParameterError.
    """
    run = found(client.get_run, whole_id(client, run_id, parameter))
    if run is None:
        fix = "Give its whole id, which mlflow-l3d view lists."
        if len(run_id) == 32:
            fix = "Set MLFLOW_TRACKING_URI to the server that has it."
        elif len(run_id) < 256 and Path(run_id).is_file():
            fix = f"It is a file: name the run that this makes of it: mlflow-l3d evaluate {run_id}"
        raise ParameterError(parameter, run_id, "no such run on the tracking server", fix)
    if run.info.lifecycle_stage != "active":
        raise ParameterError(parameter, run_id, "is a run that was deleted", f"Run: mlflow runs restore -r {run_id}")
    return run


def is_running(run: Run) -> bool:
    """Return whether a study of this package runs, or was killed: what has no score may still get one."""
    return bool(run.info.status == "RUNNING" and run.data.tags.get(names.STATE) == "running")


def ended(run: Run, parameter: str) -> Run:
    """Return a parent run that was given as `parameter`; raise a ParameterError if its study has not ended."""
    if is_running(run):
        fix = "Run its command again, which continues it."
        raise ParameterError(parameter, run.info.run_id, "has not finished (running)", fix)
    return run


def cells_of_runs(runs: Iterable[Run]) -> pd.DataFrame:
    """Return one row per cell; other runs are passed over, and of runs with equal keys the first finished counts.

    Raises
    ------
    L3DError
        If a run's tags do not say which cell it is, or two finished runs without keys are the same cell.
    """
    rows: dict[str, dict[str, Any]] = {}
    for row in (_row(run) for run in runs if run.data.tags.get(names.ROLE) == "cell"):
        earlier = rows.get(place := row["cell_key"] or _place(row))
        if earlier is not None and row["cell_key"] is None and earlier["status"] == row["status"] == "FINISHED":
            where = ", ".join(f"{name} {row[name]}" for name in names.COORDINATES if row[name] is not None)
            raise L3DError(f"Runs {earlier['run_id']} and {row['run_id']} are one cell ({where}). Delete one of them.")
        if earlier is None or (earlier["status"] != "FINISHED" and row["status"] == "FINISHED"):
            rows[place] = row
    frame = pd.DataFrame(list(rows.values()))
    whole = [name for name in map(str, frame) if name in _NUMBERS or name.startswith(_OF_FACTORS)]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def _place(row: Mapping[str, Any]) -> str:
    """Return what tells a cell without a key from others: its coordinate, else its seeds, else the run itself."""
    coordinate = [row[name] for name in names.COORDINATES]
    if row["phase"] != "golden" or row["index"] is not None:
        return str(coordinate)
    seeds = sorted((name, value) for name, value in row.items() if name.startswith("seed."))
    return str([*coordinate, *seeds] if seeds else row["run_id"])


def _row(run: Run) -> dict[str, Any]:
    tags, finished = run.data.tags, run.info.status == "FINISHED"
    if not tags.get(names.PHASE):
        raise L3DError(f"Run {run.info.run_id}: the tag {names.PHASE} is missing. Set it to investigation or golden.")
    of_factors = {name: _number(value) for name, value in run.data.params.items() if name.startswith(_OF_FACTORS)}
    return {
        "phase": tags.get(names.PHASE),
        # Phases of cells that belong to the table of no single factor.
        "factor": None if tags.get(names.PHASE) in ("golden", "base") else tags.get(names.FACTOR),
        **{name: _coordinate(run, name) for name in _NUMBERS},
        "run_id": run.info.run_id,
        "experiment_id": str(run.info.experiment_id),
        "cell_key": tags.get(names.CELL_KEY),
        "status": run.info.status,
        "artifact_uri": run.info.artifact_uri,
        **(own_metrics(run) if finished else {}),
        **{name: number for name, number in of_factors.items() if number is not None},
    }


def _coordinate(run: Run, name: str) -> int | None:
    """Return a number of a cell's place; None if it has none."""
    text = run.data.tags.get(names.COORDINATES[name])
    if text and not (text.isascii() and text.isdigit()):
        raise L3DError(f"Run {run.info.run_id}: the tag l3d.{name} is {text!r}, not a whole number from 0.")
    return _number(text)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def _with_shared(client: MlflowClient, parent: Run, cells: pd.DataFrame) -> pd.DataFrame:
    """Add the cells that the parent shares with other investigations, or holds itself, as its own table lists them."""
    if (listed := listed_cells(client, parent)) is None:
        return cells
    if any(str(each).startswith(f"{parent.info.run_id}/") for each in listed["run_id"]):  # runs of files
        return listed
    run_ids = listed["run_id"].dropna()
    if cells.empty:
        return cells_of_runs(runs_named(client, run_ids.tolist()))
    shared = cells_of_runs(runs_named(client, run_ids[~run_ids.isin(cells["run_id"])].tolist()))
    if shared.empty:
        return cells
    shared = shared[~shared["cell_key"].isin(set(cells.loc[cells["status"] == "FINISHED", "cell_key"]))]
    return pd.concat([cells, shared], ignore_index=True)


def listed_cells(client: MlflowClient, parent: Run) -> pd.DataFrame | None:
    """Return the table of cells that a parent of this package holds; None if it has none, or is a stranger's."""
    if names.INVESTIGATION_KEY not in parent.data.tags:
        return None
    with tempfile.TemporaryDirectory() as folder:
        return fetch_frame(client, parent.info.run_id, names.CELLS, Path(folder))


def read_predictions(
    client: MlflowClient, cells: pd.DataFrame, *, scores: bool = False, reference: bool = False
) -> Generator[tuple[str, pa.Table | None], None, None]:
    """Yield (run id, table of ids, labels and predictions) in the order of `cells`; None if a run has none.

    It has a folder and threads of its own, so close it if it may not be read to its end.

    Parameters
    ----------
    client
        Client of the tracking server.
    cells
        Has the column ``run_id`` and, if it is known, ``artifact_uri``, as :class:`Recorded` holds them; or, of one
        parent that holds them itself (``PARENT/NUMBER``), ``cell_key``.
    scores
        Whether tables also have class scores, ``score_0``, ``score_1``, ... (float32), of runs that stored them.
    reference
        Whether tables also have the rows of the reference set, on which no run trains, and then, of a run that has one,
        the column ``reference`` (bool). Without them, as a score is computed, tables hold test examples only.

    Raises
    ------
    L3DError
        If a table lacks a column.
    """
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(8) as pool:
        folder = Path(name)

        def fetch(run_id: str) -> pa.Table | None:
            if (uri := uris.get(run_id)) is None:
                return None
            place = folder / run_id
            place.mkdir()
            if (path := file_of(uri, names.PREDICTIONS, place, str(client.tracking_uri))) is None:
                return None
            return read_rows(path, f"Run {run_id}: {names.PREDICTIONS}", scores=scores, reference=reference)

        run_ids = cells["run_id"].tolist()
        if run_ids and "/" in run_ids[0]:
            path = fetch_artifact(client, run_ids[0].partition("/")[0], names.PREDICTIONS, folder)
            tables = {} if path is None else dict(rows_by_cell(path, cells["cell_key"], math.inf))
            yield from ((run_id, tables.get(at)) for at, run_id in enumerate(run_ids))
            return
        own_uris = dict(zip(run_ids, cells["artifact_uri"], strict=True)) if "artifact_uri" in cells else {}
        for batch in batches(run_ids, 64):  # who stops at the first run without predictions has asked for few
            uris = own_uris or {str(run.info.run_id): str(run.info.artifact_uri) for run in runs_named(client, batch)}
            yield from zip(batch, pool.map(fetch, batch), strict=True)


def fetch_artifact(client: MlflowClient, run_id: str, artifact: str, folder: Path) -> Path | None:
    """Download one artifact; None if the run has none of that name, or there is no such run."""
    run = found(client.get_run, run_id)
    return None if run is None else file_of(run.info.artifact_uri, artifact, folder, str(client.tracking_uri))


def fetch_frame(client: MlflowClient, run_id: str, artifact: str, folder: Path) -> pd.DataFrame | None:
    """Return an artifact that is Parquet; None if the run has none. A damaged one is an UnreadableError."""
    path = fetch_artifact(client, run_id, artifact, folder)
    with undamaged(f"Run {run_id}: {artifact}"):
        return None if path is None else pd.read_parquet(path)


def fetch_document(client: MlflowClient, run_id: str, artifact: str) -> Any:
    """Return an artifact that is JSON; None if the run has none. A damaged one is an UnreadableError."""
    with tempfile.TemporaryDirectory() as folder:
        path = fetch_artifact(client, run_id, artifact, Path(folder))
        with undamaged(f"Run {run_id}: {artifact}"):
            return None if path is None else json.loads(path.read_text(encoding="utf-8"))


def known_document(client: MlflowClient, run_id: str, artifact: str) -> dict[str, Any]:
    """Return an artifact that is a JSON object; an empty one if the run has none, or none that can be read."""
    try:
        document = fetch_document(client, run_id, artifact)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}

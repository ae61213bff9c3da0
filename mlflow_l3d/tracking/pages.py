"""What MLflow's UI shows: the page of a run, the list of runs without cells, and a study's task as a data set."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mlflow_l3d.errors import logger
from mlflow_l3d.tracking.connection import Client, public_uri

if TYPE_CHECKING:
    from pathlib import Path

_telling: ContextVar[bool] = ContextVar("telling", default=False)
STUDIES: Final = "tags.`l3d.role` != 'cell' AND tags.`l3d.role` != 'trial'"
"""Filter of MLflow's list of runs that leaves studies: the list loads its newest 100, which cells would fill."""


def run_page(experiment_id: str, run_id: str) -> str:
    """Return the page of a run, relative to the address of the server: as descriptions of runs link it."""
    return f"#/experiments/{experiment_id}/runs/{run_id}"


def studies_page(experiment_id: str) -> str:
    """Return the list of an experiment's runs without cells and trials, relative to the address of the server."""
    return f"#/experiments/{experiment_id}/runs?searchFilter={quote(STUDIES, safe='')}"


def address_of(tracking_uri: str) -> str:
    """Return the address of the UI without user and password; the empty text if a browser does not reach it."""
    address = public_uri(tracking_uri).rstrip("/")
    return address if address.startswith(("http://", "https://")) else ""


def runs_page(client: Client, experiment_id: str) -> str:
    """Return what stands before a run id in the address of its page; empty if a browser does not reach the server."""
    address = address_of(str(client.tracking_uri))
    return f"{address}/{run_page(experiment_id, '')}" if address else ""


def with_links(description: str, experiment_id: str, run_id: str, artifacts: Path) -> str:
    """Return the description of a run, in Markdown, with links to its report and to the list of runs without cells."""
    page = f"{run_page(experiment_id, run_id)}/artifacts"
    reports = [f"[The report]({page}/{each.name})" for each in artifacts.glob("*.html")]
    studies = f"[The studies of this experiment, without their cells]({studies_page(experiment_id)})"
    return "\n\n".join(filter(None, [description, *reports, studies]))


def links_in(description: str) -> list[str]:
    """Return those paragraphs of a description that say which other runs belong to it, by :func:`link_of`."""
    return [part for part in description.split("\n\n") if "[run " in part]


def link_of(experiment_id: str, run_id: str) -> str:
    """Return a link to a run, in Markdown, by the beginning of its id."""
    return f"[run {run_id[:8]}]({run_page(experiment_id, run_id)})"


def places(tracking_uri: str, experiment_id: str, run_id: str) -> tuple[str, ...]:
    """Return lines that say where a browser finds a run, and the list of runs without cells; for the terminal alone."""
    address, first = address_of(tracking_uri), []
    if not address:
        if str(tracking_uri).startswith("databricks"):
            return (f"MLflow run {run_id}",)
        # Where `mlflow ui` listens unless told otherwise.
        address, store = "http://127.0.0.1:5000", shlex.quote(public_uri(tracking_uri))
        first = [f"To look at the runs: mlflow ui --backend-store-uri {store}"]
    return (
        *first,
        f"This run: {address}/{run_page(experiment_id, run_id)}",
        f"All studies: {address}/{studies_page(experiment_id)}",
    )


@contextmanager
def told(tracking_uri: str, experiment_id: str, run_id: str) -> Iterator[None]:
    """Say where a run is shown, once, before the block; of runs within it nothing is said."""
    if _telling.get():
        yield
        return
    token = _telling.set(True)
    logger.warning("%s", "\n".join(places(tracking_uri, experiment_id, run_id)))
    try:
        yield
    finally:
        _telling.reset(token)


_WRITTEN_MEANWHILE: Final = ("integrityerror", "uniqueviolation", "duplicate")
"""What databases say if another process wrote the same data set after the store looked for it: now it is found."""


@dataclass(frozen=True, slots=True)
class Data:
    """A task as MLflow knows data sets.

    Attributes
    ----------
    name, fingerprint
        Of the task; the first 36 digits of the fingerprint are the digest.
    kind, source
        MLflow's name of a kind of source, and what it says of one; nothing private.
    sizes
        ``num_rows``: examples; and how many of them a cell is given.
    context
        What it is used for.
    """

    name: str
    fingerprint: str
    kind: str
    source: Mapping[str, Any]
    sizes: Mapping[str, int]
    context: str


def log_data(client: Client, run_id: str, data: Data | None) -> None:
    """Name a run's data, if there is such, in one call; safe to call again."""
    if data is None:
        return
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.exceptions import MlflowException

    dataset = Dataset(
        # MLflow's stores take no more.
        name=data.name[:500],
        digest=data.fingerprint[:36],
        source_type=data.kind,
        source=json.dumps(data.source),
        profile=json.dumps(data.sizes),
    )
    inputs = [DatasetInput(dataset, [InputTag("mlflow.data.context", data.context)])]
    try:
        client.log_inputs(run_id, inputs)
    except MlflowException as error:
        if not any(sign in str(error).lower() for sign in _WRITTEN_MEANWHILE):
            raise
        client.log_inputs(run_id, inputs)

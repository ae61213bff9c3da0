"""The task of a study as a data set of its parent: what MLflow shows as its lineage, without any text of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mlflow import MlflowClient

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


def log_data(client: MlflowClient, run_id: str, data: Data | None) -> None:
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

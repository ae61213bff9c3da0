"""Finished searches on a tracking server: found by run id or as the latest one, and what they left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters.search_document import FoundSearch, Subject
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, experiment_ids, found
from mlflow_l3d.tracking.connection import connect, error_line
from mlflow_l3d.tracking.reader import fetch_document

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_PARAMETER: Final = "hyperparameters"


def find(text: str, subject: Subject) -> FoundSearch:
    """Find a finished search on the current tracking server, in any of its experiments.

    Parameters
    ----------
    text
        ``latest``, or the id of a search's parent run.
    subject
        What is trained on what. The latest search is the one of the same data, approach and weights that ended last; a
        run that is named may be one of another subject, which is the caller's to judge.

    Raises
    ------
    ParameterError
        If there is no such search, it has not finished, or it left nothing that can be read; with the fix. Also if the
        server does not answer.
    L3DError
        If the server stops answering.
    """
    from mlflow.exceptions import MlflowException

    client = connect()
    try:
        run = _latest(client, subject) if text == "latest" else _named(client, text, subject)
        return FoundSearch(str(run.info.run_id), _document(client, run, text))
    except MlflowException as error:
        line = error_line(error)
        raise L3DError(f"{_PARAMETER}={text}: the tracking server does not answer as it should ({line}).") from error


def searched_splits(client: MlflowClient, parent: Run) -> tuple[dict[str, int], ...]:
    """Return the splits that the hyperparameters of an investigation were searched on, as its parent records them.

    Parameters
    ----------
    client, parent
        The parent of an investigation, ours or a stranger's.

    Returns
    -------
    tuple of dict
        Seed of each factor, one a split; nothing for a parent without a search behind it, or without a record.
    """
    if names.SEARCH not in parent.data.tags:
        return ()
    try:
        recorded = fetch_document(client, str(parent.info.run_id), names.INVESTIGATION) or {}
        splits = recorded.get("hyperparameters_from", {}).get("searched_splits", [])
        return tuple({str(name): int(seed) for name, seed in split.items()} for split in splits)
    except (AttributeError, TypeError, ValueError):  # a stranger's, or damaged: the check has nothing to say
        return ()


def _latest(client: MlflowClient, subject: Subject) -> Run:
    tags = {names.SEARCH_SUBJECT: subject.key, names.ROLE: "search", names.STATE: "complete"}
    order = ["attributes.end_time DESC"]
    runs = client.search_runs(experiment_ids(client), condition(tags, "FINISHED"), max_results=1, order_by=order)
    if not runs:
        model = f" with model {subject.model}" if subject.model else ""
        allowed = f"there is no finished search of {subject.approach}{model} on {subject.task} on this tracking server"
        raise ParameterError(_PARAMETER, "latest", allowed, _command(subject))
    return runs[0]


def _named(client: MlflowClient, run_id: str, subject: Subject) -> Run:
    run = found(client.get_run, run_id)
    if run is None:
        raise ParameterError(_PARAMETER, run_id, "is no run on this tracking server", "Look at MLFLOW_TRACKING_URI.")
    tags: Mapping[str, str] = run.data.tags
    role = tags.get(names.ROLE)
    if run.info.lifecycle_stage != "active":
        raise ParameterError(_PARAMETER, run_id, "is a run that was deleted", f"Run: mlflow runs restore -r {run_id}")
    if role != "search":
        what = f"a run with the role {role}" if role else "a run of something else"
        owner = tags.get(names.PARENT_RUN_ID)
        fix = f"Its search is {owner}." if role == "trial" and owner else _command(subject)
        raise ParameterError(_PARAMETER, run_id, f"must be the run of a search, and is {what}", fix)
    state = tags.get(names.STATE)
    if state != "complete":
        successor = tags.get(names.SUPERSEDED_BY)
        fix = f"Run {successor} continued it." if successor else "The same command that began it continues it."
        raise ParameterError(_PARAMETER, run_id, f"is a search that did not finish ({state or 'no state'})", fix)
    return run


def _document(client: MlflowClient, run: Run, text: str) -> dict[str, Any]:
    run_id = str(run.info.run_id)
    value = run_id if text == run_id else f"{text} (run {run_id})"
    try:
        document = fetch_document(client, run_id, names.HYPERPARAMETERS)
    except (OSError, ValueError, RecursionError) as error:
        allowed = f"its artifact {names.HYPERPARAMETERS} cannot be read ({error_line(error)})"
        raise ParameterError(_PARAMETER, value, allowed) from error
    if not isinstance(document, dict):
        what = "has no" if document is None else "has no JSON object in its"
        fix = "Search again, or give the values themselves."
        raise ParameterError(_PARAMETER, value, f"{what} artifact {names.HYPERPARAMETERS}", fix)
    return document


def _command(subject: Subject) -> str:
    return f"Run mlflow run . -e search -P approach={subject.approach} -P task={subject.task} first."

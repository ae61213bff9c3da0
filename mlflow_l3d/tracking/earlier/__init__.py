"""Earlier investigations and finished searches on a tracking server: the latest ones, and what the next one needs.

Other modules read runs, their predictions and judgements, and upload what a killed process left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters.search_document import FoundSearch, Subject
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, experiment_ids, found, runs_named, search
from mlflow_l3d.tracking.connection import connect, error_line
from mlflow_l3d.tracking.earlier.reader import known_document, listed_cells, parent_run
from mlflow_l3d.tracking.parent import current_experiment_id

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Run


_PARAMETER: Final = "hyperparameters"


def latest_investigation(
    client: MlflowClient, parameter: str = "parent_run_id", fix: str = "Name the parent run.", *, status: str = ""
) -> str:
    """Return the run id of the current experiment's latest investigation (of a status) that no other continues.

    Raises
    ------
    ParameterError
        If there is none.
    """
    every = search(client, [current_experiment_id(client)], condition({names.ROLE: "investigation"}, status))
    runs = [run for run in every if names.SUPERSEDED_BY not in run.data.tags]
    if not runs:
        allowed = f"there is no {'finished ' if status else ''}investigation in this experiment"
        raise ParameterError(parameter, "latest", allowed, fix)
    return str(runs[-1].info.run_id)


def own_parameter(parent: Run, name: str) -> str | None:
    """Return a parameter of a parent of this package as resolved, or else as typed; None if it has none."""
    value = parent.data.params.get(f"resolved.{name}", parent.data.params.get(name))
    return None if value is None else re.sub(r"""^(['"])(.*)\1$""", r"\2", str(value))


def similar_cells(client: MlflowClient, same: Mapping[str, str]) -> list[Run]:
    """Return those of the newest 500 finished cells with these parameters (an approach, ...), whatever else differs."""
    quote = '"' if "'" in same["approach"] else "'"
    wanted = f"{condition({names.ROLE: 'cell'}, 'FINISHED')} and params.approach = {quote}{same['approach']}{quote}"
    runs = client.search_runs(experiment_ids(client), wanted, max_results=500, order_by=["attributes.start_time DESC"])
    return [run for run in runs if same.items() <= run.data.params.items()]


def investigations(client: MlflowClient, context_key: str) -> list[Run]:
    """Return the complete parents of a context, largest tables first, and of equal ones the newest.

    A large investigation knows more than a small later one.
    """
    wanted = {names.ROLE: "investigation", names.CONTEXT_KEY: context_key, names.STATE: "complete"}
    newest_first = list(search(client, None, condition(wanted)))[::-1]
    return sorted(newest_first, key=lambda run: -_size(run))


def earlier_parent(context_key: str, factors: Collection[str], design: str, typed: Mapping[str, str]) -> str | None:
    """Return the newest investigation that a command may mean to continue, if it has a design; else None.

    Parameters
    ----------
    context_key, factors, design
        What both investigate, factors in any order, and the design.
    typed
        Parameters of the command: those of the investigation but for the number of rows, which may grow, and the
        metric, which needs no training.
    """
    wanted = {names.ROLE: "investigation", names.CONTEXT_KEY: context_key}
    same = ("investigation_runs", "golden_runs", "joint", "mitigation", "stop", "missing", "root_seed")

    def is_continued(run: Run) -> bool:
        if set(run.data.tags.get(names.FACTOR, "").split(",")) != set(factors):
            return False
        # An earlier version may lack a parameter, and `mlflow run` may quote one.
        return all(run.data.params.get(name, typed[name]).strip("'\"") == typed[name] for name in same)

    try:
        continued = [*filter(is_continued, search(connect(), None, condition(wanted)))]
    except L3DError:  # whoever needs the server says that it does not answer
        return None
    is_of_design = bool(continued) and continued[-1].data.tags.get(names.DESIGN) == design
    return str(continued[-1].info.run_id) if is_of_design else None


def parents_of(client: MlflowClient, cells: list[Run]) -> list[Run]:
    """Return the complete parents of some cells, in the order of the cells."""
    parents = dict.fromkeys(run.data.tags.get(names.PARENT_RUN_ID, "") for run in cells)
    runs = [found(client.get_run, run_id) for run_id in parents if run_id]
    return [run for run in runs if run is not None and run.data.tags.get(names.STATE) == "complete"]


def deleted_cells(client: MlflowClient, parent: Run, cells: pd.DataFrame) -> int:
    """Return how many cells that a parent lists are neither among those that were read nor active runs."""
    listed = listed_cells(client, parent)
    missing = [] if listed is None else sorted(set(listed["run_id"].dropna()) - set(cells["run_id"]))
    return len(missing) - sum(1 for _ in runs_named(client, missing))


def cells_in_other_studies(client: MlflowClient, run_ids: set[str], parents: Iterable[str]) -> dict[str, set[str]]:
    """Return which of some cells other finished studies have, by the parents of these; `parents` have the cells."""
    others = {
        str(run.info.run_id): run
        for parent_id in parents
        for run in search(client, None, f"tags.`{names.CELLS_OF}` LIKE '%{parent_id}%'")
    }
    shared: dict[str, set[str]] = {}
    for run_id, run in others.items():
        listed = None if run_id in run_ids else listed_cells(client, run)
        if listed is not None and (cells := run_ids.intersection(listed["run_id"])):
            shared[run_id] = cells
    return shared


def _size(parent: Run) -> int:
    """Return the cells of one table of a parent, from its parameters."""
    sizes = (own_parameter(parent, name) or "" for name in ("mitigation_runs", "investigation_runs"))
    return math.prod(int(text) if text.isdigit() else 1 for text in sizes)


def find_search(text: str, subject: Subject) -> FoundSearch:
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
        run_id = str(run.info.run_id)
        document = known_document(client, run_id, names.HYPERPARAMETERS)
    except MlflowException as error:
        line = error_line(error)
        raise L3DError(f"{_PARAMETER}={text}: the tracking server does not answer as it should ({line}).") from error
    if not document:
        allowed = f"has no artifact {names.HYPERPARAMETERS} that can be read"
        raise ParameterError(_PARAMETER, run_id, allowed, "Search again, or give the values themselves.")
    return FoundSearch(run_id, document)


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
    recorded = known_document(client, str(parent.info.run_id), names.INVESTIGATION)
    try:
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
    run = parent_run(client, run_id, _PARAMETER)
    tags: Mapping[str, str] = run.data.tags
    role = tags.get(names.ROLE)
    if role != "search":
        owner = tags.get(names.PARENT_RUN_ID)
        fix = f"Its search is {owner}." if role == "trial" and owner else _command(subject)
        allowed = f"must be the run of a search, and is a run with the role {role or 'none'}"
        raise ParameterError(_PARAMETER, run_id, allowed, fix)
    state = tags.get(names.STATE)
    if state != "complete":
        successor = tags.get(names.SUPERSEDED_BY)
        fix = f"Run {successor} continued it." if successor else "The same command that began it continues it."
        raise ParameterError(_PARAMETER, run_id, f"is a search that did not finish ({state or 'no state'})", fix)
    return run


def _command(subject: Subject) -> str:
    return f"Run mlflow-l3d search --approach {subject.approach} --task {subject.task} first."

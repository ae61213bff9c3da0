"""Earlier investigations on a tracking server: the latest one, and what helps to plan the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, experiment_ids, found, search
from mlflow_l3d.tracking.parent import current_experiment_id

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

MOST_SIMILAR: Final = 500
"""How many of the newest similar cells are looked at."""


def latest_investigation(client: MlflowClient) -> str:
    """Return the run id of the current experiment's latest investigation that no other continues.

    Raises
    ------
    ParameterError
        If there is none.
    """
    experiment_id = current_experiment_id(client)
    every = search(client, [experiment_id], condition({names.ROLE: "investigation"}))
    runs = [run for run in every if names.SUPERSEDED_BY not in run.data.tags]
    if not runs:
        raise ParameterError(
            "parent_run_id", "latest", "there is no investigation in this experiment", "Name the parent run."
        )
    return str(runs[-1].info.run_id)


def own_parameter(parent: Run, name: str) -> str | None:
    """Return a parameter of a parent of ours as it was resolved, or else as it was typed; None where it has none."""
    params: Mapping[str, Any] = parent.data.params
    value = params.get(f"resolved.{name}", params.get(name))
    return None if value is None else str(value).strip("'\"")


def similar_cells(client: MlflowClient, *, task: str, approach: str, model: str) -> list[Run]:
    """Return the newest finished cells of the same task, approach and model, whatever else differs; newest first.

    At most :data:`MOST_SIMILAR` are looked at.
    """
    quote = '"' if "'" in approach else "'"
    wanted = f"{condition({names.ROLE: 'cell'}, 'FINISHED')} and params.approach = {quote}{approach}{quote}"
    order = ["attributes.start_time DESC"]
    runs = client.search_runs(experiment_ids(client), wanted, max_results=MOST_SIMILAR, order_by=order)
    same = {"task": task, "model": model or "none"}
    return [run for run in runs if all(run.data.params.get(name) == value for name, value in same.items())]


def investigations(client: MlflowClient, context_key: str) -> list[Run]:
    """Return the complete parents of a context, largest tables first, and of equal ones the newest.

    A large investigation knows more than a small later one.
    """
    wanted = {names.ROLE: "investigation", names.CONTEXT_KEY: context_key, names.STATE: "complete"}
    newest_first = list(search(client, None, condition(wanted)))[::-1]
    return sorted(newest_first, key=lambda run: -_size(run))


def parents_of(client: MlflowClient, cells: list[Run]) -> list[Run]:
    """Return the complete parents of some cells, in the order of the cells."""
    parents = dict.fromkeys(run.data.tags.get(names.PARENT_RUN_ID, "") for run in cells)
    runs = [found(client.get_run, run_id) for run_id in parents if run_id]
    return [run for run in runs if run is not None and run.data.tags.get(names.STATE) == "complete"]


def _size(parent: Run) -> int:
    """Return the cells of one table of a parent, from its parameters."""
    sizes = (own_parameter(parent, name) or "" for name in ("mitigation_runs", "investigation_runs"))
    return math.prod(int(text) if text.isdigit() else 1 for text in sizes)

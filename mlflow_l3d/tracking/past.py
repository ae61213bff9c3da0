"""Earlier investigations on a tracking server: the latest one, and what helps to plan the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import experiment_ids, finished_cells, search
from mlflow_l3d.tracking.connection import connect, is_outage
from mlflow_l3d.tracking.parent import current_experiment_id
from mlflow_l3d.tracking.reader import Recorded, read_investigation

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
    condition = f"tags.`{names.ROLE}` = 'investigation'"
    runs = [run for run in search(client, [experiment_id], condition) if names.SUPERSEDED_BY not in run.data.tags]
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


@dataclass(frozen=True)
class Past:
    """Earlier runs on one tracking server; open it with :meth:`open`."""

    client: MlflowClient

    @classmethod
    def open(cls) -> Past:
        """Connect to the current tracking server.

        Raises
        ------
        ParameterError
            If it does not answer or refuses.
        """
        return cls(connect())

    def cells(self, context_key: str) -> dict[str, Run]:
        """Return key -> the oldest finished run of every cell of a context, in any experiment."""
        return finished_cells(self.client, context_key)

    def similar_cells(self, *, task: str, approach: str, model: str) -> list[Run]:
        """Return the newest finished cells of the same task, approach and model, whatever else differs; newest first.

        At most :data:`MOST_SIMILAR` are looked at.
        """
        quote = '"' if "'" in approach else "'"
        condition = (
            f"tags.`{names.ROLE}` = 'cell' and attributes.status = 'FINISHED' "
            f"and params.approach = {quote}{approach}{quote}"
        )
        runs = self.client.search_runs(
            list(experiment_ids(self.client)),
            condition,
            max_results=MOST_SIMILAR,
            order_by=["attributes.start_time DESC"],
        )
        wanted = {"task": task, "model": model or "none"}
        return [run for run in runs if all(run.data.params.get(name) == value for name, value in wanted.items())]

    def investigations(self, context_key: str) -> list[Run]:
        """Return the complete parents of a context, largest tables first, and of equal ones the newest.

        A large investigation knows more than a small later one.
        """
        condition = f"tags.`{names.ROLE}` = 'investigation' and tags.`{names.CONTEXT_KEY}` = '{context_key}'"
        found = search(self.client, list(experiment_ids(self.client)), condition)
        newest_first = [run for run in found if run.data.tags.get(names.STATE) == "complete"][::-1]
        return sorted(newest_first, key=lambda run: -_size(run))

    def parents_of(self, cells: list[Run]) -> list[Run]:
        """Return the complete parents of some cells, in the order of the cells."""
        parents = dict.fromkeys(run.data.tags.get(names.PARENT_RUN_ID, "") for run in cells)
        found = [self._run(run_id) for run_id in parents if run_id]
        return [run for run in found if run is not None and run.data.tags.get(names.STATE) == "complete"]

    def recorded(self, run_id: str) -> Recorded:
        """Return the cells of a parent.

        Raises
        ------
        ParameterError
            If there is no such run, or it has no cells.
        """
        return read_investigation(run_id, self.client)

    def _run(self, run_id: str) -> Run | None:
        from mlflow.exceptions import MlflowException

        try:
            return self.client.get_run(run_id)
        except MlflowException as error:
            if is_outage(error):
                raise
            return None


def _size(parent: Run) -> int:
    """Return the cells of one table of a parent, from its parameters."""
    sizes = (own_parameter(parent, name) or "" for name in ("mitigation_runs", "investigation_runs"))
    return math.prod(int(text) if text.isdigit() else 1 for text in sizes)

"""A sweep, checked and complete: its points, its budget, and what its run says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.search_document import Searches
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.parameters.values import public_parameter
from mlflow_l3d.studies.budget import Budget
from mlflow_l3d.studies.sweep.asked import merged, read_request
from mlflow_l3d.studies.sweep.parameters import SWEEP
from mlflow_l3d.studies.sweep.points import PointRequest, specify_points, typed_text
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.parent import Card


@dataclass(frozen=True)
class SweepRequest:
    """One sweep.

    Attributes
    ----------
    given
        Every parameter as text, those of the file included.
    points
        The investigations, in the order of the request.
    budget
        The most that is computed.
    key
        Hash that says whether two sweeps are the same, whatever their budgets.
    """

    given: Mapping[str, str]
    points: tuple[PointRequest, ...]
    budget: Budget
    key: str

    @property
    def title(self) -> str:
        """Name of the run as people read it."""
        over = ", ".join(self.choices) or "one point"
        approaches = "/".join(dict.fromkeys(point.setup.approach.name for point in self.points))
        tasks = "/".join(dict.fromkeys(point.setup.task.name for point in self.points))
        return f"sweep over {over} | {approaches} {tasks}: {len(self.points)} points"

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of what differs between points."""
        return tuple(dict.fromkeys(name for point in self.points for name in point.choices))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said before it begins, each once."""
        return tuple(dict.fromkeys(remark for point in self.points for remark in point.remarks))

    def card(self) -> Card:
        """Return what the run of the sweep says of itself."""
        params = {name: public_parameter(name, value) for name, value in self.given.items()}
        tags = {names.CONTEXT_KEY: self.key}
        return Card(role="sweep", key=self.key, title=self.title, tags=tags, params=params)

    def document(self) -> dict[str, Any]:
        """Return what is needed to repeat it, as JSON types."""
        return {
            "schema": 1,
            "parameters": {name: public_parameter(name, value) for name, value in self.given.items()},
            "budget": str(self.budget),
            "choices": list(self.choices),
            "points": [
                {"choices": dict(point.choices), "investigation_key": point.key, "parameters": point.public()}
                for point in self.points
            ],
            "sweep_key": self.key,
        }


def specify_sweep(
    parameters: Mapping[str, Any],
    *,
    approach: Approach | str | None = None,
    task: Task | str | None = None,
    searches: Searches | None = None,
    plans: bool = False,
) -> SweepRequest:
    """Check the parameters of `sweep`, and load what they name.

    Parameters
    ----------
    parameters
        Any of :data:`mlflow_l3d.studies.sweep.parameters.SWEEP`, as typed or as Python has them.
    approach, task
        Names, objects, or lists of them, for the Python API.
    searches
        See :func:`mlflow_l3d.studies.investigation.request.specify`; each search is looked up once.
    plans
        Whether nothing is to be started, so that ``dry_run`` may be true.

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed; where it is one of a point, it names the point.
    """
    objects = {name: value for name, value in (("approach", approach), ("task", task)) if value is not None}
    given = merged({**parameters, **objects})
    texts = {name: typed_text(name, given.get(name, parameter.default)) for name, parameter in SWEEP.items()}
    budget = Budget.parse(given.pop("budget", SWEEP["budget"].default))
    is_dry = SWEEP["dry_run"].read(given.pop("dry_run", False))
    if is_dry and not plans:
        allowed = "starts nothing: it is an option of the command line"
        raise ParameterError("dry_run", "true", allowed, "Use --dry-run true, or call mlflow_l3d.plan_sweep.")
    once = None if searches is None else cache(searches)
    points = specify_points(read_request(given).points(), searches=once, budgeted=bool(budget))
    if len({tuple(str(getattr(point.setup, name)) for name in PLACE) for point in points}) > 1:
        raise ParameterError("device", texts["device"], "must be one for all points", "Start a sweep for each.")
    key = content_key({"points": sorted(point.key for point in points)})
    return SweepRequest(texts, points, budget, key)

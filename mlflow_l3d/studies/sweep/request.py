"""A sweep, checked and complete: its points, its budget, and what its run says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, partial
from typing import Any, Final

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.command.template import EndedError
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters.search_document import Searches
from mlflow_l3d.parameters.shared import OWN_PARAMETERS
from mlflow_l3d.parameters.sources import PUBLISHED
from mlflow_l3d.parameters.values import as_text
from mlflow_l3d.paths import public_parameter
from mlflow_l3d.studies.base import specified
from mlflow_l3d.studies.dry_run import Budget
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.sweep.asked import Point, changed, command_of, labels_of, merged, points_of, typed_text
from mlflow_l3d.studies.sweep.numbers import OF_CHOICE
from mlflow_l3d.studies.sweep.numbers.point import Choice, SweptPoint, point_name, value_text
from mlflow_l3d.studies.sweep.parameters import SWEEP
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.resolve import read_task
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.parent import Card

_FIRST: Final = ("approach", "hyperparameters", "metric", *OWN_PARAMETERS)
"""Parameters of `main` that decide the first run of a command."""


@dataclass(frozen=True, kw_only=True)
class PointRequest(InvestigationRequest):
    """One point: the request of the separate command, and its place in a sweep.

    Attributes
    ----------
    choices
        What differs between points -> its value here.
    sweep
        Run of the sweep; the empty text before there is one.
    budgeted
        Whether it may be scored before all of its rows are there.
    """

    choices: Mapping[str, Choice] = field(default_factory=dict)
    sweep: str = ""
    budgeted: bool = False

    @property
    def name(self) -> str:
        """Its choices in a few words, as in ``shots=4, prompt_format=B``; the task if there is nothing to choose."""
        return point_name(self.choices, self.setup.task.name)

    @property
    def title(self) -> str:
        """Name of the parent: first what tells it from its neighbours."""
        return f"{self.name} | {super().title}" if self.choices else super().title

    @property
    def final_runs(self) -> bool:
        """Whether the numbers of runs are final before it begins."""
        return super().final_runs and not self.budgeted

    def card(self) -> Card:
        """Return what the parent says of itself: also its choices, one by one, and its sweep."""
        card = super().card()
        chosen = {OF_CHOICE + name: value_text(value) for name, value in self.choices.items()}
        tags = {names.SWEEP: self.sweep, names.PARENT_RUN_ID: self.sweep}
        return replace(card, tags={**card.tags, **tags}, params={**card.params, **chosen})


def specify_points(
    asked: Sequence[Point], searches: Searches | None, ended: dict[str, str], *, budgeted: bool
) -> tuple[PointRequest | SweptPoint, ...]:
    """Return every point, also those whose command failed in its first run; all have one ``design``.

    Data that several share is read once, and is one object. A first run that failed is not repeated (`ended`: what
    decides it -> its error). It raises what :func:`specify_sweep` raises; if all commands failed, an L3DError.
    """
    specify_one = partial(specify, read=cache(read_task))
    labels = labels_of(asked)
    # One object for equal tasks, so that a job with many points holds, and pickles, their data once.
    shared: dict[Any, Task] = {}
    outcomes: list[InvestigationRequest | str] = []
    for each, label in zip(asked, labels, strict=True):
        first_run = str([(name, each[name]) for name in each if name not in MAIN or name in _FIRST])
        try:
            request = ended.get(first_run) or _specified(each, label, specify_one, searches)
        except EndedError as error:
            if not label:
                raise
            request = ended[first_run] = str(error)
        if isinstance(request, InvestigationRequest) and type(task := request.setup.task) is Task:
            task = shared.setdefault((task.fingerprint, task.name, task.settings, task.notes), task)
            request = replace(request, setup=replace(request.setup, task=task))
        outcomes.append(request)
    requests = [each for each in outcomes if isinstance(each, InvestigationRequest)]
    if not requests:
        raise L3DError(f"Every point failed; the first said: {outcomes[0]}")
    several = [each for each in requests if each.given["design"] == "auto" and each.factors[1:]]
    if len({request.plan.design for request in several}) > 1:  # one point needs tables, so that all of them have some
        tables, auto = {"design": PUBLISHED}, MAIN["design"].default
        alike = [each if each.get("design", auto) != auto else changed(each, tables) for each in asked]
        return specify_points(alike, searches, ended, budgeted=budgeted)
    points: list[PointRequest | SweptPoint] = []
    seen: dict[str, str] = {}
    for part, choices, label in zip(outcomes, _choices(asked, outcomes), labels, strict=True):
        if isinstance(part, str):
            points.append(SweptPoint("", choices, str(choices.get("task", requests[0].setup.task.name)), None, part))
            continue
        shown = f"{len(points) + 1} ({label})" if label else str(len(points) + 1)
        if (other := seen.setdefault(part.key, shown)) != shown:
            raise ParameterError("point", shown, f"is the same investigation as point {other}", "Leave one out.")
        values = {each.name: getattr(part, each.name) for each in fields(part)}
        points.append(PointRequest(**values, choices=choices, budgeted=budgeted))
    return tuple(points)


def _specified(
    asked: Point, label: str, specify_one: Callable[..., InvestigationRequest], searches: Searches | None
) -> InvestigationRequest:
    """Specify a point; an error says which one it is."""
    try:
        parameters = command_of(asked)
        approach, task = parameters.pop("approach", None), parameters.pop("task", None)
        return specified(specify_one, approach, task, parameters, searches)
    except L3DError as error:
        if not label or isinstance(error, EndedError):
            raise
        if isinstance(error, ParameterError):
            where = f"at the point {label}: {error.allowed}"
            raise ParameterError(error.name, error.value, where, error.fix) from error
        raise L3DError(f"At the point {label}: {error}") from error


def _choices(asked: Sequence[Point], found: Sequence[InvestigationRequest | str]) -> list[dict[str, Choice]]:
    """Return for each point the value of everything that was asked for by name and differs between points."""
    named = dict.fromkeys(name for each in asked for name in each)
    texts = {name: [_final(name, *pair) for pair in zip(asked, found, strict=True)] for name in named}
    columns = {name: _numbers(values) for name, values in texts.items() if len({*values}) > 1}
    rows = zip(*columns.values(), strict=True) if columns else [()] * len(asked)
    return [{name: value for name, value in zip(columns, row, strict=True) if value is not None} for row in rows]


def _final(name: str, asked: Point, found: InvestigationRequest | str) -> str | None:
    """Return the value of a parameter, hyperparameter or set at a point as text; None if it has none."""
    if isinstance(found, str) or name not in (*found.given, *found.setup.hyperparameters):  # a set, or a placeholder
        return public_parameter(name, typed_text(name, asked[name])) if name in asked else None
    setup = found.setup
    if name in found.given:
        public_names = {"task": setup.task.name, "model": setup.model, "approach": setup.approach.name}
        typed = asked.get(name, found.given[name])
        return public_names.get(name) or public_parameter(name, as_text(name, typed))
    return str(setup.hyperparameters[name])


def _numbers(values: Sequence[str | None]) -> list[Choice | None]:
    """Return numbers if all values are."""
    try:
        return [None if value is None else float(value) for value in values]
    except ValueError:
        return list(values)


@dataclass(frozen=True)
class SweepRequest:
    """One sweep.

    Attributes
    ----------
    given
        Every parameter as text, those of the file included.
    every
        Its points in their order; one whose command failed in its first run has an error, and the others continue.
    budget
        The most that is computed.
    key
        Hash that says whether two sweeps are the same, whatever their budgets.
    is_typed
        Whether the parameters say it all: there are no sets, exclusions and overrides.
    """

    given: Mapping[str, str]
    every: tuple[PointRequest | SweptPoint, ...]
    budget: Budget
    key: str
    is_typed: bool = True

    @cached_property
    def points(self) -> tuple[PointRequest, ...]:
        """The investigations."""
        return tuple(each for each in self.every if isinstance(each, PointRequest))

    @property
    def failed(self) -> tuple[SweptPoint, ...]:
        """The points whose command failed."""
        return tuple(each for each in self.every if isinstance(each, SweptPoint))

    @property
    def title(self) -> str:
        """Name of the run as people read it."""
        over = ", ".join(self.choices) or "one point"
        approaches = "/".join(dict.fromkeys(point.setup.approach.name for point in self.points))
        tasks = "/".join(dict.fromkeys(point.setup.task.name for point in self.points))
        return f"sweep over {over} | {approaches} {tasks}: {len(self.every)} points"

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of what differs between points."""
        return tuple(dict.fromkeys(name for point in self.points for name in point.choices))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said before it begins, each once."""
        failures = [f"The point {point.name} failed: {point.error}" for point in self.failed]
        return tuple(dict.fromkeys([*(remark for point in self.points for remark in point.remarks), *failures]))

    def public(self) -> dict[str, str]:
        """Return every parameter as it may be shown and logged."""
        return {name: public_parameter(name, value) for name, value in self.given.items()}

    def card(self) -> Card:
        """Return what the run of the sweep says of itself."""
        tags = {names.CONTEXT_KEY: self.key}
        folders = {point.setup.approach.code_folder for point in self.points}
        code = folders.pop() if len(folders) == 1 else None
        return Card(role="sweep", key=self.key, title=self.title, tags=tags, params=self.public(), code=code)

    def document(self) -> dict[str, Any]:
        """Return what is needed to repeat it, as JSON types."""
        return {
            "schema": 1,
            "parameters": self.public(),
            "budget": str(self.budget),
            "choices": list(self.choices),
            "points": [
                {"choices": dict(each.choices), "parameters": {"task": each.task}}
                if isinstance(each, SweptPoint)
                else {"choices": dict(each.choices), "investigation_key": each.key, "parameters": each.public()}
                for each in self.every
            ],
            "sweep_key": self.key,
        }


def specify_sweep(
    parameters: Mapping[str, Any],
    *,
    approach: Approach | str | None = None,
    task: Task | str | None = None,
    searches: Searches | None = None,
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

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed; where it is one of a point, it names the point.
    """
    objects = {name: value for name, value in (("approach", approach), ("task", task)) if value is not None}
    given = merged({**parameters, **objects})
    texts = {name: typed_text(name, given.get(name, parameter.default)) for name, parameter in SWEEP.items()}
    budget = Budget.parse(given.pop("budget", SWEEP["budget"].default))
    once = None if searches is None else cache(searches)
    every = specify_points(points_of(given), once, {}, budgeted=bool(budget))
    request = SweepRequest(texts, every, budget, "", is_typed=set(given) <= set(SWEEP))
    setups = [point.setup for point in request.points]
    if len({str((each.how, each.device, each.deterministic, each.store_scores)) for each in setups}) > 1:
        raise ParameterError("device", texts["device"], "must be one for all points", "Start a sweep for each.")
    without = {"failed": sorted(point.name for point in request.failed)} if request.failed else {}
    return replace(request, key=content_key({"points": sorted(point.key for point in request.points), **without}))

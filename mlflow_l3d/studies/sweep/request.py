"""A sweep, checked and complete: its points, its budget, and what its run says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from typing import Any

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.command.template import EndedError
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters.published import PUBLISHED
from mlflow_l3d.parameters.search_document import Searches
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.parameters.values import as_text, public_parameter
from mlflow_l3d.studies.base import specified
from mlflow_l3d.studies.budget import Budget
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.sweep.asked import SET, Point, changed, command_of, labels_of, merged, points_of, typed_text
from mlflow_l3d.studies.sweep.numbers.point import Choice, SweptPoint, point_name, value_text
from mlflow_l3d.studies.sweep.numbers.results import OF_CHOICE
from mlflow_l3d.studies.sweep.parameters import SWEEP
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.resolve import read_task
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.parent import Card


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
    asked: Sequence[Point], *, searches: Searches | None = None, budgeted: bool = False
) -> tuple[tuple[PointRequest, ...], tuple[SweptPoint, ...]]:
    """Specify every point; data that several share is read once, and is one object, and all have one ``design=auto``.

    Returns
    -------
    tuple of PointRequest, tuple of SweptPoint
        The points, and those whose command failed in its first run.

    Raises
    ------
    ParameterError
        If a point cannot be specified, or two are the same investigation; it names the point.
    L3DError
        If the commands of all points failed.
    """
    read, labels = cache(read_task), []
    # One object for equal tasks, so that a job with many points holds, and pickles, their data once.
    shared: dict[Any, Task] = {}
    requests: list[InvestigationRequest] = []
    begun, failed, errors = [], [], []
    for each, label in zip(asked, labels_of(asked), strict=True):
        try:
            request = _specified(each, label, partial(specify, read=read), searches)
        except EndedError as error:
            if not label:
                raise
            failed.append(each)
            errors.append(str(error))
            continue
        begun.append(each)
        labels.append(label)
        if type(task := request.setup.task) is Task:
            task = shared.setdefault((task.fingerprint, task.name, task.settings, task.notes), task)
        requests.append(replace(request, setup=replace(request.setup, task=task)))
    if not requests:
        raise L3DError(f"Every point failed; the first said: {errors[0]}")
    left_to_us = [request.given["design"] == "auto" for request in requests]
    several = [
        request for request, is_auto in zip(requests, left_to_us, strict=True) if is_auto and request.factors[1:]
    ]
    if len({request.plan.design for request in several}) > 1:  # one point needs tables, so that all of them have some
        pairs = zip(begun, left_to_us, strict=True)
        alike = [changed(each, {"design": PUBLISHED}) if is_auto else each for each, is_auto in pairs]
        return specify_points([*alike, *failed], searches=searches, budgeted=budgeted)
    choices = _choices([*begun, *failed], [*requests, *(None for _ in failed)])
    points = tuple(
        PointRequest(
            **{part.name: getattr(each, part.name) for part in fields(each)}, choices=point_choices, budgeted=budgeted
        )
        for each, point_choices in zip(requests, choices, strict=False)
    )
    _check_distinct(points, labels)
    task_name, ends = requests[0].setup.task.name, zip(choices[len(points) :], errors, strict=True)
    return points, tuple(SweptPoint("", place, str(place.get("task", task_name)), None, error) for place, error in ends)


def _specified(
    asked: Point, label: str, specify_one: Callable[..., InvestigationRequest], searches: Searches | None
) -> InvestigationRequest:
    """Specify a point; an error says which one it is."""
    try:
        parameters = command_of(asked)
        return specified(
            specify_one, parameters.pop("approach", None), parameters.pop("task", None), parameters, searches
        )
    except L3DError as error:
        if not label or isinstance(error, EndedError):
            raise
        if isinstance(error, ParameterError):
            where = f"at the point {label}: {error.allowed}"
            raise ParameterError(error.name, error.value, where, error.fix) from error
        raise L3DError(f"At the point {label}: {error}") from error


def _choices(asked: Sequence[Point], found: Sequence[InvestigationRequest | None]) -> list[dict[str, Choice]]:
    """Return for each point the value of everything that was asked for by name and differs between points."""
    named = dict.fromkeys(name for each in asked for name in each)
    columns: dict[str, list[Choice | None]] = {}
    for name in named:
        values = [_final(name, *pair) for pair in zip(asked, found, strict=True)]
        if len(set(values)) > 1:
            columns[name] = _numbers(values)
    return [
        {name: value for name, values in columns.items() if (value := values[number]) is not None}
        for number in range(len(asked))
    ]


def _final(name: str, asked: Point, found: InvestigationRequest | None) -> str | None:
    """Return the value of a parameter, hyperparameter or set at a point as text; None if it has none."""
    if name == SET:
        return str(asked[SET])
    if found is None:
        return public_parameter(name, typed_text(name, asked[name])) if name in asked else None
    setup = found.setup
    if name in found.given:
        public_names = {"task": setup.task.name, "model": setup.model, "approach": setup.approach.name}
        typed = asked.get(name, found.given[name])
        return public_names.get(name) or public_parameter(name, as_text(name, typed))
    return str(setup.hyperparameters[name]) if name in setup.hyperparameters else None


def _numbers(values: Sequence[str | None]) -> list[Choice | None]:
    """Return numbers if all values are."""
    try:
        return [None if value is None else float(value) for value in values]
    except ValueError:
        return list(values)


def _check_distinct(points: Sequence[PointRequest], labels: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for number, (point, label) in enumerate(zip(points, labels, strict=True), start=1):
        shown = f"{number} ({label})" if label else str(number)
        if point.key in seen:
            raise ParameterError(
                "point", shown, f"is the same investigation as point {seen[point.key]}", "Leave one out."
            )
        seen[point.key] = shown


@dataclass(frozen=True)
class SweepRequest:
    """One sweep.

    Attributes
    ----------
    given
        Every parameter as text, those of the file included.
    points
        The investigations, in the order of the request.
    failed
        The points whose command failed in its first run; the others continue.
    budget
        The most that is computed.
    key
        Hash that says whether two sweeps are the same, whatever their budgets.
    is_typed
        Whether the parameters say it all: there are no sets, exclusions and overrides.
    """

    given: Mapping[str, str]
    points: tuple[PointRequest, ...]
    failed: tuple[SweptPoint, ...]
    budget: Budget
    key: str
    is_typed: bool = True

    @property
    def title(self) -> str:
        """Name of the run as people read it."""
        over = ", ".join(self.choices) or "one point"
        approaches = "/".join(dict.fromkeys(point.setup.approach.name for point in self.points))
        tasks = "/".join(dict.fromkeys(point.setup.task.name for point in self.points))
        return f"sweep over {over} | {approaches} {tasks}: {len(self.points) + len(self.failed)} points"

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
        params = self.public()
        tags = {names.CONTEXT_KEY: self.key}
        return Card(role="sweep", key=self.key, title=self.title, tags=tags, params=params)

    def document(self) -> dict[str, Any]:
        """Return what is needed to repeat it, as JSON types."""
        return {
            "schema": 1,
            "parameters": self.public(),
            "budget": str(self.budget),
            "choices": list(self.choices),
            "points": [
                {"choices": dict(point.choices), "investigation_key": point.key, "parameters": point.public()}
                for point in self.points
            ]
            + [{"choices": dict(point.choices), "parameters": {"task": point.task}} for point in self.failed],
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
    points, failed = specify_points(points_of(given), searches=once, budgeted=bool(budget))
    if len({tuple(str(getattr(point.setup, name)) for name in PLACE) for point in points}) > 1:
        raise ParameterError("device", texts["device"], "must be one for all points", "Start a sweep for each.")
    key = content_key({"points": sorted(point.key for point in points)})
    return SweepRequest(texts, points, failed, budget, key, is_typed=set(given) <= set(SWEEP))

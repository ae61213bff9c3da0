"""A sweep, checked and complete: its points, its budget, and what its run says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from typing import Any, Final, TypeVar

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.command.template import EndedError
from mlflow_l3d.approaches.own_parameters import OWN_PARAMETERS
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters.published import PUBLISHED
from mlflow_l3d.parameters.search_document import Searches
from mlflow_l3d.parameters.values import as_text, public_parameter
from mlflow_l3d.studies.base import specified
from mlflow_l3d.studies.budget import Budget
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.sweep.asked import Point, changed, command_of, labels_of, merged, points_of, typed_text
from mlflow_l3d.studies.sweep.numbers.point import Choice, SweptPoint, point_name, value_text
from mlflow_l3d.studies.sweep.numbers.results import OF_CHOICE
from mlflow_l3d.studies.sweep.parameters import SWEEP
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.resolve import read_task
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.parent import Card

T = TypeVar("T")
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
) -> tuple[tuple[PointRequest, ...], dict[int, SweptPoint]]:
    """Return every point, and place -> point for those whose command failed in its first run; all have one ``design``.

    Data that several share is read once, and is one object. A first run that failed is not repeated (`ended`: what
    decides it -> its error). It raises what :func:`specify_sweep` raises; if all commands failed, an L3DError.
    """
    read, labels = cache(read_task), labels_of(asked)
    # One object for equal tasks, so that a job with many points holds, and pickles, their data once.
    shared: dict[Any, Task] = {}
    requests: dict[int, InvestigationRequest] = {}
    errors: dict[int, str] = {}
    for place, (each, label) in enumerate(zip(asked, labels, strict=True)):
        first_run = str([(name, each[name]) for name in each if name not in MAIN or name in _FIRST])
        try:
            if first_run not in ended:
                request = _specified(each, label, partial(specify, read=read), searches)
        except EndedError as error:
            if not label:
                raise
            ended[first_run] = str(error)
        if first_run in ended:
            errors[place] = ended[first_run]
            continue
        if type(task := request.setup.task) is Task:
            task = shared.setdefault((task.fingerprint, task.name, task.settings, task.notes), task)
        requests[place] = replace(request, setup=replace(request.setup, task=task))
    if not requests:
        raise L3DError(f"Every point failed; the first said: {errors[0]}")
    several = [each for each in requests.values() if each.given["design"] == "auto" and each.factors[1:]]
    if len({request.plan.design for request in several}) > 1:  # one point needs tables, so that all of them have some
        tables, auto = {"design": PUBLISHED}, MAIN["design"].default
        alike = [each if each.get("design", auto) != auto else changed(each, tables) for each in asked]
        return specify_points(alike, searches, ended, budgeted=budgeted)
    choices = _choices(asked, [requests.get(place) for place in range(len(asked))])
    points = {
        place: PointRequest(
            **{part.name: getattr(each, part.name) for part in fields(each)}, choices=choices[place], budgeted=budgeted
        )
        for place, each in requests.items()
    }
    _check_distinct(points, labels)
    task_name = next(iter(requests.values())).setup.task.name
    return tuple(points.values()), {
        place: SweptPoint("", choices[place], str(choices[place].get("task", task_name)), None, error)
        for place, error in errors.items()
    }


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


def _choices(asked: Sequence[Point], found: Sequence[InvestigationRequest | None]) -> list[dict[str, Choice]]:
    """Return for each point the value of everything that was asked for by name and differs between points."""
    named = dict.fromkeys(name for each in asked for name in each)
    texts = {name: [_final(name, *pair) for pair in zip(asked, found, strict=True)] for name in named}
    columns = {name: _numbers(values) for name, values in texts.items() if len({*values}) > 1}
    return [
        {name: value for name, values in columns.items() if (value := values[number]) is not None}
        for number in range(len(asked))
    ]


def _final(name: str, asked: Point, found: InvestigationRequest | None) -> str | None:
    """Return the value of a parameter, hyperparameter or set at a point as text; None if it has none."""
    if found is None or name not in (*found.given, *found.setup.hyperparameters):  # a set, or a placeholder
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


def _check_distinct(points: Mapping[int, PointRequest], labels: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for place, point in points.items():
        shown = f"{place + 1} ({labels[place]})" if labels[place] else str(place + 1)
        if point.key in seen:
            allowed = f"is the same investigation as point {seen[point.key]}"
            raise ParameterError("point", shown, allowed, "Leave one out.")
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
        Place -> point whose command failed in its first run; the others continue.
    budget
        The most that is computed.
    key
        Hash that says whether two sweeps are the same, whatever their budgets.
    is_typed
        Whether the parameters say it all: there are no sets, exclusions and overrides.
    """

    given: Mapping[str, str]
    points: tuple[PointRequest, ...]
    failed: Mapping[int, SweptPoint]
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
        failures = [f"The point {point.name} failed: {point.error}" for point in self.failed.values()]
        return tuple(dict.fromkeys([*(remark for point in self.points for remark in point.remarks), *failures]))

    def in_order(self, of_points: Iterable[T], of_failed: Iterable[T]) -> list[T]:
        """Return what belongs to the points and to the failed ones, in the order of the request."""
        both = iter(of_points), iter(of_failed)
        return [next(both[place in self.failed]) for place in range(len(self.points) + len(self.failed))]

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
            "points": self.in_order(
                [
                    {"choices": dict(each.choices), "investigation_key": each.key, "parameters": each.public()}
                    for each in self.points
                ],
                [{"choices": dict(each.choices), "parameters": {"task": each.task}} for each in self.failed.values()],
            ),
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
    points, failed = specify_points(points_of(given), once, {}, budgeted=bool(budget))
    setups = [point.setup for point in points]
    if len({str((each.how, each.device, each.deterministic, each.store_scores)) for each in setups}) > 1:
        raise ParameterError("device", texts["device"], "must be one for all points", "Start a sweep for each.")
    without = {"failed": sorted(point.name for point in failed.values())} if failed else {}
    key = content_key({"points": sorted(point.key for point in points), **without})
    return SweepRequest(texts, points, failed, budget, key, is_typed=set(given) <= set(SWEEP))

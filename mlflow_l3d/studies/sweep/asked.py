"""The values that a sweep varies: of parameters and hyperparameters, and a file with sets and exceptions."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.command.template import Template
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.shared import OWN_PARAMETERS, PLACE
from mlflow_l3d.parameters.sources import parse
from mlflow_l3d.parameters.values import as_text, check_names, file_text, json_of
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.sweep.parameters import SWEEP
from mlflow_l3d.tasks.base import Task

SET: Final = "set"
"""What the name of a set is called among the choices."""
_OF_FILE: Final = ("sets", "exclude", "overrides")


Point = Mapping[str, Any]
"""One point as it was asked for: parameter of `main`, hyperparameter, or :data:`SET` -> its value."""


def points_of(given: Mapping[str, Any]) -> list[Point]:
    """Return the points that :func:`merged` parameters make: sets, then parameters as in `main`, then hyperparameters.

    Raises
    ------
    ParameterError
        If an exclusion or an override matches no point, or none is left.
    """
    sets = _mapping("sets", given.get("sets") or {"": {}})
    lists = _values("", {name: value for name, value in given.items() if name not in _OF_FILE})
    every = [point for name, own in sets.items() for point in _product({**lists, **_values(f"sets.{name}", own)}, name)]
    exclude = _rules("exclude", given)
    overrides = [_override(rule) for rule in _rules("overrides", given)]
    all_names = {name for point in every for name in point}
    for what, rule in (*(("exclude", rule) for rule in exclude), *(("overrides", when) for when, _ in overrides)):
        check_names(what, rule, all_names, "what the points of this sweep name:")
        if not any(_matches(point, rule) for point in every):
            raise ParameterError(what, json.dumps(rule, default=str), "matches no point of this sweep")
    points = [point for point in every if not any(_matches(point, rule) for rule in exclude)]
    if not points:
        raise ParameterError("exclude", json.dumps(exclude, default=str), f"leaves none of the {len(every)} points")
    for when, change in overrides:
        points = [changed(point, change) if _matches(point, when) else point for point in points]
    return points


def changed(point: Point, change: Point) -> Point:
    """Return a point with other values of some names; parameters come first, then hyperparameters, then the set."""
    values = {**point, **change}
    return {name: values[name] for name in sorted(values, key=lambda name: (name not in MAIN) + (name == SET))}


def command_of(point: Point) -> dict[str, Any]:
    """Return the parameters of the separate command that would give the same investigation.

    A value of `over` fills the placeholder with its name if the command has one; the others are hyperparameters.
    """
    parameters = {name: value for name, value in point.items() if name in MAIN}
    over = {name: value for name, value in point.items() if name not in MAIN and name != SET}
    for text in (name for name in ("command", "project_parameters") if isinstance(parameters.get(name), str)):
        for name, value in [*over.items()]:
            placeholder = re.compile(rf"(?<!\{{)\{{{re.escape(name)}\}}(?!\}})")
            if placeholder.search(parameters[text]):
                words = Template.of(parameters[text]).words if text == "command" else [parameters[text]]
                filled = [str(value).join(placeholder.split(word)) for word in words]
                parameters[text] = shlex.join(filled) if text == "command" else filled[0]
                del over[name]
    return {**parameters, "hyperparameters": _joined(parameters.get("hyperparameters"), over)} if over else parameters


def _matches(point: Point, conditions: Mapping[str, Any]) -> bool:
    """Return whether a point has one of the values of every condition."""
    return all(
        name in point and any(same(name, point[name], value) for value in listed(values))
        for name, values in conditions.items()
    )


def _product(lists: Mapping[str, Sequence[Any]], set_name: str) -> Iterator[Point]:
    names = [*(name for name in MAIN if name in lists), *(name for name in lists if name not in MAIN)]
    for values in itertools.product(*(lists[name] for name in names)):
        yield {**dict(zip(names, values, strict=True)), **({SET: set_name} if set_name else {})}


def merged(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values given here, and the rest from the file, under the names of both.

    Parameters
    ----------
    parameters
        Any of :data:`mlflow_l3d.studies.sweep.parameters.SWEEP`, as typed or as Python has them; approach and task may
        be objects. From Python also ``sets``, ``exclude`` and ``overrides``, as a file has them. What is a parameter's
        default counts as not given.

    Raises
    ------
    ParameterError
        If a name is unknown or the file cannot be used.
    """
    check_names("parameter", parameters, SWEEP, more=_OF_FILE)
    explicit = {
        name: value
        for name, value in parameters.items()
        if name in _OF_FILE or not isinstance(value, str | int | float) or not same(name, value, SWEEP[name].default)
    }
    if (name := explicit.pop("file", "none")) == "none":
        return explicit
    import yaml

    try:
        content = yaml.safe_load(file_text("file", name, name))
    except yaml.YAMLError as error:
        raise ParameterError("file", name, f"is neither YAML nor JSON ({error})") from error
    if not isinstance(content, Mapping):
        raise ParameterError("file", name, "must hold a mapping: name -> value or list of values")
    check_names("file", content, [*(each for each in SWEEP if each != "file"), *_OF_FILE])
    return {**content, **explicit}


def _values(parameter: str, content: Any) -> dict[str, list[Any]]:
    """Return parameter of `main`, or hyperparameter -> its values: of the sweep, of a set, or of an override."""
    content = _mapping(parameter, {} if content is None else content)
    check_names(parameter, content, [*MAIN, "over"])
    parameters = {name: values_of(name, value) for name, value in content.items() if name in MAIN}
    return {**parameters, **over_of(content.get("over") or {})}


def _override(rule: Mapping[str, Any]) -> tuple[Mapping[str, Any], Point]:
    if "when" not in rule or len(rule) < 2:
        allowed = "needs `when`, and the parameters that points have there; hyperparameters stand under `over`"
        raise ParameterError("overrides", json.dumps(rule, default=str), allowed)
    change = _values("overrides", {name: value for name, value in rule.items() if name != "when"})
    for name, values in change.items():
        if len(values) > 1:
            raise ParameterError(f"overrides.{name}", as_text(name, values), "must be one value")
    return _mapping("overrides.when", rule["when"]), {name: value for name, [value] in change.items()}


def _rules(name: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(rules := given.get(name) or [], list):
        raise ParameterError(name, rules, "must be a list of mappings")
    return [_mapping(name, rule) for rule in rules]


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ParameterError(name, value, "must be a mapping")
    return {str(key): each for key, each in value.items()}


def _joined(given: Any, over: Mapping[str, Any]) -> Any:
    """Return what `main` would be given for hyperparameters, with those of a point."""
    text = MAIN["hyperparameters"].default if given is None else as_text("hyperparameters", given)
    source = parse(text)
    for name in over:
        if name in source.overrides or (source.source == "inline" and name in source.values):
            raise ParameterError("hyperparameters", text, f"names {name}, which the sweep goes over", "Leave it out.")
    if source.source in ("default", "inline"):
        return {**source.values, **source.overrides, **over}
    for name, value in over.items():
        if "," in str(value):
            allowed = f"holds a comma, which cannot stand after hyperparameters={source.name}"
            raise ParameterError(f"over.{name}", value, allowed)
    return ",".join([text, *(f"{name}={value}" for name, value in over.items())])


WITH_COMMAS: Final = (
    *("factor", "hyperparameters", "mitigation", "text_column", "executor_options", "cure"),
    *("command", "project_parameters"),
)
"""Parameters whose own values hold commas: a semicolon separates several values."""


def values_of(name: str, value: Any) -> list[Any]:
    """Return the values that are given for a parameter of `main`.

    A text is separated at commas, or at semicolons if a single value may hold commas (:data:`WITH_COMMAS`); one that
    begins with ``[`` is a list in JSON. A list from Python or a file holds the values; of parameters that are
    themselves a list of names in `main` (``factor``), a list of lists does.

    Raises
    ------
    ParameterError
        If there is none, one of them is empty, or the parameter takes no list.
    """
    values = [value]
    if isinstance(value, str):
        text, in_names = value.strip(), name in WITH_COMMAS
        if text.startswith("["):
            values = list(json_of(name, value, text))
        elif not (in_names and text.startswith("{")):
            values = [part.strip() for part in value.split(";" if in_names else ",")]
    elif isinstance(value, list | tuple):
        holds_names = name in WITH_COMMAS and name not in ("hyperparameters", "cure", *OWN_PARAMETERS)
        names = holds_names and not any(isinstance(each, list) for each in value)
        values = [as_text(name, list(value))] if names else list(value)
    values = [as_text(name, each) if isinstance(each, list | tuple) else each for each in values]
    if not values or any(each is None or (isinstance(each, str) and not each) for each in values):
        raise ParameterError(name, as_text(name, value), "must name values, and no empty one")
    if len(values) > 1 and name in PLACE:
        allowed = "must be one value: all cells of a sweep run in the same place"
        raise ParameterError(name, as_text(name, value), allowed, "Start a sweep for each.")
    return values


def over_of(value: Any) -> dict[str, list[Any]]:
    """Return hyperparameter -> its values."""
    if isinstance(value, str):
        value = {} if value == SWEEP["over"].default else json_of("over", value, value)
    if not isinstance(value, Mapping):
        raise ParameterError("over", value, 'must be a mapping: hyperparameter -> values, as in {"shots": [2, 4]}')
    values_by_name = {str(name): listed(values) for name, values in value.items()}
    for name, values in values_by_name.items():
        if name in MAIN:
            fix = f"Use {MAIN[name].option} {','.join(map(str, values))}."
            raise ParameterError(f"over.{name}", values, "is a parameter, not a hyperparameter", fix)
        if not values or any(each is None or isinstance(each, list | dict) for each in values):
            raise ParameterError(f"over.{name}", values, "must be values of that hyperparameter, at least one")
    return values_by_name


def listed(values: Any) -> list[Any]:
    """Return some values as a list, also a single one."""
    return list(values) if isinstance(values, list | tuple) else [values]


def same(name: str, own: Any, wanted: Any) -> bool:
    """Return whether two values are one, however they are typed: 8, 8.0 and "8"."""
    texts = [typed_text(name, value) for value in (own, wanted)]
    try:
        return texts[0] == texts[1] or float(texts[0]) == float(texts[1])
    except ValueError:
        return texts[0].lower() == texts[1].lower() in ("true", "false")


def typed_text(name: str, value: Any) -> str:
    """Return a value as people type it; of objects the name."""
    if isinstance(value, list | tuple):
        return ",".join(typed_text(name, each) for each in value)
    return str(value.name) if isinstance(value, Approach | Task) else as_text(name, value)


def labels_of(points: Sequence[Point]) -> list[str]:
    """Return for each point the values that it does not share with all others."""
    texts = [{name: typed_text(name, value) for name, value in each.items()} for each in points]
    names = [name for name in dict.fromkeys(n for each in texts for n in each) if len({e.get(name) for e in texts}) > 1]
    return [", ".join(f"{name}={each[name]}" for name in names if name in each) for each in texts]

"""The values that a sweep varies: of parameters and hyperparameters, and a file with sets and exceptions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mlflow_l3d.approaches.own_parameters import OWN_PARAMETERS
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.parameters.sources import parse
from mlflow_l3d.parameters.values import as_text, check_names, file_text, json_of
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.sweep.parameters import SWEEP

SET: Final = "set"
"""What the name of a set is called among the choices."""
_OF_FILE: Final = ("sets", "exclude", "overrides")


@dataclass(frozen=True)
class Asked:
    """One point as it was asked for.

    Attributes
    ----------
    parameters
        Parameters of `main` -> value; those that are not named have their defaults.
    over
        Hyperparameter -> value.
    set
        Name of the set that it belongs to; the empty text if there are none.
    """

    parameters: Mapping[str, Any]
    over: Mapping[str, Any]
    set: str = ""

    @property
    def values(self) -> dict[str, Any]:
        """Everything by its name, as exclusions and overrides look at it."""
        return {**self.parameters, **self.over, **({SET: self.set} if self.set else {})}

    def matches(self, conditions: Mapping[str, Any]) -> bool:
        """Return whether it has one of the values of every condition."""
        point_values = self.values
        return all(
            name in point_values and any(same(name, point_values[name], value) for value in listed(values))
            for name, values in conditions.items()
        )

    def changed(self, by: Asked) -> Asked:
        """Return the point with what an override says instead."""
        return Asked({**self.parameters, **by.parameters}, {**self.over, **by.over}, self.set)

    def given(self) -> dict[str, Any]:
        """Return the parameters of the separate command that would give the same investigation."""
        if not self.over:
            return dict(self.parameters)
        return {**self.parameters, "hyperparameters": _joined(self.parameters.get("hyperparameters"), self.over)}


@dataclass(frozen=True)
class Request:
    """A sweep as it was asked for.

    Attributes
    ----------
    parameters
        Parameter of `main` -> its values.
    over
        Hyperparameter -> its values.
    sets
        Name -> request whose parameters and hyperparameters take the place of these.
    exclude
        Points that match one of these conditions are left out.
    overrides
        Conditions, and the parameters and hyperparameters of points that match them.
    """

    parameters: Mapping[str, Sequence[Any]]
    over: Mapping[str, Sequence[Any]]
    sets: Mapping[str, Request] = field(default_factory=dict)
    exclude: Sequence[Mapping[str, Any]] = ()
    overrides: Sequence[tuple[Mapping[str, Any], Asked]] = ()

    def points(self) -> list[Asked]:
        """Return the points in their order: sets, then parameters as `main` lists them, then hyperparameters.

        Raises
        ------
        ParameterError
            If an exclusion or an override matches no point, or none is left.
        """
        every = list(self._product())
        all_names = {name for point in every for name in point.values}
        for what, rules in (("exclude", self.exclude), ("overrides", [when for when, _ in self.overrides])):
            for rule in rules:
                check_names(what, rule, all_names, "what the points of this sweep name:")
                if not any(point.matches(rule) for point in every):
                    raise ParameterError(what, json.dumps(dict(rule), default=str), "matches no point of this sweep")
        points = [point for point in every if not any(point.matches(rule) for rule in self.exclude)]
        if not points:
            allowed = f"leaves none of the {len(every)} points"
            raise ParameterError("exclude", json.dumps(list(map(dict, self.exclude)), default=str), allowed)
        for when, change in self.overrides:
            points = [point.changed(change) if point.matches(when) else point for point in points]
        return points

    def _product(self) -> Iterator[Asked]:
        for set_name, within in (self.sets or {"": Request({}, {})}).items():
            parameters, over = {**self.parameters, **within.parameters}, {**self.over, **within.over}
            names = [each for each in MAIN if each in parameters]
            for values in itertools.product(*(parameters[each] for each in names), *over.values()):
                chosen = dict(zip(names, values, strict=False))
                yield Asked(chosen, dict(zip(over, values[len(names) :], strict=True)), set_name)


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
    return {**read_file(explicit.pop("file", "none")), **explicit}


def read_file(name: Any) -> dict[str, Any]:
    """Return the content of a YAML or JSON file, a mapping by names of parameters; nothing for ``none``."""
    import yaml

    if name == "none":
        return {}
    try:
        content = yaml.safe_load(file_text("file", name, name))
    except yaml.YAMLError as error:
        raise ParameterError("file", name, f"is neither YAML nor JSON ({error})") from error
    if not isinstance(content, dict):
        raise ParameterError("file", name, "must hold a mapping: name -> value or list of values")
    check_names("file", content, [*(each for each in SWEEP if each != "file"), *_OF_FILE])
    return content


def read_request(given: Mapping[str, Any]) -> Request:
    """Return the request that :func:`merged` parameters, or those of one set, make."""
    sets = _mapping("sets", given.get("sets") or {})
    exclude = _rules("exclude", given)
    overrides = [_override(rule) for rule in _rules("overrides", given)]
    parameters = {name: values_of(name, value) for name, value in given.items() if name in MAIN}
    over = over_of(given.get("over") or {})
    return Request(parameters, over, {name: _set(name, each) for name, each in sets.items()}, exclude, overrides)


def _set(name: str, content: Any) -> Request:
    parameter = f"sets.{name}"
    content = _mapping(parameter, content if content is not None else {})
    check_names(parameter, content, [*MAIN, "over"])
    return read_request(content)


def _override(rule: Mapping[str, Any]) -> tuple[Mapping[str, Any], Asked]:
    if "when" not in rule or len(rule) < 2:
        allowed = "needs `when`, and the parameters that points have there; hyperparameters stand under `over`"
        raise ParameterError("overrides", json.dumps(dict(rule), default=str), allowed)
    change = _set("overrides", {name: value for name, value in rule.items() if name != "when"})
    for name, values in {**change.parameters, **change.over}.items():
        if len(values) > 1:
            raise ParameterError(f"overrides.{name}", as_text(name, list(values)), "must be one value")
    parameters, over = ({name: values[0] for name, values in part.items()} for part in (change.parameters, change.over))
    return _mapping("overrides.when", rule["when"]), Asked(parameters, over)


def _rules(name: str, given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules = given.get(name) or []
    if not isinstance(rules, list):
        raise ParameterError(name, rules, "must be a list of mappings")
    return [_mapping(name, rule) for rule in rules]


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
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
    *(name for name, declaration in OWN_PARAMETERS.items() if declaration.text == "words"),
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
        holds_names = name in WITH_COMMAS and name not in ("hyperparameters", "cure")
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
    texts = [
        str(getattr(value, "name", value)) if not isinstance(value, Mapping) else as_text(name, value)
        for value in (own, wanted)
    ]
    if texts[0] == texts[1]:
        return True
    try:
        return float(texts[0]) == float(texts[1])
    except ValueError:
        return texts[0].lower() == texts[1].lower() and {"true", "false"} >= {texts[0].lower()}

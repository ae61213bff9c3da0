"""Where hyperparameters come from: typed values, a file, a finished search, or what the papers' authors published."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.models.references import target
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters.search_document import (
    SCHEMA,
    FoundSearch,
    Searches,
    Subject,
    differences,
    is_search_document,
    well_formed,
)
from mlflow_l3d.parameters.values import as_text, file_text, json_of

SourceName = Literal["default", "paper", "search", "file", "inline"]

NAMES: Final[Mapping[str, SourceName]] = {"default": "default", "paper": "paper", "latest": "search"}
_ALLOWED: Final = (
    "must be default, paper, latest, the id of a search run, a .json file, a JSON object, or name=value,name=value"
)
RUN_ID: Final = re.compile(r"[0-9a-f]{32}")
OF_RUN: Final = re.compile(r"[0-9a-f]{4,32}")  # the beginning of an id is enough
_PAIR: Final = re.compile(r"\w+\s*=")
_FILE: Final = re.compile(r"(.*?\.json)\s*(,.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Given:
    """The typed text in its parts.

    Attributes
    ----------
    text
        As it was typed.
    source
        Its kind; ``search`` for ``latest`` and for the id of a search's run.
    name
        The part of the text that names the source.
    values
        Content of the file or of the inline object; empty for other sources.
    overrides
        Values that stand next to the source, as typed.
    """

    text: str
    source: SourceName
    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)


def parse(hyperparameters: str | Mapping[str, Any]) -> Given:
    """Parse the value of the parameter `hyperparameters`.

    Parameters
    ----------
    hyperparameters
        Their values; or ``default``, ``paper``, ``latest``, the id of a search run (32 hexadecimal digits), a file
        whose name ends with ``.json``, or a JSON object; each may be followed by a comma and ``name=value,name=value``,
        which win. Or such pairs alone.

    Raises
    ------
    ParameterError
        If it is none of these, or a file cannot be read.
    """
    text = as_text("hyperparameters", hyperparameters)
    if isinstance(hyperparameters, Mapping):
        return Given(text, "inline", "the values", {str(name): value for name, value in hyperparameters.items()})
    stripped = text.strip()
    if stripped.startswith("{"):
        values, rest = _inline_object(text, stripped)
        return Given(text, "inline", "the JSON object", values, _overrides(text, rest))
    if not _PAIR.match(stripped) and (file := _FILE.fullmatch(stripped)):
        parsed: Any = json_of("hyperparameters", text, file_text("hyperparameters", text, file[1]))
        if not isinstance(parsed, dict):
            raise ParameterError("hyperparameters", text, "must hold a JSON object, name -> value")
        return Given(text, "file", file[1], parsed, _overrides(text, file[2]))
    name, comma, rest = stripped.partition(",")
    name = name.strip()
    source = "search" if OF_RUN.fullmatch(name) else NAMES.get(name)
    if source is not None:
        return Given(text, source, name, {}, _overrides(text, comma + rest))
    return Given(text, "inline", "the values", _pairs(text, stripped))


def _inline_object(text: str, stripped: str) -> tuple[dict[str, Any], str]:
    """Return the object at the start of the text, and what follows it."""
    try:
        parsed, end = json.JSONDecoder().raw_decode(stripped)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ParameterError("hyperparameters", text, f"is not valid JSON ({error})") from error
    rest = stripped[end:].strip()
    if rest and not rest.startswith(","):
        raise ParameterError("hyperparameters", text, "must be a JSON object; a comma and name=value may follow it")
    return parsed, rest


def _overrides(text: str, rest: str | None) -> dict[str, Any]:
    """Return the pairs of what follows a source: nothing, or a comma and pairs."""
    return _pairs(text, rest.removeprefix(",")) if rest else {}


def _pairs(text: str, pairs: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for part in pairs.split(","):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or not name:
            close = difflib.get_close_matches(name.casefold(), NAMES, n=1, cutoff=0.7) if not equals else []
            raise ParameterError("hyperparameters", text, _ALLOWED, f"Did you mean {close[0]!r}?" if close else "")
        if name in values:
            raise ParameterError("hyperparameters", text, f"must name {name} once")
        values[name] = value.strip()
    return values


ValuesFor = Callable[[str, Mapping[str, Value]], Mapping[str, Value] | None]
"""Task and what the user gives -> published hyperparameters; None if there are none."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the hyperparameters of an investigation came from.

    Attributes
    ----------
    source
        The kind.
    search_run_id
        The search that found them, the empty text where none did; of a file, the search that wrote it.
    overridden
        Names of those that were given in addition to the source.
    searched
        The content of the search's ``hyperparameters.json``; empty where no search is behind them.
    notes
        What is doubtful, one sentence each.
    values
        The given values, before the approach completed it: what is not named here may follow from what is.
    """

    source: SourceName = "default"
    search_run_id: str = ""
    overridden: tuple[str, ...] = ()
    searched: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the origin as JSON types, for ``investigation.json``."""
        return {"source": self.source, "search_run_id": self.search_run_id or None, "overridden": list(self.overridden)}


def choose(
    asked: str | Mapping[str, Any],
    approach: Approach,
    subject: Callable[[], Subject],
    searches: Searches | None = None,
    published: ValuesFor | None = None,
) -> tuple[dict[str, Value], Origin]:
    """Return the complete hyperparameters that `text` asks for, and where they came from.

    Parameters
    ----------
    asked
        The value of the parameter `hyperparameters`; see :func:`mlflow_l3d.parameters.sources.parse`.
    approach
        Whose hyperparameters they are.
    subject
        Returns what is trained on what; called only where the source depends on it, for it loads the data.
    searches
        Finds searches; None where no tracking server can be asked.
    published
        Task and given values -> what `paper` means; None for the approach's own ``published``.

    Raises
    ------
    ParameterError
        If the source is not there, or is one of another approach, or a value is unknown or not allowed.
    L3DError
        If a search is asked for and `searches` is None, or the tracking server does not answer.
    """
    given = parse(asked)
    checked = resolve_hyperparameters(approach, given.overrides)  # cheap mistakes first
    overrides = {name: checked[name] for name in given.overrides}
    values: Mapping[str, Any] = given.values
    origin = Origin(given.source)
    if given.source == "paper":
        values, notes = _published(given.text, approach, overrides, subject(), published or approach.published)
        origin = Origin("paper", notes=notes)
    elif given.source == "search":
        if searches is None:
            why = "a search can only be looked up on a tracking server. Give a file or values."
            raise L3DError(f"hyperparameters={given.text}: {why}")
        about = subject()
        values, origin = _searched(given, searches(given.name, about), about, overrides)
    elif is_search_document(values):
        run_id = values.get("search_run_id")  # it becomes a tag, so nothing but an id passes
        found = FoundSearch(run_id if isinstance(run_id, str) and RUN_ID.fullmatch(run_id) else "", values)
        values, origin = _searched(given, found, subject(), overrides)
    own = {**values, **overrides}
    try:
        complete = approach.complete(resolve_hyperparameters(approach, own))
    except ParameterError as error:
        if given.source in ("default", "inline"):
            raise
        fix = f"{error.fix} The values come from {given.name}; name=value after it overrides one.".strip()
        raise ParameterError(error.name, error.value, error.allowed, fix) from error
    return complete, replace(origin, overridden=tuple(overrides), values=own)


def _published(
    text: str, approach: Approach, overrides: Mapping[str, Value], subject: Subject, published: ValuesFor
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return what the authors published for the task, under what the user has given, and what is doubtful about it."""
    values = published(subject.task, overrides)
    if values is None:
        with_values = [task for task in registry.names("task") if published(task, overrides) is not None]
        under = ", ".join(f"{name}={value}" for name, value in overrides.items())
        what = f"of {approach.name}{f' with {under}' if under else ''}"
        allowed = f"there are no published hyperparameters {what} for the task {subject.task}"
        fix = f"There are some for {', '.join(with_values)}." if with_values else "Use default, latest, or values."
        raise ParameterError("hyperparameters", text, allowed, fix)
    other = [
        f"{name}={value} ({values[name]})" for name, value in overrides.items() if values.get(name, value) != value
    ]
    notes = (f"Not as published, whose values are in brackets: {', '.join(other)}.",) if other else ()
    study = approach.published_study
    if not subject.model or (study and target(subject.model) in {target(name) for name in study.models}):
        return values, notes
    note = f"Hyperparameters are those that were published for {subject.task} with the authors' models"
    return values, (*notes, f"{note}; whether they suit {subject.model} was not looked at.")


def _searched(
    given: Given, found: FoundSearch, subject: Subject, overrides: Mapping[str, Value]
) -> tuple[Mapping[str, Any], Origin]:
    """Return the values that a search found, after a look at what it was a search of."""
    document = found.document
    if not well_formed(document):
        allowed = f"is not the hyperparameters.json (schema {SCHEMA}) that a search leaves"
        raise ParameterError("hyperparameters", given.name, allowed, "Search again, or give the values themselves.")
    if document.get("approach") != subject.approach:
        what = f"search {found.run_id}" if given.source == "search" else "this search"
        allowed = f"{what} was one of approach={document.get('approach')}, not of {subject.approach}"
        raise ParameterError("hyperparameters", given.name, allowed)
    values = document["hyperparameters"]
    other_values = [
        f"with {name}={values[name]}, and are used with {name}={value}"
        for name, value in overrides.items()
        if name in values and values[name] != value
    ]
    notes = [f"Hyperparameters were searched {note}." for note in (*differences(document, subject), *other_values)]
    return values, Origin(given.source, search_run_id=found.run_id, searched=document, notes=tuple(notes))

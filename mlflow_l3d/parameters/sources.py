"""Where hyperparameters come from: typed values, a file, a search or a paper, whose other settings are known, too."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.hooks import PublishedStudy
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.models import target
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters import Arguments
from mlflow_l3d.parameters.search_document import (
    FoundSearch,
    Origin,
    Searches,
    SourceName,
    Subject,
    is_search_document,
    searched_values,
)
from mlflow_l3d.parameters.values import Choice, as_text, file_text, json_of

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
    origin, found = Origin(given.source), None
    if given.source == "paper":
        values, notes = _published(given.text, approach, overrides, subject(), published or approach.published)
        origin = Origin("paper", notes=notes)
    elif given.source == "search":
        if searches is None:
            why = "a search can only be looked up on a tracking server. Give a file or values."
            raise L3DError(f"hyperparameters={given.text}: {why}")
        found = searches(given.name, subject())
    elif is_search_document(values):
        run_id = values.get("search_run_id")  # it becomes a tag, so nothing but an id passes
        found = FoundSearch(run_id if isinstance(run_id, str) and RUN_ID.fullmatch(run_id) else "", values)
    if found is not None:
        values, notes = searched_values(given.name, found, subject(), overrides)
        origin = Origin(given.source, found.run_id, searched=found.document, notes=notes)
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


PUBLISHED: Final = "crossed"
"""The design of the paper."""


def as_published(asked: Arguments, approach: Approach) -> tuple[Arguments, tuple[str, ...]]:
    """Return the parameters with those of the paper in place of `auto`, and a sentence on what differs from the paper.

    Parameters
    ----------
    asked
        The arguments. Without ``hyperparameters=paper`` they are returned as they are.
    approach
        The approach; nothing changes for one without a published study.

    Raises
    ------
    ParameterError
        If the paper has several models and none is named, or a published rate does not suit the approach's own model.
    """
    study, source = approach.published_study, parse(asked["hyperparameters"])
    if study is None or source.source != "paper":
        return asked, ()
    asked = asked.changed(model=_model(asked["model"], study, approach, rate_is_given=study.rate in source.overrides))
    if "mitigation_runs" not in asked:  # a search has no runs of its own
        return asked, ()
    if asked["design"] == "auto":
        asked = asked.changed(design=PUBLISHED)
    design = registry.load("design", asked["design"])
    if (asked["mitigation_runs"], asked["stop"]) == ("auto", "none") and getattr(design, "has_columns", False):
        asked = asked.changed(mitigation_runs=study.mitigation_runs)
    if asked["metric"] == "auto":
        asked = asked.changed(metric=study.metric)
    return asked, _differences(asked.texts, study, baseline=getattr(design, "baseline", False))


def _model(model: str, study: PublishedStudy, approach: Approach, *, rate_is_given: bool) -> str:
    """Return the model that is meant."""
    named = study.models[0] if len(study.models) == 1 else str(Choice(study.models))
    if model == "auto":
        if len(study.models) > 1:
            allowed = f"the paper has several models for {approach.name}, and hyperparameters=paper needs to know which"
            raise ParameterError("model", model, allowed, f"Use model={named}.")
        return study.models[0]
    if study.rate and model == approach.default_model and not rate_is_given:
        allowed = f"is not a model that the published {study.rate} was found for; it is far smaller"
        fix = f"Use model={named}, or give a rate (hyperparameters=paper,{study.rate}=...), or leave paper out."
        raise ParameterError("model", model, allowed, fix)
    return model


def _differences(texts: Mapping[str, str], study: PublishedStudy, *, baseline: bool) -> tuple[str, ...]:
    """Return what is not as the paper has it, in one sentence; models are another one's business."""
    rows, columns, examples = study.mitigation_runs, study.investigation_runs, study.examples
    theirs = {
        "design": (PUBLISHED, *((texts["design"],) if baseline else ())),
        "investigation_runs": (str(columns),),
        "mitigation_runs": (str(rows),),
        "golden_runs": (str(rows * columns), "auto"),
        "joint": ("paired",),
        "mitigation": ("none",),
        "stop": ("none",),
        "metric": (study.metric,),
        "num_labelled": (str(examples), "auto"),
        "test_size": (str(examples), "auto"),
        "test_selection": ("label_selection",),
        "reference_size": ("0",),
    }
    others = {name: texts[name] for name, values in theirs.items() if texts[name].strip() not in values}
    text = ", ".join(f"{name}={value} ({theirs[name][0]})" for name, value in others.items())
    return (f"Not as in the paper, whose values are in brackets: {text}.",) if others else ()

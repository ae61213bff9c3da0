"""Evaluations of GenAI apps over prompts, models, judges and repeats: the request of a call, its cells and judges."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from itertools import product
from typing import Any, Final, TypeAlias

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.values import Whole
from mlflow_l3d.studies.genai.contents import code_content, read_rows, scorer_content
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import found
from mlflow_l3d.tracking.connection import Client

JUDGE, REPLICATE, JUDGEMENT = "judge", "replicate", "judgement"
Scorers: TypeAlias = list[tuple[Any, dict[str, Any]]]
"""Scorers of MLflow, each with its content."""
_OF_TABLE: Final = ("row", "answer", "repeat", "scorer", "value", "failed", "run_id")


@dataclass(frozen=True)
class Level:
    """One level of a factor: its name in tables, the value, its content as JSON, and whether it is a prompt."""

    name: str
    value: Any
    content: Any
    is_prompt: bool = False


@dataclass(frozen=True)
class Judging:
    """Who judges: a scorer object, what it rates, its name, its content, which time, and if it is one of the judges."""

    scorer: Any
    rates: str
    judge: str
    content: Mapping[str, Any]
    number: int = 0
    is_judge: bool = False


@dataclass(frozen=True)
class AnswerCell:
    """One answer of the app to each row.

    Attributes
    ----------
    levels
        Factor -> its level.
    replicate
        0, 1, ...
    key
        ``l3d.cell_key``: the same key means that nobody needs to be asked again.
    """

    levels: Mapping[str, Level]
    replicate: int
    key: str

    @property
    def labels(self) -> dict[str, str]:
        """Factor -> name of its level."""
        return {name: level.name for name, level in self.levels.items()}

    @property
    def name(self) -> str:
        """What its runs begin with, so that a list of runs keeps those of a cell together."""
        return ", ".join([*self.labels.values(), f"replicate {self.replicate}"])


@dataclass(frozen=True)
class GenaiRequest:
    """A checked call of `investigate`.

    Attributes
    ----------
    app, rows
        Whom to ask, and what: the rows with their tags.
    factors
        Factor -> levels.
    passed
        Factors that the app has a parameter for.
    replicates
        Answers per row.
    judgings
        Who judges.
    context_key
        Hash of the app and the inputs: cells of one context differ in the levels of factors.
    """

    app: Callable[..., Any]
    rows: Sequence[Mapping[str, Any]]
    factors: Mapping[str, tuple[Level, ...]]
    passed: tuple[str, ...]
    replicates: int
    judgings: tuple[Judging, ...]
    context_key: str

    @property
    def app_name(self) -> str:
        """Name of the app."""
        return str(getattr(self.app, "__name__", type(self.app).__name__))

    @property
    def title(self) -> str:
        """Name of the run: the app, what varies, and how many rows there are."""
        varied = [*(name for name, levels in self.factors.items() if len(levels) > 1), REPLICATE]
        return f"genai: {self.app_name} · {', '.join(varied)} · {len(self.rows)} rows"

    @cached_property
    def cells(self) -> list[AnswerCell]:
        """The cells in the order of their work: all levels first, so that a budget leaves a balanced table."""
        cells = []
        for replicate in range(self.replicates):
            for levels in product(*self.factors.values()):
                named = dict(zip(self.factors, levels, strict=True))
                contents = {name: level.content for name, level in named.items()}
                key = content_key({"context": self.context_key, "levels": contents, "replicate": replicate})
                cells.append(AnswerCell(named, replicate, key))
        return cells

    @property
    def parameters(self) -> dict[str, str]:
        """What the parent logs: nothing of the rows but their number."""
        listed = {name: [level.name for level in levels] for name, levels in self.factors.items()}
        for name in ("scorers", JUDGE):
            listed[name] = [each.judge for each in self.judgings if each.is_judge == (name == JUDGE)]
        texts = {name: ", ".join(dict.fromkeys(values)) for name, values in listed.items() if values}
        return {"predict_fn": self.app_name, "rows": str(len(self.rows)), **texts, REPLICATE: str(self.replicates)}


def specify(
    client: Client, app: Callable[..., Any], data: Any, scorers: Any, factors: Mapping[str, Any], version: str
) -> GenaiRequest:
    """Return the request of a call.

    Raises
    ------
    ParameterError
        If something of it is not allowed, or a factor cannot reach the app.
    """
    if not callable(app):
        raise ParameterError("predict_fn", type(app).__name__, "must be a function that answers a row")
    rows = read_rows(data)
    of_app = {name: value for name, value in factors.items() if name not in (JUDGE, REPLICATE, JUDGEMENT)}
    levels = {name: _levels(client, f"factors={name}", name, value) for name, value in of_app.items()}
    judges, times = factors.get(JUDGE, []), _count(factors, JUDGEMENT)
    if times > 1 and not judges:
        raise ParameterError(f"factors={JUDGEMENT}", times, f'needs "{JUDGE}" among the factors')
    expected = {row["tags"][names.ROW]: row.get("expectations") for row in rows}
    read = partial(_scorers, version=version, expected=expected)
    judgings = _judgings(read("scorers", scorers), read(f"factors={JUDGE}", judges), times)
    inputs = {f"{row['tags'][names.ROW]} {row['tags'][names.REPEAT]}": row["inputs"] for row in rows}
    return GenaiRequest(
        app,
        rows,
        levels,
        tuple(name for name, each in levels.items() if _is_passed(app, name, each, rows)),
        _count(factors, REPLICATE),
        judgings,
        content_key({"app": code_content("predict_fn", app, version), "inputs": inputs}),
    )


def _listed(parameter: str, value: Any) -> list[Any]:
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__") or hasattr(value, "run"):
        raise ParameterError(parameter, getattr(value, "name", value), "must be a list")
    return list(value)


def _check_unique(parameter: str, texts: Sequence[Any], fix: str = "Leave one out.") -> None:
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise ParameterError(parameter, twice[0], "is named twice", fix)


def _count(factors: Mapping[str, Any], name: str) -> int:
    """Return how many of each there are: 1 if the factors do not say."""
    return Whole(1).number(f"factors={name}", str(factors.get(name, 1)))


def _levels(client: Client, parameter: str, name: str, value: Any) -> tuple[Level, ...]:
    """Return the levels of a factor of the app; prompts by their URI, all versions of one or those of an alias."""
    if not name.isidentifier() or name in _OF_TABLE:
        fix = f"Rename it; {', '.join(_OF_TABLE)} are columns of the table."
        raise ParameterError(parameter, name, "must be the name of a parameter of predict_fn", fix)
    levels = []
    for each in _listed(parameter, value):
        uri = str(getattr(each, "uri", each))
        if uri.startswith("prompts:/"):
            for prompt in _prompts_named(client, parameter, uri):
                title = f"{prompt.name}/{prompt.version}"  # with all of it that may change an answer
                parts = {part: getattr(prompt, part) for part in ("template", "model_config", "response_format")}
                levels.append(Level(title, prompt, {"prompt": title, **parts}, is_prompt=True))
        elif isinstance(each, str | int | float | bool):
            levels.append(Level(str(each), each, each))
        else:
            allowed = "must be texts, numbers, or prompts by their URI prompts:/NAME/VERSION"
            raise ParameterError(parameter, type(each).__name__, allowed)
    if not levels:
        raise ParameterError(parameter, "[]", "has no levels")
    _check_unique(parameter, [level.name for level in levels])
    _check_unique(parameter, [each.name if each.is_prompt else each.value for each in levels])  # 1, 1.0, True are equal
    return tuple(levels)


def _prompts_named(client: Client, parameter: str, uri: str) -> list[Any]:
    """Return the prompts of a URI, with the version that an alias has now; of ``prompts:/qa`` or ``qa@*`` all versions.

    Raises
    ------
    ParameterError
        If the registry has none.
    """
    name, _, which = uri.removeprefix("prompts:/").replace("@*", "").partition("@" if "@" in uri else "/")
    load = partial(client.load_prompt, cache_ttl_seconds=0)  # MLflow 3.14 keeps those of another registry, too
    every = [] if which else found(partial(client.search_prompt_versions, max_results=1000), name) or []
    prompts = [found(load, f"prompts:/{name}/{each}") for each in sorted(each.version for each in every)]
    prompts = prompts or [found(load, uri)]
    if any(prompt is None for prompt in prompts):
        fix = "Use prompts:/NAME/VERSION, prompts:/NAME@ALIAS, or prompts:/NAME for all versions."
        raise ParameterError(parameter, uri, "is not in the prompt registry", fix)
    return prompts


def _is_passed(app: Callable[..., Any], name: str, levels: Sequence[Level], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a factor is an argument of the app; prompts may also be loaded by it from the registry."""
    if any(name in row["inputs"] for row in rows):
        raise ParameterError("factors", name, "is also among the inputs of the data", "Rename one of them.")
    is_prompt = all(level.is_prompt for level in levels)
    parameters = signature(app).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    is_passed = name in parameters or (takes_any and not is_prompt)
    if not is_passed and not is_prompt:
        fix = f"Give it one: def {getattr(app, '__name__', 'predict_fn')}(..., {name})."
        raise ParameterError("factors", name, "cannot reach predict_fn, which has no such parameter", fix)
    return is_passed


def _scorers(parameter: str, scorers: Any, version: str, expected: Mapping[str, Any]) -> Scorers:
    """Return scorers with their contents, none of which MLflow can refuse, or cannot log by its name."""
    for scorer in (listed := _listed(parameter, scorers)):
        if not hasattr(scorer, "name") or not hasattr(scorer, "run"):
            name = getattr(scorer, "__name__", type(scorer).__name__)
            raise ParameterError(parameter, name, "is not a scorer of MLflow", "Decorate it: @mlflow.genai.scorer.")
        if getattr(scorer, "is_session_level_scorer", False):
            raise ParameterError(parameter, scorer.name, "judges sessions", "Use a scorer of single answers.")
        if names.accepted(scorer.name) != scorer.name:
            wrong = "cannot name a metric: MLflow would fail after all the work"
            fix = f'Rename it: @scorer(name="{re.sub(r"[^A-Za-z0-9]", "_", scorer.name)}").'
            raise ParameterError(parameter, scorer.name, wrong, fix)
    return [(scorer, scorer_content(parameter, scorer, version, expected)) for scorer in listed]


def _judgings(scorers: Scorers, judges: Scorers, times: int) -> tuple[Judging, ...]:
    """Return scorers that each rate something of their own, and judges of one thing.

    Judges are known by their names, or by numbers and models if names are alike.
    """
    if not scorers and not judges:
        raise ParameterError("scorers", "[]", "nobody judges the answers", f'Or add "{JUDGE}" to the factors.')
    fix = f'Rename one, or give both as "{JUDGE}" among the factors.'
    _check_unique("scorers", [scorer.name for scorer, _ in scorers], fix)
    judgings = [Judging(scorer, scorer.name, scorer.name, content) for scorer, content in scorers]
    labels = [str(judge.name) for judge, _ in judges]
    if len({content_key(content) for _, content in judges}) < len(judges):
        fix = f'To let it judge twice, add "{JUDGEMENT}": 2.'
        raise ParameterError(f"factors={JUDGE}", labels[0], "is named twice", fix)
    rates = labels[0] if len({*labels}) == 1 else JUDGE
    if len({*labels}) < len(labels):
        labels = [f"{number} {getattr(judge, 'model', judge.name)}" for number, (judge, _) in enumerate(judges, 1)]
    for label, (judge, content) in zip(labels, judges, strict=True):
        judgings += [Judging(judge, rates, label, content, number, is_judge=True) for number in range(times)]
    return tuple(judgings)

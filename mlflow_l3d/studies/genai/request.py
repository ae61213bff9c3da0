"""What is asked for: factors and their levels, cells in which the app answers, and who judges the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.budget import Budget
from mlflow_l3d.studies.genai.contents import code_content, read_rows, scorer_content, takes
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.evaluating import prompt_content, prompts_named

JUDGE, REPLICATE, JUDGEMENT, PROMPT = "judge", "replicate", "judgement", "prompt"
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
    """Who judges: a scorer object, what it rates, its name, its content, how often, and if it is one of the judges."""

    scorer: Any
    rates: str
    judge: str
    content: Mapping[str, Any]
    times: int = 1
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
    def params(self) -> dict[str, str]:
        """What its run logs as parameters."""
        return {**self.labels, REPLICATE: str(self.replicate)}

    @property
    def name(self) -> str:
        """Name of its run."""
        return " ".join(["answers", *self.labels.values(), f"replicate {self.replicate}"])


@dataclass(frozen=True, kw_only=True)
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
    budget, workers
        The most that is asked, and how many threads ask.
    context_key
        Hash of the app and the rows: cells of one context differ in the levels of factors.
    """

    app: Callable[..., Any]
    rows: Sequence[Mapping[str, Any]]
    factors: Mapping[str, tuple[Level, ...]]
    passed: tuple[str, ...]
    replicates: int
    judgings: tuple[Judging, ...]
    budget: Budget
    workers: int | None
    context_key: str

    @property
    def app_name(self) -> str:
        """Name of the app."""
        return str(getattr(self.app, "__name__", type(self.app).__name__))

    @property
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
    def key(self) -> str:
        """Hash of all that is asked for, but for budget and workers."""
        judges = [{"content": each.content, "times": each.times, "judge": each.judge} for each in self.judgings]
        return content_key({"cells": [cell.key for cell in self.cells], "judges": judges})

    @property
    def parameters(self) -> dict[str, str]:
        """What the parent logs: nothing of the rows but their number."""
        levels = {name: ", ".join(level.name for level in levels) for name, levels in self.factors.items()}
        scorers = ", ".join(dict.fromkeys(each.rates for each in self.judgings))
        judges = ", ".join(each.judge for each in self.judgings if each.is_judge)
        more = {
            "predict_fn": self.app_name,
            "rows": str(len(self.rows)),
            "scorers": scorers,
            **({JUDGE: judges} if judges else {}),
        }
        return {**more, **levels, REPLICATE: str(self.replicates), "budget": str(self.budget)}


def specify(
    client: Client,
    predict_fn: Callable[..., Any],
    data: Any,
    scorers: Sequence[Any],
    factors: Mapping[str, Any],
    *,
    budget: Any,
    workers: int | None,
    version: str,
) -> GenaiRequest:
    """Return the request of a call.

    Raises
    ------
    ParameterError
        If something of it is not allowed, or a factor cannot reach the app.
    """
    if not callable(predict_fn):
        raise ParameterError("predict_fn", type(predict_fn).__name__, "must be a function that answers a row")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ParameterError("workers", workers, "must be a whole number from 1")
    rows = read_rows(data)
    of_app = {name: value for name, value in factors.items() if name not in (JUDGE, REPLICATE, JUDGEMENT)}
    levels = {name: _levels(client, name, value) for name, value in of_app.items()}
    passed = tuple(name for name, each in levels.items() if _is_passed(predict_fn, name, each, rows))
    judges = _listed(f"factors={JUDGE}", factors.get(JUDGE, ()))
    times = _count(factors, JUDGEMENT)
    if times > 1 and not judges:
        raise ParameterError(f"factors={JUDGEMENT}", times, "needs judges", 'Add "judge": [...] to the factors.')
    own = [
        Judging(each, each.name, each.name, scorer_content("scorers", each, version))
        for each in _scorers("scorers", scorers)
    ]
    judgings = (*own, *_judgings(_scorers(f"factors={JUDGE}", judges), times, version))
    if not judgings:
        raise ParameterError(
            "scorers", "[]", "nobody judges the answers", 'Give scorers, or "judge" among the factors.'
        )
    if twice := [name for name, count in Counter(each.name for each in scorers).items() if count > 1]:
        raise ParameterError(
            "scorers", twice[0], "is the name of two scorers", 'Rename one, or give both as factors={"judge": [...]}.'
        )
    content = {"app": code_content("predict_fn", predict_fn, version), "rows": list(rows)}
    return GenaiRequest(
        app=predict_fn,
        rows=rows,
        factors=levels,
        passed=passed,
        replicates=_count(factors, REPLICATE),
        judgings=judgings,
        budget=Budget.parse("none" if budget is None else budget, requests=True),
        workers=workers,
        context_key=content_key(content),
    )


def _listed(parameter: str, value: Any) -> list[Any]:
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        raise ParameterError(parameter, value, "must be a list of its levels")
    return list(value)


def _count(factors: Mapping[str, Any], name: str) -> int:
    number = factors.get(name, 1)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ParameterError(f"factors={name}", number, "must be a whole number from 1: how many of each")
    return number


def _levels(client: Client, name: str, value: Any) -> tuple[Level, ...]:
    """Return the levels of a factor of the app; prompts by their URI, all versions of one or those of an alias."""
    parameter = f"factors={name}"
    if not name.isidentifier() or name in _OF_TABLE:
        fix = f"Rename it; {', '.join(_OF_TABLE)} are columns of the table."
        raise ParameterError(parameter, name, "must be the name of a parameter of predict_fn", fix)
    levels = []
    for each in _listed(parameter, value):
        text = getattr(each, "uri", each) if hasattr(each, "to_single_brace_format") else each
        if isinstance(text, str) and text.startswith("prompts:/"):
            prompts = prompts_named(client, parameter, text)
            levels += [Level(f"{one.name}/{one.version}", one, prompt_content(one), is_prompt=True) for one in prompts]
        elif isinstance(each, str | int | float | bool):
            levels.append(Level(str(each), each, each))
        else:
            raise ParameterError(
                parameter, type(each).__name__, "must be texts, numbers, or prompts by their URI prompts:/NAME/VERSION"
            )
    if not levels or (twice := [one for one, count in Counter(level.name for level in levels).items() if count > 1]):
        raise ParameterError(parameter, twice[0] if levels else "[]", "is named twice" if levels else "has no levels")
    return tuple(levels)


def _is_passed(app: Callable[..., Any], name: str, levels: Sequence[Level], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a factor is an argument of the app; prompts may also be loaded by it from the registry."""
    if any(name in row["inputs"] for row in rows):
        raise ParameterError(f"factors={name}", name, "is also among the inputs of the data", "Rename one of them.")
    is_prompt = all(level.is_prompt for level in levels)
    if takes(app, name, named=is_prompt):
        return True
    if not is_prompt:
        called = getattr(app, "__name__", type(app).__name__)
        fix = f"Give it one: def {called}(..., {name})."
        raise ParameterError(f"factors={name}", name, f"cannot reach {called}, which has no parameter {name}", fix)
    return False


def _scorers(parameter: str, scorers: Sequence[Any]) -> list[Any]:
    """Return scorers that MLflow will be able to log."""
    for each in (scorers := _listed(parameter, scorers)):
        if not hasattr(each, "name") or not hasattr(each, "run"):
            fix = "Decorate it: @mlflow.genai.scorer."
            raise ParameterError(
                parameter, getattr(each, "__name__", type(each).__name__), "is not a scorer of MLflow", fix
            )
        if names.accepted(each.name) != each.name:
            clean = "".join(letter if letter.isalnum() else "_" for letter in each.name)
            fix = f'Rename it: @scorer(name="{clean}").'
            raise ParameterError(
                parameter, each.name, "cannot be the name of a metric, and MLflow fails after all the work", fix
            )
        if getattr(each, "is_session_level_scorer", False):
            raise ParameterError(
                parameter, each.name, "judges whole sessions; only scorers of single answers are possible"
            )
    return scorers


def _judgings(judges: Sequence[Any], times: int, version: str) -> list[Judging]:
    """Return the judges of one thing: with their names, or models or numbers if names are alike."""
    alike = {each.name for each in judges}
    rates = judges[0].name if len(alike) == 1 else JUDGE
    labels = [
        each.name if len(alike) == len(judges) else str(getattr(each, "model", "") or each.name) for each in judges
    ]
    if len({*labels}) < len(judges):
        labels = [f"{label} {number}" for number, label in enumerate(labels, 1)]
    contents = [scorer_content(f"factors={JUDGE}", each, version) for each in judges]
    if len({content_key(content) for content in contents}) < len(judges):
        fix = 'To let one judge several times, add "judgement": 2.'
        raise ParameterError(f"factors={JUDGE}", judges[0].name, "is named twice", fix)
    return [
        Judging(*each, times, is_judge=True)
        for each in zip(judges, [rates] * len(judges), labels, contents, strict=True)
    ]

"""The points of a sweep: ordinary investigations, in what they differ, and which of them share configurations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.results import Analysis

Choice = str | float
"""A value that a systematic choice has at a point."""
TASK = "task"
FACTOR = "factor"


@dataclass(frozen=True, slots=True)
class SweptPoint:
    """One point of a sweep.

    Attributes
    ----------
    run_id
        The parent run of its investigation; the empty text if there is none.
    choices
        Systematic choice -> its value here, of what differs between points (``model``, ``shots``, ...).
    task
        Name of the task, also where all points share it.
    analysis
        That of its investigation; None if it has none.
    error
        Why it has none, in one line.
    """

    run_id: str
    choices: Mapping[str, Choice]
    task: str
    analysis: Analysis | None
    error: str = ""

    @property
    def name(self) -> str:
        """Its choices in a few words, as in ``shots=4, prompt_format=B``."""
        return point_name(self.choices, self.task)

    @property
    def complete(self) -> bool:
        """Whether it has an analysis with a factor."""
        return self.analysis is not None and bool(self.analysis.importances)


def point_name(choices: Mapping[str, Choice], task: str) -> str:
    """Return choices in a few words, as in ``shots=4, prompt_format=B``; the task if there is nothing to choose."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in choices.items()) or task


def value_text(value: Choice) -> str:
    """Return a value of a choice as people write it."""
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)


def without_votes(analysis: Analysis) -> Analysis:
    """Return an analysis without the votes on single examples, which a sweep of many points has no use for."""
    votes = analysis.examples
    return replace(analysis, examples=votes and replace(votes, frame=votes.frame.head(0)))


def choices_of(points: Sequence[SweptPoint]) -> dict[str, tuple[Choice, ...]]:
    """Return choice -> its values over points that differ in it: numbers by size, texts in the order of points.

    Tasks that differ are a choice, also where points do not name it; investigated factors are none.
    """
    by_point = [_choices(point) for point in points]
    names = dict.fromkeys(name for each in by_point for name in each if name != FACTOR)
    choices = {name: tuple(dict.fromkeys(each[name] for each in by_point if name in each)) for name in names}
    return {
        name: tuple(sorted(values, key=float)) if is_numeric(values) else values
        for name, values in choices.items()
        if len(values) > 1 or any(name not in each for each in by_point)
    }


def value_of(point: SweptPoint, choice: str) -> Choice | None:
    """Return the value of a choice at a point; None if it has none."""
    return _choices(point).get(choice)


def is_numeric(values: Sequence[Choice]) -> bool:
    """Return whether all values of a choice are finite numbers, so that it has a trend."""
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)


def _choices(point: SweptPoint) -> dict[str, Choice]:
    return {TASK: point.task, **{name: _number(value) for name, value in point.choices.items()}}


def _number(value: Choice) -> Choice:
    """Return a text of digits as the number that it is: parameters of runs are texts."""
    if not isinstance(value, str | bool):
        return value
    with suppress(ValueError):
        if math.isfinite(number := float(str(value))):
            return number
    return str(value)


Indices = npt.NDArray[np.int64]
_SAME_CONFIGURATIONS = ("task", "root_seed", "num_labelled", "design")
"""Points that differ in one of these do not share configurations."""


def clusters_of(points: Sequence[SweptPoint], choices: Mapping[str, Sequence[Choice]]) -> list[object]:
    """Return for each point what is equal for two points that share configurations."""
    named = [name for name in _SAME_CONFIGURATIONS if name in choices and name != TASK]
    return [(point.task, *(value_of(point, name) for name in named)) for point in points]


def blocks_of(points: Sequence[SweptPoint], choices: Mapping[str, Sequence[Choice]], choice: str) -> list[object]:
    """Return for each point what is equal for two points that are alike in all other choices.

    A choice that says nothing beyond this one, or beyond which this one says nothing (the number of classes of a task),
    is none of the others.
    """
    follows = {name for name in choices if _follows(points, name, choice) or _follows(points, choice, name)}
    others = [name for name in choices if name not in {*follows, choice}]
    return [tuple(value_of(point, name) for name in others) for point in points]


def groups(labels: Sequence[object]) -> list[Indices]:
    """Return the places of equal labels, in the order in which these first occur."""
    found: dict[object, list[int]] = {}
    for at, label in enumerate(labels):
        found.setdefault(label, []).append(at)
    return [np.array(each, dtype=np.int64) for each in found.values()]


def following(points: Sequence[SweptPoint], choices: Mapping[str, Sequence[Choice]]) -> dict[str, str]:
    """Return choice -> another from which it follows, as hyperparameters that are set for some tasks do from the task.

    Of two that follow from each other the later one does. The task follows from nothing, and from what has another
    value at every point nothing does, the task excepted.
    """
    followed: dict[str, str] = {}
    for at, name in enumerate(choices):
        for place, other in enumerate(choices):
            if name in (other, TASK) or (other != TASK and len(choices[other]) >= len(points)):
                continue
            if _follows(points, name, other) and (place < at or not _follows(points, other, name)):
                followed.setdefault(name, other)
    return followed


def changes_nothing(points: Sequence[SweptPoint], choices: Mapping[str, Sequence[Choice]], choice: str) -> bool:
    """Return whether points that are alike in all other choices have the same scores under all values of this one."""
    scored = [point for point in points if point.complete]
    blocks = [block for block in groups(blocks_of(scored, choices, choice)) if len(block) > 1]
    return bool(blocks) and all(len({_scores(scored[at]) for at in block}) == 1 for block in blocks)


def _scores(point: SweptPoint) -> bytes:
    assert point.analysis is not None
    records = point.analysis.importances.items()
    return b"".join(name.encode() + each.table.tobytes() + each.golden.tobytes() for name, each in records)


def _follows(points: Sequence[SweptPoint], one: str, other: str) -> bool:
    """Return whether points that are alike in `other` are alike in `one`."""
    pairs = {(value_of(point, other), value_of(point, one)) for point in points}
    return len({value for value, _ in pairs}) == len(pairs)

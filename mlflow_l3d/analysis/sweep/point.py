"""One point of a sweep: an ordinary investigation, and in what it differs from the other points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        The parent run of its investigation; the empty text where there is none.
    choices
        Systematic choice -> its value here, of what differs between points (``model``, ``shots``, ...).
    task
        Name of the task, also where all points share it.
    analysis
        That of its investigation; None where it has none.
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
        return ", ".join(f"{name}={value_text(value)}" for name, value in self.choices.items()) or self.task

    @property
    def complete(self) -> bool:
        """Whether it has an analysis with a factor."""
        return self.analysis is not None and bool(self.analysis.importances)


def value_text(value: Choice) -> str:
    """Return a value of a choice as people write it."""
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)


def choices_of(points: Sequence[SweptPoint]) -> dict[str, tuple[Choice, ...]]:
    """Return choice -> its values over points that differ in it: numbers by size, texts in the order of points.

    Tasks that differ are a choice, also where points do not name it; investigated factors are none.
    """
    given = [_choices(point) for point in points]
    names = dict.fromkeys(name for each in given for name in each if name != FACTOR)
    found = {name: tuple(dict.fromkeys(each[name] for each in given if name in each)) for name in names}
    return {
        name: tuple(sorted(values, key=float)) if is_numeric(values) else values
        for name, values in found.items()
        if len(values) > 1 or any(name not in each for each in given)
    }


def value_of(point: SweptPoint, choice: str) -> Choice | None:
    """Return the value of a choice at a point; None where it has none."""
    return _choices(point).get(choice)


def is_numeric(values: Sequence[Choice]) -> bool:
    """Return whether all values of a choice are finite numbers, so that it has a trend."""
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)


def _choices(point: SweptPoint) -> dict[str, Choice]:
    return {TASK: point.task, **{name: _number(value) for name, value in point.choices.items()}}


def _number(value: Choice) -> Choice:
    """Return a text of digits as the number that it is: parameters of runs are texts."""
    if isinstance(value, bool) or not isinstance(value, str):
        return str(value) if isinstance(value, bool) else value
    try:
        number = float(value)
    except ValueError:
        return value
    return number if math.isfinite(number) else value

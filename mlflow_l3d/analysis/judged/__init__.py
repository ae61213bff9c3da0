"""Judged answers of an application: which luck a score has, whether judges agree, and whether a difference is real.

Here are the records that the analysis returns, and what one more of each source of variance gains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.comparison.results import UNDECIDED, decide
from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.analysis.judged.moments import JOINED

_OF_ANSWER: Final = ("judge", "judgement")
"""Parts of a design that need no further answers."""


@dataclass(frozen=True)
class Components:
    """Variances of one scorer's judgements, in the squared unit of its values.

    Attributes
    ----------
    frame
        One line per source of luck that varies, rows first: ``source``; ``variance``, unbiased, below 0 by
        chance if the true one is small, of values of 0 and 1 cut at 0.25; ``std`` and ``share`` of the sum, which take
        a variance below 0 as 0; ``low`` and ``high``, the interval of the variance; ``levels``, how many were seen;
        ``note``. Sources that the data cannot separate are one line, joined by " + ".
    mean, mean_low, mean_high
        Mean over rows, each counted alike, and its interval for these judges, prompts and models: rows, answers and
        judgements are random.
    mean_std
        Standard error of the mean if rows, answers, judges, prompts and models were all drawn again.
    rows, answers, judgements
        Those that count.
    design
        Numbers that :func:`gain` changes: ``row``, ``repeat``, ``judge``,
        ``judgement`` and each further factor -> how many (of repeats and judgements: on average).
    weights
        Source -> what a unit of its variance adds to the variance of the mean.
    notes
        What a reader must know.
    """

    frame: pd.DataFrame
    mean: float
    mean_low: float
    mean_high: float
    mean_std: float
    rows: int
    answers: int
    judgements: int
    design: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def gain(found: Components) -> pd.DataFrame:
    """Return the standard error of the mean: now, and with one more of each.

    Parameters
    ----------
    found
        Variance components of the evaluation so far.

    Returns
    -------
    pandas.DataFrame
        ``design`` ("now", "one more row", ...), the numbers of the design (``row, repeat,
        judge, judgement`` and each factor), ``answers``, ``judgements``, ``mean_std`` (see :class:`Components`) and
        ``gain``, the part of today's ``mean_std`` that is saved. Luck that cannot be separated counts as its coarsest
        part, so a gain is never promised that more repeats or judges may not bring.

    Examples
    --------
    >>> from mlflow_l3d.analysis.judged.components import components
    >>> lines = [(row, f"{row}-{number}", row % 2) for row in range(8) for number in range(2)]
    >>> frame = pd.DataFrame(lines, columns=["row", "answer", "value"]).assign(judge="exact match")
    >>> gain(components(frame)).set_index("design")["gain"].round(3)[["one more row", "one more repeat"]].tolist()
    [0.057, 0.0]
    """
    now = dict(found.design)
    designs = {"now": now, **{f"one more {name}": {**now, name: size + 1} for name, size in now.items()}}
    frame = pd.DataFrame([_line(name, found, design) for name, design in designs.items()])
    today = frame["mean_std"][0]
    return frame.assign(gain=1 - frame["mean_std"] / today if today != 0 else 0.0)


def _line(name: str, found: Components, design: Mapping[str, float]) -> dict[str, Any]:
    answers = math.prod(size for part, size in design.items() if part not in _OF_ANSWER)
    variance = 0.0
    for source, own in zip(found.frame["source"], found.frame["variance"], strict=True):
        shrinks = math.prod((found.design[part] or 1) / (design[part] or 1) for part in _averages(source, design))
        variance += max(0.0, own) * found.weights[source] * shrinks
    sizes = {"answers": round(answers), "judgements": round(answers * design["judge"] * design["judgement"])}
    return {"design": name, **design, **sizes, "mean_std": math.sqrt(variance)}


def _averages(source: str, design: Mapping[str, float]) -> set[str]:
    """Return the parts of a design whose number divides the variance of a source in the mean."""
    of_answer = {name for name in design if name not in _OF_ANSWER}
    divisors = {"answer": of_answer, "answer x judge": of_answer | {"judge"}, "judgement": {*design}}
    return set.intersection(*(divisors.get(part, set(part.split(" x "))) for part in source.split(JOINED)))


@dataclass(frozen=True)
class JudgedDifference:
    """Two systems by one scorer: the first less the second, in the unit of its values.

    Attributes
    ----------
    first_mean, second_mean
        Means over the paired rows.
    difference, low, high, p
        Mean over the paired rows, its interval, and the two-sided p-value of "no difference": rows and answers are
        random; judges and prompts that both sides have are kept.
    p_adjusted, joint_low, joint_high
        For all comparisons together; the same as `p`, `low` and `high` if there is one.
    largest
        The largest difference that there can be: 1 between shares, else inf.
    smallest_effect
        Differences up to this count for nothing; nan if none was named.
    obstacle
        Why nothing can be decided whatever the numbers are; else empty.
    error, degrees
        Standard error of the difference and its degrees of freedom.
    rows, ties, unpaired_first, unpaired_second
        Rows of both, how many of these are equal on both sides, and rows of one side only.
    repeats_first, repeats_second
        Answers per row (and prompt), on average.
    rows_needed
        Power -> rows that settle the sign of the difference found (of the smallest effect, if there is one), with
        as many answers per row; inf if no number does.
    needed
        One line per number of answers per row: ``repeats, rows, answers`` (of both sides) at a power of 80 %.
    level
        Of interval and claims.
    higher_is_better
        Whether a larger value is better.
    notes
        What a reader must know.
    """

    first_mean: float
    second_mean: float
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    joint_low: float
    joint_high: float
    largest: float
    smallest_effect: float
    obstacle: str
    error: float
    degrees: float
    rows: int
    ties: int
    unpaired_first: int
    unpaired_second: int
    repeats_first: float
    repeats_second: float
    rows_needed: Mapping[float, float]
    needed: pd.DataFrame
    level: float = LEVEL
    higher_is_better: bool = True
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Of the first: ``better`` or ``worse`` by the adjusted p-value, ``equivalent``, or ``undecided``."""
        if self.obstacle:
            return UNDECIDED
        gain = self.difference if self.higher_is_better else -self.difference
        return decide(gain, self.p_adjusted, (self.joint_low, self.joint_high), self.smallest_effect, self.level)

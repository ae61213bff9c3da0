"""The pairs of a comparison as its report names them: which one leads, its numbers as texts, what would settle it."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Final, NamedTuple

from mlflow_l3d.analysis.comparison.results import UNDECIDED, Comparison, Difference, Rank, TaskMean
from mlflow_l3d.report.numbers import shorten_all, unit_of
from mlflow_l3d.report.text import Answer, advice, advise

SHARED: Final = "train both with the same root_seed and factors"
"""What makes the runs of two systems share their configurations."""


class Lead(NamedTuple):
    """A pair from the side of the one with the better mean.

    Attributes
    ----------
    ahead, other
        The names, shortened.
    gain, low, high
        By how much it is better, with its interval, see :func:`limits`.
    pair
        The record.
    turned
        Whether the one ahead is the second of the record.
    """

    ahead: str
    other: str
    gain: float
    low: float
    high: float
    pair: Difference | TaskMean
    turned: bool


def judged(comparison: Comparison) -> Sequence[Difference | TaskMean]:
    """Return the pairs with a verdict each: over tasks, if there are several."""
    return comparison.over_tasks or comparison.differences


def limits(pair: Difference | TaskMean) -> tuple[float, float, float]:
    """Return a difference, and its interval: that of all pairs together, over tasks that of the pair."""
    if isinstance(pair, Difference):
        return pair.difference, pair.joint_low, pair.joint_high
    return pair.found.difference, pair.found.low, pair.found.high


def oriented(pair: Difference | TaskMean, turned: bool) -> tuple[str, str, tuple[float, float, float], str]:
    """Return both names, the difference with its interval, and the verdict; of a pair that is turned around, or not."""
    value, low, high = limits(pair)
    if not turned:
        return pair.first, pair.second, (value, low, high), pair.verdict
    verdict = {"better": "worse", "worse": "better"}.get(pair.verdict, pair.verdict)
    return pair.second, pair.first, (-value, -high, -low), verdict


def leading(comparison: Comparison) -> Lead:
    """Return the pair of the best system and the next best."""
    names, sign = short_names(comparison), comparison.metric.sign
    best = {each.system for each in sorted(overall_ranks(comparison), key=lambda each: each.low)[:2]}
    pair = next(pair for pair in judged(comparison) if {pair.first, pair.second} == best)
    turned = sign * limits(pair)[0] < 0
    ahead, other, (value, *ends), _ = oriented(pair, turned)
    low, high = sorted(sign * end for end in ends)
    return Lead(names[ahead], names[other], abs(value), low, high, pair, turned)


def overall_ranks(comparison: Comparison) -> list[Rank]:
    """Return the ranks over all tasks, best mean first."""
    task = "" if len(comparison.tasks) > 1 else comparison.tasks[0]
    return [each for each in comparison.ranks if each.task == task]


def short_names(comparison: Comparison) -> dict[str, str]:
    """Return each system's name as sentences have it: itself, or a letter for each if one is long."""
    if max(map(len, comparison.systems)) <= 24 or len(comparison.systems) > len(ascii_uppercase):
        return shorten_all(comparison.systems, 24)
    return dict(zip(comparison.systems, ascii_uppercase, strict=False))


def size(comparison: Comparison, value: float) -> str:
    """Return a difference, with its unit if the metric is read in per cent."""
    return unit_of(comparison.metric).size(value, change(comparison, value, ""))


def change(comparison: Comparison, value: float, sign: str = "+") -> str:
    """Return a difference with its sign."""
    unit = unit_of(comparison.metric)
    digits = max(unit.digits(each.spread.error) for each in comparison.differences)
    return unit.written(unit.scale * value, digits, sign)


def effect_text(comparison: Comparison) -> str:
    """Return the smallest effect with its unit."""
    unit, effect = unit_of(comparison.metric), comparison.smallest_effect
    return unit.size(effect, f"{unit.scale * effect:g}")


def advice_on(one: Difference) -> Answer:
    """Return what would settle a difference: runs, test examples, or nothing more."""
    there, settled = " and ".join(f"{runs:,}" for runs in dict.fromkeys(one.runs)), one.verdict != UNDECIDED
    needed, more_runs = runs_to_have(one), one.spread.of_runs > one.spread.of_examples
    if not settled and {*one.runs} == {needed}:
        why = f"The {there} runs of each settle it with 80 % probability if all share their configurations: {SHARED}."
        return advice("shared configurations", why)
    return advise(there, needed, one.examples_needed, settled=settled, more_runs=more_runs)


def runs_to_have(one: Difference) -> float:
    """Return how many runs of each settle a difference if all are shared: never fewer than there are; inf if none."""
    return max(one.runs_to_settle, *one.runs)


def direction_sentence(comparison: Comparison) -> str:
    """Return which way differences point."""
    side = "above" if comparison.metric.greater_is_better else "below"
    return f"A difference {side} 0 speaks for the first of a pair."

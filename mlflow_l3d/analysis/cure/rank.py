"""Which remedies are worth their cost: those that no cheaper one beats, and those that help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mlflow_l3d.analysis.cure.remedy import LABELS, Prediction

ENOUGH: Final = 0.95
"""A remedy that leaves a larger part of the standard deviation is not worth its price."""
_MOST: Final = 0.75
"""More members are named only if fewer reach less than this part of what the most members take away."""
NAMED: Final = 3
"""Remedies that a first screen names, at most."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would help.

    Attributes
    ----------
    best
        Remedies that help, best first.
    std
        Standard deviation of the score without any.
    reason
        One line: why none is named, or what they leave; empty if there is nothing to say.
    """

    best: tuple[Prediction, ...] = ()
    std: float = math.nan
    reason: str = ""


def cost(prediction: Prediction) -> float:
    """Return seconds of training behind one result, or trainings if seconds are not known."""
    return prediction.seconds if prediction.seconds > 0 else float(prediction.trainings)


def pareto(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Return the remedies that no other one beats in spread at no more cost, cheapest first."""
    front: list[Prediction] = []
    candidates = [each for each in predictions if each.remedy.kind != "fix" and math.isfinite(each.std.value)]
    for each in sorted(candidates, key=lambda one: (cost(one), one.std.value)):
        if not front or each.std.value < front[-1].std.value:
            front.append(each)
    return front


def simplest(
    predictions: Iterable[Prediction], is_worthy: Callable[[Prediction], bool] = lambda _: True
) -> list[Prediction]:
    """Return one prediction of each kind over the same factors: the fewest members that reach most of its reduction.

    Those of which nothing is known, those that are applied to several results, and those that are not worthy, are left
    out; where no worthy one reaches so much, the one with the least spread is returned.
    """
    groups: dict[object, list[Prediction]] = {}
    for each in predictions:
        remedy = each.remedy
        if math.isfinite(each.std.value) and not each.also:
            changes = tuple(sorted(remedy.changes.items()))
            groups.setdefault((remedy.kind, remedy.over, changes), []).append(each)
    chosen = []
    for group in groups.values():
        group.sort(key=lambda each: each.remedy.members)
        low, high = (pick(each.std.value for each in group) for pick in (min, max))
        if worthy := [each for each in group if is_worthy(each)]:
            least = min(worthy, key=lambda each: each.std.value)
            enough = (each for each in worthy if each.std.value <= high - _MOST * (high - low))
            chosen.append(next(enough, least))
    return chosen


def helps(prediction: Prediction, std: float, sign: float) -> bool:
    """Return whether a remedy leaves less spread and no lower mean; `sign` is -1 if smaller is better.

    The interval of one of both must show it: that of the ratio lies below 1, or the mean certainly rises. The mean
    must not be expected to fall by more than what the spread falls.
    """
    ratio, change = prediction.ratio, prediction.mean_change
    low, high = sorted((sign * change.low, sign * change.high))
    if not (math.isfinite(ratio.high) and prediction.std.value <= ENOUGH * std):
        return False
    return (ratio.high < 1 or low > 0) and high >= 0 and sign * change.value >= prediction.std.value - std


def helping(predictions: Iterable[Prediction], std: float, sign: float) -> list[Prediction]:
    """Return the remedies that help a single result: those that no cheaper one beats, most reduction per cost first.

    Of each kind over the same factors one number of members is named, see :func:`simplest`. Other labels come
    last, whatever it costs to train on them.
    """
    some = simplest(
        predictions, lambda each: each.is_trainable and each.remedy.can_be_trained and helps(each, std, sign)
    )
    more = [each for each in some if each.remedy.kind in LABELS]
    rest = pareto([each for each in some if each not in more])
    return [*sorted(rest, key=lambda each: (each.std.value - each.std_before) / cost(each)), *more]

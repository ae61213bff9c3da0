"""What is worth its cost: doing nothing but report means, fixing a factor, remedies by reduction per cost, pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mlflow_l3d.analysis.cure.remedy import ENSEMBLES, UNKNOWN, Prediction, Range, Remedy


def report_mean(
    golden_std: Range, *, over: Sequence[str], share: Range | float = 1.0, most_members: int = 10
) -> list[Prediction]:
    """Return how much the mean score of 2 to `most_members` runs would vary, instead of one score.

    Parameters
    ----------
    golden_std
        Spread of one run.
    over
        The factors that are redrawn from run to run; all others are shared, so their part stays.
    share
        Share of the variance of one run that redrawing them alone causes (their total Sobol index): 1 of all factors.
    """
    part = share if isinstance(share, Range) else Range(share, share, share)
    reason = "" if part.value >= 1 else "the part of the factors that all runs share stays"
    means = []
    for k in range(2, most_members + 1):
        factor, most, least = (math.sqrt(max(0.0, 1 - min(1.0, each) * (1 - 1 / k))) for each in part)
        # Two independent errors: that of the spread, and that of the share.
        value, span = golden_std.value * factor, []
        for golden_end, end in ((golden_std.low, least), (golden_std.high, most)):
            one = math.log(golden_end / golden_std.value) if golden_end > 0 and golden_std.value > 0 else math.nan
            other = math.log(end / factor) if end > 0 and factor > 0 else math.nan
            span.append(value * math.exp(math.copysign(math.hypot(one, other), one)))
        left = part.value / k / factor**2 if factor > 0 else math.nan
        means.append(
            Prediction(
                remedy=Remedy("report_mean", tuple(over), k),
                basis="exact" if math.isfinite(value) else "unknown",
                std=Range(value, *span),
                mean_change=Range(0.0, 0.0, 0.0),
                shares={"+".join(over): left, "other factors": 1 - left} if part.value < 1 else {"+".join(over): 1.0},
                trainings=k,
                std_before=golden_std.value,
                reason=reason,
            )
        )
    return means


def fixed(factor: str, golden_std: Range, main_share: Range) -> Prediction:
    """Return what spread would be seen if a factor were fixed at one configuration.

    `main_share` is the share of the variance that the factor causes alone, its first Sobol index: from a crossed table.
    If only its total index is known, give that as the upper end and as the value: then interactions count as its own.
    """
    factors = [math.sqrt(max(0.0, 1 - min(1.0, max(0.0, each)))) for each in main_share]
    std = Range(golden_std.value * factors[0], golden_std.low * factors[2], golden_std.high * factors[1])
    return Prediction(
        remedy=Remedy("fix", (factor,)),
        basis="exact" if math.isfinite(std.value) else "unknown",
        std=std,
        std_before=golden_std.value,
        reason="hides luck and cures none: whoever draws another configuration gets another score",
    )


def cost(prediction: Prediction) -> float:
    """Return seconds of training behind one result, or trainings if seconds are not known."""
    return prediction.seconds if prediction.seconds > 0 else float(prediction.trainings)


def reduction(prediction: Prediction) -> float:
    """Return by how much the spread falls; nan if unknown."""
    return prediction.std_before - prediction.std.value


def pareto(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Return the remedies that no other one beats in spread at no more cost, cheapest first."""
    front: list[Prediction] = []
    candidates = [each for each in predictions if each.remedy.kind != "fix" and math.isfinite(each.std.value)]
    for each in sorted(candidates, key=lambda one: (cost(one), one.std.value)):
        if not front or each.std.value < front[-1].std.value:
            front.append(each)
    return front


def pairs(predictions: Sequence[Prediction], *, most_trainings: int = 20) -> list[Prediction]:
    """Return ensembles and, of several results of each, the mean: it varies by the root of their number less."""
    combined = []
    for each in predictions:
        if each.remedy.kind not in ENSEMBLES or not math.isfinite(each.std.value):
            continue
        for results in range(2, most_trainings // each.trainings + 1):
            root = math.sqrt(results)
            combined.append(
                replace(
                    each,
                    also=(Remedy("report_mean", ("all",), results),),
                    std=Range(*(end / root for end in each.std)),
                    consistency=UNKNOWN,
                    row_consistency=UNKNOWN,
                    fragile=UNKNOWN,
                    trainings=each.trainings * results,
                    seconds=each.seconds * results,
                    reason="; ".join(filter(None, (each.reason, "a mean of scores predicts no example"))),
                )
            )
    return combined

"""What a trained remedy shows: the ratio of the spreads, the difference of the means, and the verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlflow_l3d.analysis.cure.remedy import Prediction, Range, Remedy
from mlflow_l3d.studies.cure.numbers.verified import Verified, spread_ratio, verify

NOTHING = Verified(prediction=Prediction(remedy=Remedy("vote", ("a",), 5), basis="exact"), run_id="r", runs=0)


def test_numbers_are_those_of_the_pairs_with_two_scores() -> None:
    random = np.random.default_rng(1)
    plain = 0.6 + 0.05 * random.standard_normal(30)
    cured = 0.65 + 0.4 * (plain - 0.6) + 0.005 * random.standard_normal(30)
    with_gaps = np.append(plain, [math.nan, 0.5]), np.append(cured, [0.5, math.nan])
    verified = verify(NOTHING, *with_gaps)
    assert (verified.runs, verified.failed) == (30, 2)
    assert verified.plain.value == pytest.approx(plain.std())
    assert verified.ratio.value == pytest.approx(cured.std() / plain.std())
    difference = cured - plain
    half = 2.045229642 * difference.std(ddof=1) / math.sqrt(30)
    assert verified.mean_change == pytest.approx(
        (difference.mean(), difference.mean() - half, difference.mean() + half)
    )
    assert verified.verdict(0.01, 1.0) == "better"
    assert verified.verdict(0.01, -1.0) == "worse"  # a larger error, by more than the smallest effect


@pytest.mark.parametrize(
    ("ratio", "change", "verdict"),
    [
        (Range(0.5, 0.3, 0.9), Range(0.0, -0.009, 0.009), "better"),
        (Range(0.5, 0.3, 0.9), Range(-0.01, -0.02, 0.0), "undecided"),
        (Range(0.5, 0.3, 1.1), Range(0.05, 0.04, 0.06), "undecided"),
        (Range(0.5, 0.3, 0.9), Range(-0.03, -0.04, -0.02), "worse"),
        (Range(1.5, 1.1, 1.9), Range(0.05, 0.04, 0.06), "worse"),
        (Range(), Range(), "undecided"),
    ],
)
def test_verdicts(ratio: Range, change: Range, verdict: str) -> None:
    assert (
        Verified(prediction=NOTHING.prediction, run_id="r", runs=9, ratio=ratio, mean_change=change).verdict(0.01, 1.0)
        == verdict
    )


def test_too_few_or_constant_scores_are_undecided() -> None:
    for plain, cured in (([0.5], [0.6]), ([0.5] * 9, [0.5] * 9), ([0.5] * 9, list(np.arange(9) / 10))):
        assert verify(NOTHING, np.array(plain), np.array(cured)).verdict(0.01, 1.0) == "undecided"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "exponential", "t5", "correlated"])
def test_the_interval_of_the_ratio_keeps_its_level_without_normal_scores(kind: str) -> None:
    """The share of intervals from 20 pairs that contain the true ratio, 0.6."""
    random, pairs, times = np.random.default_rng(3), 20, 600
    shapes = {
        "normal": random.standard_normal,
        "exponential": random.standard_exponential,
        "t5": lambda size: random.standard_t(5, size),
        "correlated": random.standard_normal,
    }
    draws = shapes[kind]((2, times, pairs))
    if kind == "correlated":
        draws[1] = 0.8 * draws[0] + 0.6 * draws[1]
    found = [spread_ratio(plain, 0.6 * cured) for plain, cured in zip(*draws, strict=True)]
    covered = np.mean([each.low < 0.6 < each.high for each in found])
    assert 0.90 <= covered <= 0.985

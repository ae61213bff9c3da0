"""Means of runs, fixed factors, ranking, more data and single examples: closed forms and simulations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from mlflow_l3d.analysis.cure import Prediction, Range, Remedy, helping, helps, pareto
from mlflow_l3d.analysis.cure.examples import _NOISE, Point, _fit, more_labels, more_tests, which_examples
from mlflow_l3d.analysis.cure.predict import fixed, pairs, report_mean
from mlflow_l3d.metrics.known import named

GOLDEN = Range(0.05, 0.04, 0.0625)


def remedy(std: float, members: int, *, kind: str = "vote", seconds: float = math.nan, change: Range | None = None):
    return Prediction(
        remedy=Remedy(kind, ("a",), members),  # type: ignore[arg-type]
        basis="exact",
        std=Range(std, std / 2, std * 2),
        mean_change=change or Range(0.0, -0.1, 0.1),
        trainings=members,
        seconds=seconds,
        std_before=0.05,
    )


def test_a_mean_of_four_runs_varies_half_as_much() -> None:
    four = report_mean(GOLDEN, over=("a", "b"))[2]
    assert four.std == pytest.approx((0.025, 0.02, 0.03125))
    assert (four.trainings, four.shares, four.ratio) == (4, {"a+b": 1.0}, (0.5, 0.5, 0.5))


def test_a_fixed_factor_hides_its_own_part() -> None:
    found = fixed("a", GOLDEN, Range(0.36, 0.2, 0.5))
    assert found.std == pytest.approx((0.04, 0.04 * math.sqrt(0.5), 0.0625 * math.sqrt(0.8)))
    assert "hides luck" in found.reason
    assert fixed("a", GOLDEN, Range(0.36)).std == pytest.approx((0.04, math.nan, math.nan), nan_ok=True)
    assert fixed("a", GOLDEN, Range(math.nan, 0.0, math.nan)).basis == "unknown"
    assert pareto([found]) == []


def test_a_front_has_what_nothing_cheaper_beats() -> None:
    two, five, worse = remedy(0.045, 2), remedy(0.03, 5), remedy(0.046, 3)
    assert pareto([five, worse, two, remedy(math.nan, 2)]) == [two, five]


def test_the_fewest_members_that_are_established_are_named() -> None:
    def vote(members: int, std: float, high: float) -> Prediction:
        return replace(remedy(std, members), ratio=Range(std / 0.05, 0.5, high))

    three, five, seven = vote(3, 0.032, 1.1), vote(5, 0.031, 0.9), vote(7, 0.030, 0.9)
    two = vote(2, 0.049, 1.2)
    assert helping([seven, two, five, three], 0.05, 1.0) == [five]
    assert helping([replace(seven, std=Range(0.045, 0.04, 0.05)), two, three], 0.05, 1.0) != [three]
    assert helping([two, three], 0.05, 1.0) == []


@pytest.mark.parametrize(
    ("ratio", "change", "expected"),
    [
        ((0.8, 0.7, 0.9), (0.0, -0.1, 0.1), True),
        ((0.8, 0.6, 1.1), (0.0, -0.1, 0.1), False),  # less spread is not established
        ((0.8, math.nan, math.nan), (0.3, 0.2, 0.4), False),  # and without an interval nothing is
        ((0.8, 0.6, 1.1), (0.05, 0.02, 0.08), True),  # but the mean rises
        ((0.8, 0.7, 0.9), (-0.05, -0.101, 0.001), False),  # the mean loses more than the spread
        ((0.8, 0.7, 0.9), (-0.005, -0.006, -0.004), False),
        ((0.97, 0.96, 0.98), (0.0, -0.1, 0.1), False),  # not worth its price
    ],
)
def test_only_what_intervals_establish_helps(ratio: tuple[float, ...], change: tuple[float, ...], *, expected: bool):
    for sign in (1.0, -1.0):
        ends = Range(*(sign * change[at] for at in ((0, 1, 2) if sign > 0 else (0, 2, 1))))
        found = replace(remedy(0.05 * ratio[0], 3, change=ends), ratio=Range(*ratio))
        assert helps(found, 0.05, sign) == expected


def test_pairs_are_means_of_ensembles() -> None:
    votes = replace(remedy(0.03, 5), ratio=Range(0.6, 0.3, 1.2))
    found = pairs([votes, remedy(0.01, 2, kind="choose")])
    assert [each.trainings for each in found] == [10, 15, 20]
    assert found[2].std.value == pytest.approx(0.015)
    assert found[2].ratio.value == pytest.approx(found[2].std.value / found[2].std_before)
    assert found[0].also == (Remedy("report_mean", ("all",), 2),)


HEADS = [(30, 0.0508, 0.194), (60, 0.0648, 0.291), (120, 0.0611, 0.414)]


def test_more_data_follows_the_line_through_two_sizes() -> None:
    points = [
        Point(n, Range(s := 0.3 * n**-0.5, s * 0.9, s / 0.9), Range(m := 0.5 + 0.02 * math.log(n), m - 0.01, m + 0.01))
        for n in (100, 200, 400)
    ]
    found = more_labels(points[:2], now=200, size=400, unknown="")
    assert math.isnan(found.std.value)  # two sizes show no bend: a range alone
    assert math.isnan(found.mean_change.value)
    # An error here counts twice, as the line turns about the other size; the spread falls at most as the size grows.
    error = 0.9 ** math.sqrt(5)
    assert found.std[1:] == pytest.approx((points[1].std.value / 2 * error, 0.3 / math.sqrt(400) / error))
    half = 0.01 * math.sqrt(2)
    assert found.mean_change[1:] == pytest.approx((-half, 0.04 * math.log(2) + half))  # level, or in proportion to size
    # A size that is further away tells nothing more, and one that was measured is no extrapolation.
    further = more_labels([points[0]._replace(size=25), *points[:2]], now=200, size=400, unknown="")
    assert repr(further) == repr(found)  # since Python 3.13 two with a nan are never equal
    known = more_labels(points, now=200, size=400, unknown="")
    assert known.std == pytest.approx(points[2].std)
    assert known.mean_change.high == pytest.approx(0.02 * math.log(2) + half)
    alone = more_labels(points[:1], now=100, size=200, unknown="one size")
    assert (alone.basis, alone.reason) == ("unknown", "one size")
    assert math.isnan(alone.std.value)


def test_runs_that_begin_to_learn_bend_the_line() -> None:
    # Heads on trec with 30, 60 and 120 labels, 200 golden runs each: the spread first grows.
    heads = [Point(size, Range(s, 0.9 * s, 1.1 * s), Range(m, m - 0.01, m + 0.01)) for size, s, m in HEADS]
    bend = more_labels(heads[:2], now=60, size=120, unknown="")
    assert bend.std.low < HEADS[2][1] < bend.std.high
    assert bend.mean_change.low < HEADS[1][2] - HEADS[0][2] < HEADS[2][2] - HEADS[1][2] < bend.mean_change.high
    # One run in 50 learns at 30 labels, one in 13 at 60, one in 4 at 120: 40 points more in each.
    shares = [1 / 50, 4 / 50, 13 / 50]
    few = [
        Point(size, Range(s := 0.4 * math.sqrt(q * (1 - q)), 0.9 * s, 1.1 * s), Range(0.4 * q, 0.4 * q, 0.4 * q))
        for size, q in zip((30, 60, 120), shares, strict=True)
    ]
    found = more_labels(few[:2], now=60, size=120, unknown="").mean_change
    growth = few[1].std.value ** 2 / few[0].std.value ** 2
    assert found.high == pytest.approx(0.4 * (shares[1] - shares[0]) * growth)  # the mean grows as the variance does
    assert 2 * 0.4 * (shares[1] - shares[0]) < 0.4 * (shares[2] - shares[1]) < found.high


def test_more_test_examples_remove_their_own_luck_alone() -> None:
    found = [more_tests(GOLDEN, luck=0.0016, now=100, size=size) for size in (400, 10**9)]
    assert [each.std.value for each in found] == pytest.approx([math.sqrt(0.0013), 0.03])
    assert more_tests(GOLDEN, luck=0.01, now=100, size=400).basis == "unknown"
    whole = more_tests(GOLDEN, luck=GOLDEN.high**2, now=100, size=400)  # within the interval: about all
    assert whole.std.value == pytest.approx(GOLDEN.value / 2)
    unknown = more_tests(GOLDEN, luck=math.nan, now=100, size=400)
    assert unknown.reason.startswith("unknown, as the metric is not known for other test examples")


@pytest.mark.parametrize("signal", [0.0, 0.5])
def test_good_examples_are_named_only_if_runs_show_them(signal: float) -> None:
    random = np.random.default_rng(0)
    gains, truths, halves = [], [], []
    for _ in range(8):
        effects = random.normal(0, math.sqrt(signal), 30)
        included = random.random((200, 30)).argsort(axis=1) < 6
        scores = included @ effects + random.normal(0, math.sqrt(5 * (1 - signal)), 200)
        found = which_examples(included, scores, factor="sample_choice", groups=np.repeat([0, 1], 15))
        if not signal:
            assert not len(found.best)
            assert "no signal (R2 on held-out runs: " in found.prediction.reason
            assert "-0.00" not in found.prediction.reason
            continue
        assert found.r2.low > 0
        assert [(found.best < 15).sum(), (found.best >= 15).sum()] == [3, 3]
        gains.append(found.prediction.mean_change.value)
        truths.append(effects[found.best].sum() - included.mean(axis=0) @ effects)
        halves.append(found.prediction.mean_change.high - gains[-1])
        error = replace(named("mse"), range=(-scores.mean() - 0.1, math.inf))
        short = which_examples(included, -scores, factor="sample_choice", metric=error).prediction
        assert short.mean_change.value == short.mean_change.low == pytest.approx(-0.1)  # no mean is below the best
    if signal:
        assert np.mean(gains) == pytest.approx(np.mean(truths), rel=0.15)
        assert np.std(np.subtract(gains, truths)) == pytest.approx(np.mean(halves) / 1.97, rel=0.3)
    short = which_examples(included[:20], scores[:20], factor="sample_choice")
    assert "at least 30" in short.prediction.reason


def test_effects_of_examples_are_those_of_ridge_regressions() -> None:
    random = np.random.default_rng(5)
    included, scores = random.random((12, 5)) < [0.2, 0.4, 0.5, 0.6, 0.9], random.normal(size=12)
    noises = _NOISE * included.var(axis=0).sum()
    ridges = [Ridge(alpha=noise).fit(included, scores).coef_ for noise in noises]
    assert (fit := _fit(included, scores)).effects == pytest.approx(fit.weights @ ridges)

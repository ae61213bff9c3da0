import math

import numpy as np
import pytest
from analysis_oracle import regression_consistency

from mlflow_l3d.analysis.consistency.runs import class_agreement, number_agreement
from mlflow_l3d.analysis.intervals import share_interval

RUNS, EXAMPLES = 10, 300


def jackknife(whole: float, without: list[float], forth, back) -> tuple[float, float]:
    """The formula, written out: t quantile of 9 degrees of freedom."""
    values = np.array([forth(value) for value in without])
    count = len(values)
    half = 2.2621571628 * math.sqrt((count - 1) / count * ((values - values.mean()) ** 2).sum())
    return back(forth(whole) - half), back(forth(whole) + half)


def drawn(rng, base, labels, runs=RUNS):
    wrong = base + 0.8 * rng.standard_normal((runs, len(base))) < 0
    return np.where(wrong, 1 - labels, labels)


def test_intervals_are_those_of_the_left_out_seeds():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, EXAMPLES)
    predictions = drawn(rng, rng.normal(1.0, 1.3, EXAMPLES), labels)
    left = [np.delete(predictions, run, axis=0) for run in range(RUNS)]
    found = class_agreement(predictions, labels).intervals

    def logit(share):
        return math.log(share / (1 - share))

    def share(value):
        return 1 / (1 + math.exp(-value))

    for name in ("robust_share", "fragile_share", "never_right_share"):
        whole = class_agreement(predictions, labels).together[name]
        without = [class_agreement(each, labels).together[name] for each in left]
        assert found[name] == pytest.approx(jackknife(whole, without, logit, share))
    kappa = class_agreement(predictions, labels).together["fleiss_kappa"]
    without = [class_agreement(each, labels).together["fleiss_kappa"] for each in left]
    # The logit of (1 + kappa) / 2 is twice Fisher's z.
    assert found["fleiss_kappa"] == pytest.approx(jackknife(kappa, without, math.atanh, math.tanh))


def test_the_interval_of_the_distance():
    rng = np.random.default_rng(6)
    numbers = rng.normal(size=40) + rng.normal(size=(RUNS, 1)) * 0.2 + 0.1 * rng.normal(size=(RUNS, 40))
    whole = regression_consistency(numbers).absolute_difference
    without = [regression_consistency(np.delete(numbers, run, axis=0)).absolute_difference for run in range(RUNS)]
    assert number_agreement(numbers).intervals["absolute_difference"] == pytest.approx(
        jackknife(whole, without, math.log, math.exp)
    )


@pytest.mark.slow
def test_they_cover_what_as_many_other_seeds_give():
    rng = np.random.default_rng(0)
    labels, base = rng.integers(0, 2, EXAMPLES), rng.normal(1.0, 1.3, EXAMPLES)
    sets = [drawn(rng, base, labels) for _ in range(1500)]
    right = [(each == labels).sum(axis=0) for each in sets]
    truth = {
        "robust_share": np.mean([(count == RUNS).mean() for count in right]),
        "never_right_share": np.mean([(count == 0).mean() for count in right]),
        "fleiss_kappa": class_agreement(drawn(rng, base, labels, 2000), labels).together["fleiss_kappa"],
    }
    truth["fragile_share"] = 1 - truth["robust_share"] - truth["never_right_share"]
    found = [class_agreement(each, labels).intervals for each in sets[:300]]
    for name, value in truth.items():
        covered = np.mean([low <= value <= high for low, high in (one[name] for one in found)])
        # 95 % less three standard errors of 300 studies.
        assert covered >= 0.91, name


@pytest.mark.parametrize("runs", [2, 3])
def test_few_seeds_have_none(runs):
    rng = np.random.default_rng(1)
    predictions = rng.integers(0, 2, (runs, 20))
    assert all(
        math.isnan(end) for limits in class_agreement(predictions, predictions[0]).intervals.values() for end in limits
    )
    assert all(
        math.isnan(end) for end in number_agreement(rng.normal(size=(runs, 20))).intervals["absolute_difference"]
    )


def test_seeds_that_are_all_alike_have_none_and_one_class_has_no_kappa():
    labels = np.array([0, 1] * 10)
    assert all(
        math.isnan(end) for ends in class_agreement(np.tile(labels, (6, 1)), labels).intervals.values() for end in ends
    )
    constant = class_agreement(np.zeros((6, 20), dtype=np.int64), labels).intervals
    assert all(math.isnan(end) for end in constant["fleiss_kappa"])


def test_a_rounding_error_below_one_does_not_move_an_interval():
    one, nearly = np.array([0.75, 1, 0.75, 0.75]), np.array([0.75, np.nextafter(1, 0), 0.75, 0.75])
    assert share_interval(0.8, nearly) == pytest.approx(share_interval(0.8, one))
    assert share_interval(0.8, one)[0] > 0.1

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


def test_intervals_are_those_of_the_left_out_seeds():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, EXAMPLES)
    wrong = rng.normal(1.0, 1.3, EXAMPLES) + 0.8 * rng.standard_normal((RUNS, EXAMPLES)) < 0
    predictions = np.where(wrong, 1 - labels, labels)
    whole = class_agreement(predictions, labels)
    without = [class_agreement(np.delete(predictions, run, axis=0), labels).together for run in range(RUNS)]

    def logit(share):
        return math.log(share / (1 - share))

    def share(value):
        return 1 / (1 + math.exp(-value))

    scales = dict.fromkeys(("robust_share", "fragile_share", "never_right_share"), (logit, share))
    scales["fleiss_kappa"] = math.atanh, math.tanh  # the logit of (1 + kappa) / 2 is twice Fisher's z
    for name, scale in scales.items():
        expected = jackknife(whole.together[name], [each[name] for each in without], *scale)
        assert whole.intervals[name] == pytest.approx(expected), name


def test_the_interval_of_the_distance():
    rng = np.random.default_rng(6)
    numbers = rng.normal(size=40) + rng.normal(size=(RUNS, 1)) * 0.2 + 0.1 * rng.normal(size=(RUNS, 40))
    whole = regression_consistency(numbers).absolute_difference
    without = [regression_consistency(np.delete(numbers, run, axis=0)).absolute_difference for run in range(RUNS)]
    found = number_agreement(numbers).intervals["absolute_difference"]
    assert found == pytest.approx(jackknife(whole, without, math.log, math.exp))


@pytest.mark.parametrize("runs", [2, 3])
def test_few_seeds_have_none(runs):
    rng = np.random.default_rng(1)
    predictions = rng.integers(0, 2, (runs, 20))
    assert np.isnan([*class_agreement(predictions, predictions[0]).intervals.values()]).all()
    assert np.isnan([*number_agreement(rng.normal(size=(runs, 20))).intervals.values()]).all()


def test_seeds_that_are_all_alike_have_none_and_one_class_has_no_kappa():
    labels = np.array([0, 1] * 10)
    assert np.isnan([*class_agreement(np.tile(labels, (6, 1)), labels).intervals.values()]).all()
    constant = class_agreement(np.zeros((6, 20), dtype=np.int64), labels).intervals
    assert np.isnan(constant["fleiss_kappa"]).all()


def test_a_rounding_error_below_one_does_not_move_an_interval():
    one, nearly = np.array([0.75, 1, 0.75, 0.75]), np.array([0.75, np.nextafter(1, 0), 0.75, 0.75])
    assert share_interval(0.8, nearly) == pytest.approx(share_interval(0.8, one))
    assert share_interval(0.8, one)[0] > 0.1

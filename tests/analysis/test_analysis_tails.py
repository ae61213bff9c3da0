"""The check of long tails and of two groups (L3D013)."""

import numpy as np
import pytest
from scipy import stats

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.runs import golden_tails, row_tails
from mlflow_l3d.analysis.importance.shape import tails
from mlflow_l3d.analysis.importance.tables import std_interval


def speak(scores):
    """Return the checks of the shape of golden scores."""
    return list(golden_tails(Evidence(importances={}, golden=np.asarray(scores))))


def row_speak(record):
    return list(row_tails(record, Evidence(importances={"f": record}, golden=record.golden)))


def test_moments_are_those_of_scipy():
    scores = np.random.default_rng(0).gamma(2.0, size=40)
    found = tails(np.append(scores, np.nan))
    assert found.size == 40
    assert found.skewness == pytest.approx(stats.skew(scores, bias=False))
    assert found.kurtosis == pytest.approx(stats.kurtosis(scores, bias=False))
    # SAS, PROC CLUSTER: (m3^2 + 1) / (m4 + 3 (n - 1)^2 / ((n - 2)(n - 3)))
    whole = 3 * 39**2 / (38 * 37)
    assert found.bimodality == pytest.approx((found.skewness**2 + 1) / (found.kurtosis + whole))


@pytest.mark.parametrize("few", [[], [0.5] * 20, [0.1, 0.2, np.nan]])
def test_nothing_is_said_of_few_or_equal_scores(few):
    assert tails(np.array(few)) is None
    assert not speak(few)


@pytest.mark.parametrize("size", [20, 50, 200])
def test_normal_scores_are_hardly_ever_called_long(size):
    generator = np.random.default_rng(1)
    alarms = sum(bool(speak(generator.standard_normal(size))) for _ in range(500))
    assert alarms <= 17  # at 1.6 % each, more have a probability of about 0.002


def test_long_tails_and_collapses_are_seen():
    generator = np.random.default_rng(2)
    exponential = sum(bool(speak(generator.standard_exponential(200))) for _ in range(100))
    normal = generator.standard_normal((100, 200))
    collapsed = sum(bool(speak(np.where(np.arange(200) < 10, -8.0, each))) for each in normal)
    assert exponential >= 97
    assert collapsed == 100


def test_two_groups_are_named_and_are_no_warning():
    generator = np.random.default_rng(3)
    (found,) = speak(np.where(generator.random(200) < 0.5, 0.6, 0.85) + 0.02 * generator.standard_normal(200))
    assert (found.severity, found.title) == ("info", "Two groups of scores")


def test_rows_are_looked_at_factor_by_factor():
    table = 0.8 + 0.01 * np.random.default_rng(4).standard_normal((30, 5))
    assert not row_speak(importance(table, table[0], factor="f"))
    table[3] = 0.4
    (found,) = row_speak(importance(table, table[0], factor="f"))
    assert (found.code, found.factor) == ("L3D013", "f")
    assert "30 rows" in found.message


@pytest.mark.parametrize("scale", [1e-160, 1e-120, 1e45])
def test_shape_and_interval_do_not_depend_on_the_unit(scale):
    scores = np.random.default_rng(9).exponential(size=30)
    assert tails(scale * scores) == pytest.approx(tails(scores))
    ends = np.array(std_interval(scale * scores)) / scale
    assert ends == pytest.approx(std_interval(scores))

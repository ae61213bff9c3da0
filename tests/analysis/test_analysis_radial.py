"""Radial design: Jansen's estimators against SALib and the truth, and what missing and constant scores give."""

import math

import numpy as np
import pytest
from checks_cases import checks_of
from drawn_tables import drawn_sets

from mlflow_l3d.analysis.importance import radial_importance
from mlflow_l3d.analysis.importance.estimators.nested import (
    nested_components,
    radial_estimate,
    radial_variances_without_each,
)
from mlflow_l3d.analysis.importance.verdicts import verdict_of

FACTORS = ("data_order", "label_selection", "data_split")


def radial_estimates(base, swaps):
    sets = np.column_stack([base, *swaps.values()])
    return {name: radial_estimate(sets, place) for place, name in enumerate(swaps, start=1)}


def ishigami(x):
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def ishigami_runs(generator, runs):
    base, fresh = (generator.uniform(-math.pi, math.pi, (runs, 3)) for _ in range(2))
    swaps = {}
    for place, name in enumerate(FACTORS):
        changed = base.copy()
        changed[:, place] = fresh[:, place]
        swaps[name] = ishigami(changed)
    return ishigami(base), swaps, ishigami(fresh)


def ishigami_total_indices():
    """Closed form (Ishigami and Homma 1990)."""
    a, b = 7.0, 0.1
    first = 0.5 * (1 + b * math.pi**4 / 5) ** 2
    second, both = a**2 / 8, b**2 * math.pi**8 * (1 / 18 - 1 / 50)
    total = first + second + both
    return (first + both) / total, second / total, both / total


def test_jansen_estimator_of_salib():
    from SALib.analyze.sobol import total_order

    base, swaps, other = ishigami_runs(np.random.default_rng(0), 64)
    for name, estimate in radial_estimates(base, swaps).items():
        theirs = total_order(base, swaps[name], other) * np.var(np.r_[base, other])
        assert estimate.components.contributed == pytest.approx(float(theirs))
        assert estimate.components.method == "jansen"


def test_truth_of_a_function_with_known_indices():
    base, swaps, _ = ishigami_runs(np.random.default_rng(1), 20_000)
    for estimate, truth in zip(radial_estimates(base, swaps).values(), ishigami_total_indices(), strict=True):
        assert estimate.components.total_index == pytest.approx(truth, abs=0.02)
        low, high = estimate.interval(0.9999)
        assert low < math.sqrt(truth) - math.sqrt(1 - truth) < high


def test_without_each_row_is_the_smaller_design():
    sets = drawn_sets(np.random.default_rng(3), 9, (0.3, 0.5, 0.2), 0.1)
    sets[4, 3] = np.nan
    contributed, mitigated = radial_variances_without_each(sets, 2)
    for row in range(9):
        smaller = radial_estimate(np.delete(sets, row, axis=0), 2).components
        assert (contributed[row], mitigated[row]) == pytest.approx((smaller.contributed, smaller.mitigated))


def test_record_says_what_the_numbers_are():
    sets = drawn_sets(np.random.default_rng(4), 40, (0.3, 0.5, 0.2), 0.0) / 100 + 0.8
    found = radial_importance(sets[:, 0], dict(zip(FACTORS, sets.T[1:], strict=True)), chance=0.5)
    assert list(found) == list(FACTORS)
    for place, record in enumerate(found.values(), start=1):
        pairs = nested_components(sets[:, [0, place]])
        assert record.contributed_std == pytest.approx(math.sqrt(np.square(sets[:, 0] - sets[:, place]).mean() / 2))
        assert record.mitigated_std == pytest.approx(math.sqrt(pairs.mitigated))
        assert record.golden_std == pytest.approx(math.sqrt(sets.var(axis=0, ddof=1).mean()))
        expected = (record.contributed_std - record.mitigated_std) / record.golden_std
        assert record.importance == pytest.approx(expected)
        assert record.importance_corrected == pytest.approx(record.importance, abs=0.15)
        assert record.importance_corrected_ci_low < record.importance_corrected < record.importance_corrected_ci_high
        assert record.table.shape == (40, 2)
        assert sorted(record.golden) == sorted(sets.ravel())
        assert (record.design, record.collapsed_share, record.cells_missing) == ("radial", 0.0, 0)


def test_missing_scores_leave_out_only_what_they_touch():
    sets = drawn_sets(np.random.default_rng(5), 20, (0.3, 0.5, 0.2), 0.0)
    broken = sets.copy()
    broken[3, 1] = np.nan
    broken[7, 2] = np.inf
    found = radial_importance(broken[:, 0], dict(zip(FACTORS, broken.T[1:], strict=True)))
    assert [record.rows_used for record in found.values()] == [19, 19, 20]
    assert [record.cells_missing for record in found.values()] == [1, 1, 0]
    for record in found.values():
        assert math.isfinite(record.importance_corrected_ci_low)
    assert {check.code for check in checks_of(found, np.array([]))} >= {"L3D002"}
    assert "L3D003" not in {check.code for check in checks_of(found, np.array([]))}


def test_factor_without_effect_and_with_all_of_it():
    base = np.random.default_rng(7).random(15)
    fresh = np.random.default_rng(8).random(15)
    found = radial_importance(base, {"data_order": base, "data_split": fresh})
    assert found["data_order"].importance_corrected == -1
    assert np.isnan(found["data_order"].importance_corrected_ci_low)
    [check] = [each for each in checks_of(found, base) if each.code == "L3D010"]
    assert check.factor == "data_order"
    assert "of none of 15 runs" in check.message
    assert "up to 18 % of runs" in check.message
    assert found["data_split"].importance_corrected > 0
    assert found["data_split"].importance_corrected_ci_low <= found["data_split"].importance_corrected


def test_one_pair_that_differs_decides_nothing():
    """One difference of eight has one degree of freedom: nearly any share fits it."""
    base = np.array([0.40, 0.80, 0.58, 0.60, 0.58, 0.60, 0.90, 0.50])
    other = np.array([0.70, 0.90, 0.50, 0.60, 0.60, 0.70, 0.38, 0.40])
    one = base.copy()
    one[0] = 0.50
    found = radial_importance(base, {"one": one, "other": other})["one"]
    assert found.corrected_interval[1] > 0.9
    assert verdict_of(found).doubt == "contains_0"
    rounding = np.column_stack([np.r_[1, base], np.r_[1, base] - 2.1e-14, np.r_[1, other]])
    assert np.isnan(radial_estimate(rounding, 1).interval()).all()

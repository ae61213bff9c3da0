"""Scores, components, intervals and agreement equal an oracle in plain loops that was written from the definitions."""

import math

import numpy as np
import proof_oracle as oracle
import pytest
from drawn_tables import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.importance import importance, radial_importance
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.estimators.nested import nested_estimate, radial_estimate
from mlflow_l3d.analysis.planning.stopping import EpsilonRule
from mlflow_l3d.designs import design_named

CLOSE = {"rel": 1e-8, "abs": 1e-10}
DERIVED = {"rel": 1e-6, "abs": 1e-8}
"""Where the oracle takes derivatives by differences."""
SEEDS = st.integers(0, 2**32)
SHARES = st.sampled_from([(0.5, 0.5, 0.0), (0.5, 0.0, 0.5), (0.9, 0.1, 0.0), (0.1, 0.9, 0.0), (0.3, 0.3, 0.4)])
FEW = settings(max_examples=40, deadline=None)


def table_of(seed, shape, variances):
    return 70 + 3 * drawn(np.random.default_rng(seed), shape, variances)


def drawn_sets(seed, rows, factors):
    generator = np.random.default_rng(seed)
    return 70 + generator.standard_normal((rows, 1)) + generator.standard_normal((rows, factors + 1))


@FEW
@given(SEEDS, st.integers(2, 12), st.integers(2, 8), st.integers(2, 30), SHARES, st.sampled_from(["crossed", "nested"]))
def test_published_score(seed, rows, columns, runs, variances, design):
    table = table_of(seed, (rows, columns), variances)
    golden = np.random.default_rng(seed).normal(70, 4, runs)
    found = importance(table, golden, model=design_named(design).model)
    expected = oracle.published(table, golden)
    numbers = found.contributed_std, found.mitigated_std, found.golden_std, found.importance
    assert numbers == pytest.approx(expected, **CLOSE)


@FEW
@given(SEEDS, st.integers(2, 14), st.integers(2, 8), SHARES)
def test_components_of_crossed_and_nested(seed, rows, columns, variances):
    table = table_of(seed, (rows, columns), variances)
    for estimate, expected in (
        (crossed_estimate(table), oracle.crossed(table)),
        (nested_estimate(table), oracle.nested(table)),
    ):
        for name in ("main", "interaction", "mitigated", "contributed", "total_index"):
            if name in expected:
                assert getattr(estimate.components, name) == pytest.approx(expected[name], **CLOSE)
        assert estimate.importance == pytest.approx(oracle.of_share(expected["total_index"]), **CLOSE)


@FEW
@given(SEEDS, st.integers(2, 14), st.integers(1, 4))
def test_components_of_radial(seed, rows, factors):
    sets = drawn_sets(seed, rows, factors)
    for place in range(1, factors + 1):
        found, expected = radial_estimate(sets, place).components, oracle.radial(sets, place)
        for name in ("mitigated", "contributed", "total_index"):
            assert getattr(found, name) == pytest.approx(expected[name], **CLOSE)
        if expected["mitigated"] >= 0:
            assert found.total == pytest.approx(expected["total"], **CLOSE)


@pytest.mark.parametrize("seeds", [range(4, 5), pytest.param(range(32), marks=pytest.mark.slow)], ids=["one", "many"])
def test_crossed_interval(seeds):
    """The jackknife over rows and columns, wherever rows differ for certain and no component is zero."""
    compared = boundary = 0
    for seed in seeds:
        shape = [(6, 4), (12, 5), (5, 8), (9, 7)][seed % 4]
        table = table_of(
            seed, shape, [(0.5, 0.5, 0.0001), (0.5, 0.2, 0.3), (0.8, 0.1, 0.1), (0.1, 0.6, 0.3)][seed // 4 % 4]
        )
        m, n = shape
        parts = oracle.crossed(table)
        expected = oracle.jackknife(table, oracle.crossed, columns_too=True)
        found = crossed_estimate(table)
        if expected is None or not oracle.rows_differ(parts, m, (m - 1) * (n - 1)):
            boundary += 1
            assert found.jackknife is None
            continue
        compared += 1
        assert found.interval() == pytest.approx(expected, **DERIVED)
        assert min(m, n) - 1 <= found.jackknife.degrees <= m + n - 2
        if compared <= 8:
            other = oracle.jackknife(table, oracle.crossed, columns_too=True, level=0.8)
            assert found.interval(0.8) == pytest.approx(other, **DERIVED)
    assert compared >= math.ceil(len(seeds) / 2)
    assert boundary >= len(seeds) // 16


@pytest.mark.parametrize("uneven", [False, True])
def test_nested_interval(uneven):
    compared = limits = below = 0
    for seed in range(60):
        shape = [(6, 4), (12, 2), (5, 8), (20, 10)][seed % 4]
        table = table_of(seed, shape, [(0.5, 0.0, 0.5), (0.9, 0.0, 0.1), (0.1, 0.0, 0.9)][seed // 4 % 3])
        if uneven:  # later rows spread more
            means = table.mean(axis=1, keepdims=True)
            table = means + (table - means) * np.geomspace(0.2, 5, len(table))[:, None]
        m, n = shape
        parts = oracle.nested(table)
        expected = oracle.jackknife(table, oracle.nested, columns_too=False)
        found = nested_estimate(table)
        if expected is not None and oracle.rows_differ(parts, m, m * (n - 1)):
            compared += 1
            assert found.interval() == pytest.approx(expected, **CLOSE)
            assert found.jackknife.degrees == pytest.approx(m - 1) or oracle.inequality(table) > 0
            continue
        assert found.jackknife is None
        limits += 1
        below += parts["mitigated"] < 0
        assert found.interval() == pytest.approx(oracle.one_way_limits(table), rel=1e-6, abs=1e-8)
    assert compared >= (10 if uneven else 25)
    assert limits >= 5
    assert below >= 1


def test_radial_interval():
    """A row is left out of every set at once, on the scale of atanh(1 - S), which holds also where S is above 1."""
    beyond = 0
    for seed in range(40):
        sets = drawn_sets(seed, 10 + seed, 1 + seed % 4)
        sets[:, 1:] -= 0.4 * (sets[:, 1:] - sets[:, :1])
        place = 1 + seed % sets[0, 1:].size
        m = len(sets)

        def left(rows, place=place):
            parts = oracle.radial(rows, place)
            return math.atanh(1 - parts["contributed"] / parts["total"])

        centre, without = left(sets), [left(np.delete(sets, row, 0)) for row in range(m)]
        error = math.sqrt((m - 1) / m * math.fsum((each - oracle.mean(without)) ** 2 for each in without))
        ends = [1 - math.tanh(centre + sign * oracle.stats.t.ppf(0.975, m - 1) * error) for sign in (1, -1)]
        found = radial_estimate(sets, place)
        assert found.interval() == pytest.approx([oracle.of_share(min(1.0, end)) for end in ends], **CLOSE)
        assert found.jackknife.degrees == pytest.approx(m - 1)
        beyond += ends[1] > 1
    assert 0 < beyond < 40


def test_records_hold_the_same_intervals():
    """What is reported is what was compared above."""
    table, sets = table_of(3, (12, 6), (0.5, 0.2, 0.3)), drawn_sets(4, 30, 2)
    for design, estimate in (("crossed", crossed_estimate(table)), ("nested", nested_estimate(table))):
        record = importance(table, table[0], model=design_named(design).model)
        assert record.corrected_interval == estimate.interval()
        assert record.importance_corrected == estimate.importance
    record = radial_importance(sets[:, 0], {"a": sets[:, 1], "b": sets[:, 2]})["b"]
    assert record.corrected_interval == radial_estimate(sets, 2).interval()


@FEW
@given(SEEDS, st.sampled_from([0.02, 0.05, 0.2]))
def test_rule_of_appendix_b3(seed, epsilon):
    table = table_of(seed, (25, 4), (0.3, 0.3, 0.4)) / 3
    golden = np.random.default_rng(seed).standard_normal(100)
    rows = oracle.rows_of_epsilon(table, golden, epsilon, 3)
    interim = EpsilonRule(epsilon).analyse(table, golden)
    assert (interim.decision, interim.rows) == (("continue", 25) if rows is None else ("stop", rows))


@FEW
@given(SEEDS, st.floats(0.01, 100), st.booleans(), st.floats(-100, 100), SHARES, st.sampled_from(["crossed", "nested"]))
def test_units_and_origin_do_not_matter(seed, scale, negative, shift, variances, design):
    """Scores in fractions or percentage points, of a metric or of its complement."""
    table = table_of(seed, (8, 5), variances) - 70
    golden = np.random.default_rng(seed).standard_normal(40)
    factor = -scale if negative else scale
    before = importance(table, golden, model=design_named(design).model)
    after = importance(factor * table + shift, factor * golden + shift, model=design_named(design).model)
    ends = ("", "_ci_low", "_ci_high", "_corrected", "_corrected_ci_low", "_corrected_ci_high")
    for name in (*(f"importance{end}" for end in ends), "unevenness"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-5, abs=1e-5, nan_ok=True)
    for name in ("moves_by_std", "score_iqr", "golden_iqr"):
        assert getattr(after, name) == pytest.approx(scale * getattr(before, name), rel=1e-5, abs=1e-5), name

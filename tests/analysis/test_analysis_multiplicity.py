"""Several factors: Holm's adjustment, groups that cannot be told apart, and how often a claim is false."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from mlflow_l3d.analysis.importance import importance, radial_importance
from mlflow_l3d.analysis.importance.estimators import NESTED
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.estimators.nested import nested_estimate
from mlflow_l3d.analysis.importance.multiplicity import holm, paired_difference, rank_factors
from mlflow_l3d.designs import design_named

DESIGNS = ("crossed", "nested", "radial")


def ranked(found, **options):
    return rank_factors(found, design_named(next(iter(found.values())).design).compared, **options)


def difference(tables, first, second, design):
    estimates = {name: design_named(design).compared(tables, name) for name in (first, second)}
    return paired_difference(first, second, estimates, rows=len(tables[first]))


def drawn(generator, design, shares, rows=20, columns=10):
    """Return base scores, and factor -> table, of factors that act by themselves with the given variances."""
    own = np.sqrt(shares) * generator.standard_normal((rows, len(shares)))
    names = [f"factor_{place}" for place in range(len(shares))]
    base, tables = own.sum(axis=1), {}
    for place, name in enumerate(names):
        others = np.delete(own, place, axis=1).sum(axis=1, keepdims=True)
        shape = {"crossed": (1, columns), "nested": (rows, columns), "radial": (rows, 1)}[design]
        table = others + math.sqrt(shares[place]) * generator.standard_normal(shape)
        if design == "radial":
            tables[name] = np.column_stack([base, table])
        else:
            tables[name] = table + 1e-3 * generator.standard_normal((rows, columns))
    return base, tables


def records(generator, design, shares, **size):
    """Return the importance of each factor."""
    base, tables = drawn(generator, design, shares, **size)
    if design == "radial":
        return radial_importance(base, {name: table[:, 1] for name, table in tables.items()})
    model = design_named(design).model
    return {name: importance(table, table.ravel(), factor=name, model=model) for name, table in tables.items()}


@pytest.mark.parametrize(
    "values", [[0.01, 0.04, 0.03, 0.005], [0.2, 0.2, 0.01, 0.9, 1.0, 0.0, 0.5, 0.02]], ids=["small", "ties"]
)
def test_holm_equals_statsmodels(values, monkeypatch):
    monkeypatch.setattr("gc.collect", lambda *_: 0)  # its function does at every call
    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1])


def test_holm_passes_over_what_is_not_known():
    adjusted = holm([0.01, math.nan, 0.04])
    assert adjusted[[0, 2]] == pytest.approx([0.02, 0.04])
    assert math.isnan(adjusted[1])
    assert len(holm([])) == 0


@pytest.mark.parametrize("design", DESIGNS)
def test_factors_that_differ_are_told_apart(design):
    found = records(np.random.default_rng(1), design, (0.85, 0.12, 0.03), rows=60, columns=30)
    ranking = ranked(found)
    assert ranking.factors == ("factor_0", "factor_1", "factor_2")
    assert not any({"factor_0", other} <= set(group) for other in ranking.factors[1:] for group in ranking.groups)
    frame = ranking.to_frame()
    assert frame["importance_corrected"].is_monotonic_decreasing
    pairs = ranking.differences_frame()
    assert len(pairs) == 3
    assert (pairs["difference"] >= 0).all()
    assert (pairs["low"] <= pairs["difference"]).all()
    assert (pairs["difference"] <= pairs["high"]).all()
    assert pairs["different"].tolist() == (pairs["p_holm"] <= 0.05).tolist()


@pytest.mark.parametrize("design", DESIGNS)
def test_corrected_scores_are_those_of_the_records(design):
    found = records(np.random.default_rng(2), design, (0.5, 0.3, 0.2))
    for name, score in zip(*[getattr(ranked(found), part) for part in ("factors", "importances")], strict=True):
        assert score == pytest.approx(found[name].importance_corrected)


@pytest.mark.parametrize("design", DESIGNS)
def test_equal_factors_are_rarely_told_apart(design):
    """A true difference of 0 is called one in about 5 % of tables at most (within 3 standard errors of 200)."""
    generator = np.random.default_rng(3)
    wrong = 0
    for _ in range(200):
        _, tables = drawn(generator, design, (0.4, 0.4, 0.2), rows=15, columns=8)
        wrong += difference(tables, "factor_0", "factor_1", design).p <= 0.05
    assert wrong <= 0.05 * 200 + 3 * math.sqrt(200 * 0.05 * 0.95)


def test_difference_is_the_joint_jackknife():
    found = records(np.random.default_rng(4), "crossed", (0.5, 0.3, 0.2), rows=9, columns=6)
    tables = {name: record.table for name, record in found.items()}
    pair = difference(tables, "factor_0", "factor_2", "crossed")
    one, other = tables["factor_0"], tables["factor_2"]

    def score(table):
        return crossed_estimate(table).importance

    of_rows = [score(np.delete(one, row, 0)) - score(np.delete(other, row, 0)) for row in range(9)]
    variances = {8: [8 / 9 * np.square(of_rows - np.mean(of_rows)).sum()], 5: []}
    for table in (one, other):
        of_columns = [score(np.delete(table, column, 1)) for column in range(6)]
        variances[5].append(5 / 6 * np.square(of_columns - np.mean(of_columns)).sum())
    variance = sum(map(sum, variances.values()))
    degrees = variance**2 / sum(each**2 / units for units, found in variances.items() for each in found)
    assert pair.difference == pytest.approx(score(one) - score(other))
    assert (pair.high - pair.low) / 2 == pytest.approx(stats.t.ppf(0.975, degrees) * math.sqrt(variance))


def test_groups_are_the_largest_sets_without_a_difference():
    found = records(np.random.default_rng(5), "nested", (0.45, 0.3, 0.15, 0.07, 0.03), rows=40)
    ranking = ranked(found)
    apart = {frozenset((pair["first"], pair["second"])): pair["different"] for _, pair in pairs_of(ranking)}
    expected = set()
    for size in range(1, 6):
        for members in itertools.combinations(ranking.factors, size):
            inside = not any(apart[frozenset(pair)] for pair in itertools.combinations(members, 2))
            more = any(
                all(not apart[frozenset((other, member))] for member in members)
                for other in ranking.factors
                if other not in members
            )
            if inside and not more:
                expected.add(members)
    assert set(ranking.groups) == expected
    assert 1 < len(expected) < 5
    assert set("".join(ranking.to_frame()["group"])) == set("abcdefgh"[: len(expected)])


def pairs_of(ranking):
    return ranking.differences_frame().iterrows()


def test_a_factor_without_a_score_is_compared_with_none_and_has_no_letter():
    found = records(np.random.default_rng(6), "crossed", (0.9, 0.1), rows=20)
    found["constant"] = importance(np.full((20, 10), 0.5), [0.1, 0.2], factor="constant")
    ranking = ranked(found)
    assert ranking.factors[-1] == "constant"
    assert math.isnan(ranking.importances[-1])
    assert not any("constant" in group for group in ranking.groups)
    assert ranking.to_frame().set_index("factor")["group"].tolist() == ["a", "b", ""]


def test_boundary_uses_the_intervals_of_the_two():
    """A factor beside which nothing matters: leaving rows out changes nothing, and says nothing about the error."""
    generator = np.random.default_rng(7)
    noise, other = generator.standard_normal((6, 4)), generator.standard_normal((6, 4))
    tables = {"one": noise - noise.mean(axis=1, keepdims=True), "other": other - other.mean(axis=1, keepdims=True)}
    pair = difference(tables, "one", "other", "nested")
    assert pair.difference == 0
    assert pair.low < -0.1
    assert pair.high > 0.1
    assert pair.p == 1.0
    estimates = {name: nested_estimate(table) for name, table in {**tables, "other": noise}.items()}
    p = paired_difference("one", "other", estimates, rows=6).p
    ends = paired_difference("one", "other", estimates, rows=6, level=1 - p)
    assert min(abs(ends.low), abs(ends.high)) == pytest.approx(0, abs=1e-3)


def test_each_pair_is_compared_on_the_rows_that_both_have():
    found = records(np.random.default_rng(8), "nested", (0.5, 0.3, 0.2), rows=12)
    for name, place in (("factor_0", (3, 1)), ("factor_1", 5)):
        table = found[name].table.copy()
        table[place] = np.nan
        found[name] = importance(table, [0.1, 0.2], factor=name, model=NESTED)
    pairs = {f"{pair.first[-1]}{pair.second[-1]}": pair for pair in ranked(found).differences}
    assert {"".join(sorted(names)): pair.rows for names, pair in pairs.items()} == {"01": 11, "02": 12, "12": 11}
    assert all(math.isfinite(pair.p) for pair in pairs.values())


def test_no_factor():
    assert rank_factors({}, design_named("crossed").compared).factors == ()

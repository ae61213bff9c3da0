"""Stopping rules: when looks come, what they spend, and how often a claim is false."""

import math

import numpy as np
import pandas as pd
import pytest
from drawn_tables import drawn

from mlflow_l3d.analysis.importance.estimators.nested import nested_estimate, radial_estimate
from mlflow_l3d.analysis.planning.stopping import INTERIM_COLUMNS, EpsilonRule, IntervalRule


def look(rule, table):
    """Return what the rule says of a nested table."""

    def estimate(rows):
        first = table[:rows]
        return nested_estimate(first[np.isfinite(first).all(axis=1)])

    return rule.analyse(len(table), estimate)


def test_what_looks_spend():
    rule = IntervalRule(0.1, alpha=0.04, factors=5)
    assert rule.spent(1) == pytest.approx(0.04 * 6 / math.pi**2 / 5)
    assert rule.spent(3) == pytest.approx(rule.spent(1) / 9)
    assert sum(5 * rule.spent(number) for number in range(1, 10_000)) == pytest.approx(0.04, abs=1e-5)


def test_looks_come_at_20_40_80_rows_whenever_one_asks():
    table = drawn(np.random.default_rng(0), (200, 3), (0.5, 0.5))
    one_by_one, at_once = (IntervalRule(0.01) for _ in range(2))
    for rows in range(1, 200):
        interim = look(one_by_one, table[:rows])
        if rows < 20:
            assert (interim.decision, interim.rows) == ("continue", rows)
            assert one_by_one.history == []
    look(at_once, table[:199])
    pd.testing.assert_frame_equal(at_once.history_frame(), one_by_one.history_frame())
    assert [interim.rows for interim in at_once.history] == [20, 40, 80, 160]
    third = at_once.history[2]
    assert (third.low, third.high) == nested_estimate(table[:80]).careful_interval(1 - at_once.spent(3))
    assert third.alpha == at_once.spent(3)
    frame = at_once.history_frame()
    assert tuple(frame.columns) == INTERIM_COLUMNS
    assert frame["rows"].tolist() == [20, 40, 80, 160]


def test_stops_with_a_claim_and_looks_again_while_others_go_on():
    table = drawn(np.random.default_rng(1), (100, 8), (0.97, 0.03))
    rule = IntervalRule(0.001)
    interim = look(rule, table)
    assert (interim.decision, interim.claim, interim.rows) == ("stop", "minor", 20)
    assert interim.high < 0
    assert "excludes 0" in interim.reason
    again = look(rule, table[:90])
    assert (again.decision, again.rows) == ("stop", 40)
    assert look(rule, table[:70]) is again
    assert look(IntervalRule(0.001), -table).claim == "minor"


def test_no_claim_of_long_tails():
    table, asked = drawn(np.random.default_rng(1), (40, 8), (0.97, 0.03)), []
    rule = IntervalRule(0.001)
    interim = rule.analyse(
        40, lambda rows: nested_estimate(table[:rows]), lambda rows: bool(asked.append(rows)) or True
    )
    assert (interim.decision, interim.claim, asked) == ("continue", "", [20, 40])
    assert "L3D013" in interim.reason
    assert look(IntervalRule(0.6), table).claim


def test_the_level_after_some_rows_is_that_of_the_next_look():
    rule = IntervalRule(0.1, factors=3)
    for rows, number in ((5, 1), (20, 1), (21, 2), (40, 2), (300, 5), (320, 5)):
        assert rule.level(rows) == 1 - rule.spent(number)


def test_stops_where_the_interval_is_narrow():
    interim = look(IntervalRule(0.6), drawn(np.random.default_rng(2), (20, 8), (0.5, 0.5)))
    assert (interim.decision, interim.claim) == ("stop", "")
    assert (interim.high - interim.low) / 2 <= 0.6
    assert "half-width" in interim.reason


def test_failed_rows_count_as_run_and_are_left_out():
    table = drawn(np.random.default_rng(3), (20, 2), (0.5, 0.5))
    table[5, 1] = np.nan
    interim, found = look(IntervalRule(0.01), table), nested_estimate(np.delete(table, 5, axis=0))
    assert (interim.rows, interim.importance) == (20, found.importance)
    assert (interim.low, interim.high) == found.careful_interval(1 - interim.alpha) != found.interval(1 - interim.alpha)


def test_constant_or_missing_scores_go_on():
    for table in (np.full((45, 3), 0.5), np.full((45, 3), np.nan)):
        interim = look(IntervalRule(0.1), table)
        assert (interim.decision, interim.rows) == ("continue", 40)
        assert "no interval" in interim.reason
        assert math.isnan(interim.low)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "factors"), [(2, 1), (4, 1), (10, 3)])
def test_false_claims_at_a_true_importance_of_zero(columns, factors):
    """S_T = 1/2, looks at 20, 40, ..., 320 rows: with probability 1 - alpha no claim is ever made.

    A share of 0.08 is noticed with a probability of 0.99 in 400 investigations, and of 0.91 in 133.
    """
    generator = np.random.default_rng(5)
    repeats, wrong = 400 // factors, 0
    for _ in range(repeats):
        claims = [
            look(IntervalRule(1e-6, alpha=0.05, factors=factors), drawn(generator, (320, columns), (0.5, 0.5))).claim
            for _ in range(factors)
        ]
        wrong += any(claims)
    assert wrong / repeats <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [(1, 0), (0, 1)])
def test_false_claims_of_a_radial_design(kinds):
    """The other factor acts by itself, or only together with this one and a third of the same size."""
    generator = np.random.default_rng(6)
    repeats, wrong = 300, 0
    for _ in range(repeats):
        others, own = generator.standard_normal((2, 320))
        fresh, elsewhere = generator.standard_normal((2, 320))
        alone, mixed = kinds
        base = others + alone * own + mixed * generator.standard_normal(320)
        swap = others + alone * fresh + mixed * generator.standard_normal(320)
        other = elsewhere + alone * own + mixed * generator.standard_normal(320)
        rule, sets = IntervalRule(1e-6, alpha=0.05), np.column_stack([base, swap, other])
        wrong += rule.analyse(320, lambda rows, sets=sets: radial_estimate(sets[:rows], 1)).claim != ""
    assert wrong / repeats <= 0.05


def test_epsilon_rule_does_not_depend_on_how_often_one_asks():
    generator = np.random.default_rng(8)
    table, golden = generator.standard_normal((25, 4)), generator.standard_normal(25)
    one_by_one, at_once = EpsilonRule(0.03), EpsilonRule(0.03)
    for rows in range(26):
        one_by_one.analyse(table[:rows], golden[:rows])
    at_once.analyse(table, golden)
    pd.testing.assert_frame_equal(at_once.history_frame(), one_by_one.history_frame())


def test_epsilon_rule_goes_on_without_numbers():
    for table, golden in ((np.full((6, 3), 0.5), [0.1, 0.2]), (np.eye(6), []), (np.eye(1), [0.1])):
        interim = EpsilonRule(0.5).analyse(table, golden)
        assert interim.decision == "continue"
        assert "no change to look at yet" in interim.reason or "the first look comes after 2 rows" in interim.reason
    for epsilon, rows, relation in ((100.0, 3, "below"), (1e-9, 9, "not below")):
        interim = EpsilonRule(epsilon).analyse(np.random.default_rng(9).random((9, 3)), np.arange(9.0))
        assert interim.rows == rows
        assert interim.reason.endswith(f", {relation} epsilon {epsilon:.4g}")

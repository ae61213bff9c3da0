"""Runs that fail are a selection: said where they hide luck, and named where they go with a factor."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from checks_cases import checks_of

from mlflow_l3d.analysis.importance.checks.cells import failures
from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED
from mlflow_l3d.analysis.importance.importance import importance
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.analyse import Planned, analyse


def drawn(seed=0, share=0.0, rows=20, columns=10):
    generator = np.random.default_rng(seed)
    table = 0.8 + 0.02 * generator.standard_normal((rows, 1)) + 0.02 * generator.standard_normal((rows, columns))
    golden = 0.8 + 0.03 * generator.standard_normal(200)
    return [np.where(generator.random(scores.shape) < share, np.nan, scores) for scores in (table, golden)]


def found(table, golden, model=CROSSED, chance=0.5):
    return failures(importance(table, golden, factor="data_order", model=model), model, chance=chance)


def text(table, golden, **more):
    record = importance(table, golden, factor="data_order")
    checks = checks_of({"data_order": record}, golden, **more)
    return next((check.message for check in checks if check.code == "L3D012"), None)


@pytest.mark.slow
def test_failures_at_random_crowd_nowhere():
    """A p-value of at most 0.05 in about one table of twenty (three standard errors)."""
    tables = 60
    small = sum(found(*drawn(seed, 0.05), chance=None).p_columns <= 0.05 for seed in range(tables))
    assert small <= 0.05 * tables + 3 * math.sqrt(tables * 0.05 * 0.95)


def test_failures_of_one_configuration_are_named():
    table, golden = drawn()
    table[::3, 4] = np.nan
    assert found(table, golden).p_columns < 0.01 < found(table, golden).p_rows
    message = text(table, golden)
    assert "concentrate in columns (p = 0.0005): they depend on the configurations of data_order" in message
    table, golden = drawn()
    table[7, ::2] = np.nan
    assert found(table, golden).p_rows < 0.01 < found(table, golden).p_columns
    assert "concentrate in rows (p = 0.0005): they depend on the configurations of the other factors" in text(
        table, golden
    )
    assert math.isnan(found(table, golden, NESTED).p_columns)


def test_failures_that_hide_collapses_are_seen_beside_the_score():
    """Where what would have scored 0.5 raises instead, golden runs look three times too alike."""
    table, golden = drawn(3, 0.05)
    again = found(table, golden).at_chance
    whole = importance(np.nan_to_num(table, nan=0.5), np.nan_to_num(golden, nan=0.5))
    assert again.metrics() == pytest.approx({**whole.metrics(), "collapsed_share": 0.0})
    assert again.golden_std > 2 * importance(table, golden).golden_std
    message = text(table, golden, classes=2)
    assert f"the importance is {whole.importance:+.2f}" in message
    assert f"the golden standard deviation {100 * whole.golden_std:.2f} points" in message
    assert "score at chance" not in text(table, golden)


def test_nothing_to_say():
    table, golden = drawn()
    assert found(table, golden) is None
    assert text(table, golden) is None
    assert found(np.full((4, 3), np.nan), golden) is None
    table[2, 3] = np.nan
    alone = found(table, golden)
    assert math.isnan(alone.p_rows)
    assert math.isnan(alone.p_columns)


def test_failures_where_there_are_no_rows_and_columns():
    """Runs fail by the configuration of one factor: its importance for failing is 1, that of the other -1."""
    generator, runs = np.random.default_rng(6), []
    for row in range(40):
        first, other, again, other_again = generator.integers(1000, size=4)
        places = [("base", None, first, other), ("swap", "a", again, other), ("swap", "b", first, other_again)]
        for phase, factor, a, b in places:
            failed = (a * 7919) % 4 == 0
            score = math.nan if failed else 0.8 + 0.01 * ((a + 3 * b) % 7)
            runs.append({"phase": phase, "factor": factor, "row": row, "accuracy": score, "factor.a": a, "factor.b": b})
    planned = Planned(design=design_named("radial"), classes=2)
    analysis = analyse(pd.DataFrame(runs), planned, metric="accuracy")
    messages = {check.factor: check.message for check in analysis.checks if check.code == "L3D012"}
    assert set(messages) == {"a", "b"}
    assert all("If every failure counts as a score at chance" in message for message in messages.values())
    assert re.search(r"For which runs fail its importance is \+", messages["a"])
    assert "For which runs fail its importance is -1.00" in messages["b"]

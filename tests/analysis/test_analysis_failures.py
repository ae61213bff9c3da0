"""Runs that fail are a selection: said where they hide luck, and named where they go with a factor."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.checks.runs import at_random
from mlflow_l3d.designs import Planned, design_named
from mlflow_l3d.designs.analyse import analyse


def drawn(seed=0, share=0.0, rows=20, columns=10):
    generator = np.random.default_rng(seed)
    table = 0.8 + 0.02 * generator.standard_normal((rows, 1)) + 0.02 * generator.standard_normal((rows, columns))
    golden = 0.8 + 0.03 * generator.standard_normal(200)
    return [np.where(generator.random(scores.shape) < share, np.nan, scores) for scores in (table, golden)]


def by_rows_and_columns(table):
    missing = ~np.isfinite(table)
    return at_random(missing), at_random(missing.T)


def text(table, golden, classes=None, design="crossed"):
    places = [("investigation", "data_order", *place, None, score) for place, score in np.ndenumerate(table)]
    places += [("golden", None, None, None, at, score) for at, score in enumerate(golden)]
    cells = pd.DataFrame(places, columns=["phase", "factor", "row", "column", "index", "accuracy"])
    checks = analyse(cells, Planned(design=design_named(design), classes=classes), metric="accuracy").checks
    return next((check.message for check in checks if check.code == "L3D012"), None)


@pytest.mark.slow
def test_failures_at_random_crowd_nowhere():
    """A p-value of at most 0.05 in about one table of twenty (three standard errors)."""
    tables = 60
    small = sum(by_rows_and_columns(drawn(seed, 0.05)[0])[1] <= 0.05 for seed in range(tables))
    assert small <= 0.05 * tables + 3 * math.sqrt(tables * 0.05 * 0.95)


def test_failures_of_one_configuration_are_named():
    table, golden = drawn()
    table[::3, 4] = np.nan
    rows, columns = by_rows_and_columns(table)
    assert columns < 0.01 < rows
    assert "concentrate in" not in text(table, golden, design="nested")
    message = text(table, golden)
    assert "concentrate in columns (p = 0.0005): they depend on the configurations of data_order" in message
    table, golden = drawn()
    table[7, ::2] = np.nan
    rows, columns = by_rows_and_columns(table)
    assert rows < 0.01 < columns
    where = "concentrate in rows (p = 0.0005): they depend on the configurations of the other factors"
    assert where in text(table, golden)


def test_failures_that_hide_collapses_are_seen_beside_the_score():
    """Where what would have scored 0.5 raises instead, golden runs look three times too alike."""
    table, golden = drawn(3, 0.05)
    whole = importance(np.nan_to_num(table, nan=0.5), np.nan_to_num(golden, nan=0.5))
    assert whole.golden_std > 2 * importance(table, golden).golden_std
    message = text(table, golden, classes=2)
    assert f"the importance is {whole.importance:+.2f}" in message
    assert f"the golden standard deviation {100 * whole.golden_std:.2f} points" in message
    assert "score at chance" not in text(table, golden)


def test_nothing_to_say():
    table, golden = drawn()
    assert text(table, golden) is None
    assert text(np.full((4, 3), np.nan), golden) is None
    table[2, 3] = np.nan
    assert all(math.isnan(p) for p in by_rows_and_columns(table))


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
    analysis = analyse(pd.DataFrame(runs), Planned(design=design_named("radial"), classes=2), metric="accuracy")
    messages = {check.factor: check.message for check in analysis.checks if check.code == "L3D012"}
    assert set(messages) == {"a", "b"}
    assert all("If every failure counts as a score at chance" in message for message in messages.values())
    assert re.search(r"For which runs fail its importance is \+", messages["a"])
    assert "For which runs fail its importance is -1.00" in messages["b"]

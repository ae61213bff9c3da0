"""Published tables of Pecher et al. 2024: every importance value follows from its own standard deviations."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pandas as pd
import pytest

from mlflow_l3d.analysis.importance import importance

FOLDER = os.environ.get("L3D_TEST_REFERENCE")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="L3D_TEST_REFERENCE names no folder of published tables")

FROM_TABLE_5 = {("Zephyr-7B", "SST2"), ("Prototypical Networks", "SST2"), ("Prototypical Networks", "CoLA")}
"""Golden rows that the text of Tables 6 to 14 lost; Table 5 prints the same standard deviation."""
NOWHERE = {("RoBERTa", "MRPC"), ("RoBERTa", "AG News"), ("MAML", "CoLA")}
"""Golden rows that are lost and printed nowhere else: one value must fit all rows of the column."""


def printed(text: str) -> tuple[float, float]:
    """The numbers that round to what is printed."""
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    return float(text) - half, float(text) + half


def from_stds(contributed: float, mitigated: float, golden: float) -> float:
    """Importance of a table that has exactly these standard deviations."""
    rows = [[middle - contributed, middle + contributed] for middle in (-mitigated, mitigated)]
    found = importance(rows, [-golden, golden])
    assert (found.contributed_std, found.mitigated_std) == pytest.approx((contributed, mitigated))
    return found.importance


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(Path(FOLDER or "") / "pecher2024_importance.csv", dtype=str, keep_default_na=False)


@pytest.fixture(scope="module")
def golden(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    rows = table[table["factor"] == "golden_model"]
    found = {(row.model, row.dataset): row.f1_macro_std for row in rows.itertuples() if row.f1_macro_std}
    strategies = pd.read_csv(Path(FOLDER or "") / "pecher2024_strategies.csv", dtype=str, keep_default_na=False)
    for row in strategies[strategies["factor"] == "golden_model"].itertuples():
        if (row.model, row.dataset) in FROM_TABLE_5:
            found[row.model, row.dataset] = row.std
    return found


def factor_rows(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["factor"] != "golden_model"]


def test_exactly_the_listed_golden_rows_are_missing(table, golden):
    columns = {(row.model, row.dataset) for row in factor_rows(table).itertuples()}
    assert columns - set(golden) == NOWHERE


@pytest.mark.slow
def test_every_published_importance_follows_from_its_stds(table, golden):
    checked = 0
    for row in factor_rows(table).itertuples():
        key = (row.model, row.dataset)
        if key in NOWHERE:
            continue
        corners = itertools.product(printed(row.contributed_std), printed(row.mitigated_std), printed(golden[key]))
        values = [from_stds(*corner) for corner in corners]
        low, high = printed(row.importance)
        assert min(values) <= high, row
        assert max(values) >= low, row
        checked += 1
    assert checked == 196


@pytest.mark.parametrize("key", sorted(NOWHERE))
def test_one_golden_std_fits_a_column_whose_own_is_lost(table, key):
    rows = [row for row in factor_rows(table).itertuples() if (row.model, row.dataset) == key]
    assert rows
    low, high = 0.0, float("inf")
    for row in rows:
        differences = [
            from_stds(*corner, 1.0)
            for corner in itertools.product(printed(row.contributed_std), printed(row.mitigated_std))
        ]
        quotients = [value / score for value in differences for score in printed(row.importance)]
        if min(printed(row.importance)) > 0 or max(printed(row.importance)) < 0:
            low, high = max(low, min(quotients)), min(high, max(quotients))
    assert 0 < low <= high < 4

"""Baseline strategies: the stars of the published tables, the layout, and what cannot be judged."""

import math

import numpy as np
import pytest
from published_tables import needs_tables, read

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.verdicts import (
    baseline_important,
    baseline_strategy,
    golden_strategy,
    interactions_strategy,
    strategy_frame,
    strategy_table,
)


def two_scores(std):
    """Scores with exactly this population standard deviation."""
    return [0.7 - std, 0.7 + std]


@needs_tables
def test_stars_of_the_published_tables():
    published = read("pecher2024_strategies").replace("", "nan").astype({"std": float, "starred": float})
    golden = published[published["factor"] == "golden_model"].set_index(["model", "dataset", "strategy"])["std"]
    checked = 0
    for row in published[published["strategy"].isin(["random", "fixed"])].itertuples():
        if row.factor == "golden_model" or math.isnan(row.std):
            continue
        if math.isnan(golden_std := golden[row.model, row.dataset, row.strategy]):
            continue
        found = baseline_strategy(row.strategy, two_scores(row.std / 100), golden_std / 100, factor=row.factor)
        assert found.important == bool(row.starred), row
        checked += 1
    assert checked == 173


def test_numbers_by_hand():
    golden = golden_strategy([0.6, 0.8])
    assert golden.std == pytest.approx(0.1)
    found = baseline_strategy("random", [[0.64, 0.76], [np.nan, np.inf]], golden.std, factor="data_order")
    assert found.std == pytest.approx(0.06)
    assert (found.important, found.strategy) == (True, "random")
    assert baseline_strategy("fixed", two_scores(0.0499), golden.std, factor="data_order").important is False
    assert baseline_important(0.05, 0.1) is True
    record = importance([[0.5, 0.7], [0.5, 0.7]], [0.6, 0.8], factor="data_order")
    method = interactions_strategy(record)
    assert (method.std, method.important) == (pytest.approx(0.1), True)


def test_layout_of_the_table():
    golden = golden_strategy(two_scores(0.02244))
    results = [
        golden,
        baseline_strategy("random", two_scores(0.02517), golden.std, factor="label_selection"),
        baseline_strategy("fixed", two_scores(0.00594), golden.std, factor="label_selection"),
        baseline_strategy("random", two_scores(0.0212), golden.std, factor="data_order"),
    ]
    table = strategy_table(results)
    assert list(table.index) == ["golden_model", "label_selection", "data_order"]
    assert list(table.columns) == ["random", "fixed", "interactions"]
    assert table.loc["golden_model"].tolist() == ["2.244", "2.244", "2.244"]
    assert table.loc["label_selection"].tolist() == ["2.517 (*)", "0.594", ""]
    assert table.loc["data_order"].tolist() == ["2.120 (*)", "", ""]
    frame = strategy_frame(results)
    assert frame["important"].tolist()[1:] == [True, False, True]
    assert frame["important"].isna().tolist() == [True, False, False, False]
    assert strategy_table([]).empty
    assert strategy_frame([]).empty


def test_what_cannot_be_judged_has_no_verdict():
    results = [
        baseline_strategy("random", [0.1, 0.2], 0.0, factor="data_order"),
        baseline_strategy("fixed", [0.1, 0.2], math.nan, factor="data_order"),
        baseline_strategy("fixed", [0.1], 0.1, factor="data_split"),
        interactions_strategy(importance(np.full((3, 3), 0.5), [0.1, 0.2], factor="data_split")),
    ]
    assert [result.important for result in results] == [None] * 4
    assert strategy_table(results).loc["data_split", "fixed"] == "nan"

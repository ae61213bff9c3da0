"""The importance score: by hand, against an oracle, under shift and scale, with gaps, degenerate tables."""

import math

import numpy as np
import pandas as pd
import pytest
from drawn_tables import drawn
from numpy.testing import assert_allclose

from mlflow_l3d.analysis.importance import PATH_COLUMNS, importance, importance_path
from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED
from mlflow_l3d.designs import design_named

NUMBERS = PATH_COLUMNS[1:]


def additive_table(seed, rows, columns):
    return 0.7 + 0.02 * drawn(np.random.default_rng(seed), (rows, columns), (1.0, 0.25, 0.25))


@pytest.mark.parametrize(
    ("table", "expected"),
    [([[0, 2], [0, 2]], 1.0), ([[0, 0], [2, 2]], -1.0), ([[0, 2], [2, 0]], 1.0)],
    ids=["columns differ", "rows differ", "interaction"],
)
def test_tables_by_hand(table, expected):
    found = importance(table, [0, 2])
    assert found.importance == expected
    assert found.importance_corrected == expected
    assert (found.contributed_std, found.mitigated_std) == ((1.0, 0.0) if expected > 0 else (0.0, 1.0))
    assert found.golden_std == 1.0
    assert math.isnan(found.importance_corrected_ci_low)
    assert math.isnan(found.importance_corrected_ci_high)


def test_both_parts_by_hand():
    # stds within rows 1 and 3, mean 2; row means 1 and 7, std 3; golden std 2.
    found = importance([[0, 2], [4, 10]], [1, 5])
    assert (found.contributed_std, found.mitigated_std, found.golden_std) == (2.0, 3.0, 2.0)
    assert found.importance == -0.5
    assert found.score_mean == 4.0
    assert found.score_std == pytest.approx(math.sqrt(14))


def test_rows_that_lack_cells_count_with_what_they_have():
    table, golden = additive_table(5, 6, 4), additive_table(6, 1, 9)[0]
    gaps = table.copy()
    gaps[1, 2] = np.nan
    gaps[4, 0] = np.inf
    gaps[4, 1] = np.finfo(float).max
    found = importance(gaps, np.concatenate(([np.nan], golden[1:])))
    rows = [[score for score in row if abs(score) < 1] for row in gaps]
    assert found.contributed_std == pytest.approx(np.mean([np.std(row) for row in rows]))
    assert found.mitigated_std == pytest.approx(np.std([np.mean(row) for row in rows]))
    assert found.importance == pytest.approx((found.contributed_std - found.mitigated_std) / np.std(golden[1:]))
    assert (found.rows_used, found.cells_missing, found.golden_missing) == (6, 3, 1)
    assert found.score_mean == pytest.approx(np.nanmean(found.table))
    assert np.isnan(found.table).sum() == 3
    assert found.table.shape == (6, 4)


@pytest.mark.parametrize("model", [CROSSED, NESTED])
def test_a_factor_without_effect(model):
    """Rows differ, columns do not: importance -1, and no interval, since not one change was seen."""
    table = np.repeat(np.linspace(0.1, 0.9, 7)[:, None], 5, axis=1)
    found = importance(table, table[:, 0], model=model)
    assert found.importance == pytest.approx(-1)
    assert found.importance_corrected == -1
    assert np.isnan(found.corrected_interval).all()


def test_rows_without_effect():
    table = np.repeat(np.linspace(0.1, 0.9, 7)[None, :], 5, axis=0)
    found = importance(table, table[0])
    assert found.importance == pytest.approx(1)
    assert (found.importance_corrected, *found.corrected_interval) == (1, 1, 1)


def test_collapsed_share():
    assert importance([[0.3, 0.9], [np.nan, 0.4]], [0.5, 0.6], chance=0.5).collapsed_share == pytest.approx(2 / 3)
    assert math.isnan(importance([[0.3, 0.9]], [0.5]).collapsed_share)
    assert importance([[0.5, 0.9]], [0.5], chance=0.5).collapsed_share == 0.0


def test_input_is_left_as_it_was():
    table, golden = np.array([[np.inf, 0.1], [0.2, 0.3]]), np.array([np.inf, 0.1])
    importance(table, golden)
    assert np.isinf(table[0, 0])
    assert np.isinf(golden[0])


@pytest.mark.parametrize("model", [CROSSED, NESTED])
def test_path_is_the_score_of_every_prefix(model):
    table, golden = additive_table(7, 9, 5), additive_table(8, 1, 21)[0]
    table[3, 1] = np.nan
    golden[4] = np.nan
    last = importance(table, golden, model=model)
    path = design_named(model.name).paths({"f": last})["f"]
    assert list(path.columns) == list(PATH_COLUMNS)
    assert path["rows"].tolist() == list(range(2, 10))
    assert path["rows"].dtype == np.int64
    for record in path.to_dict("records"):
        rows = record["rows"]
        expected = importance(table[:rows], golden[: math.ceil(21 * rows / 9)], model=model)
        assert_allclose([record[name] for name in NUMBERS], [getattr(expected, name) for name in NUMBERS])
    assert path.iloc[-1][list(NUMBERS)].tolist() == [getattr(last, name) for name in NUMBERS]


def test_path_of_too_few_rows_is_empty():
    path = importance_path([[0.1, 0.2]], [0.1])
    assert isinstance(path, pd.DataFrame)
    assert len(path) == 0
    assert list(path.columns) == list(PATH_COLUMNS)

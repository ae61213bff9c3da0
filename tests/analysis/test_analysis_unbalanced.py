"""Crossed and nested tables that lack cells: the usual analysis where none is missing, and the truth on average."""

import math

import numpy as np
import pytest
from drawn_tables import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, f

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED, crossed, nested
from mlflow_l3d.analysis.importance.estimators.missing_cells import unbalanced_components, variances_without_each
from mlflow_l3d.analysis.importance.tables import with_scores
from mlflow_l3d.analysis.importance.variances import MeanSquares


def table_of(generator, *shape, nested=False):
    return 0.7 + drawn(generator, shape, (0.5, 0.5) if nested else (0.5, 0.3, 0.2))


def lacking(generator, table, share):
    return np.where(generator.random(table.shape) < share, np.nan, table)


def by_least_squares(table):
    """Mean squares and sizes from the residuals of fitted dummies, and from traces of projections."""
    row, column = np.nonzero(np.isfinite(table))
    y = table[row, column]
    rows, columns = np.eye(len(table))[row], np.eye(table.shape[1])[column]

    def projection(*effects):
        design = np.hstack(effects)
        return design @ np.linalg.pinv(design)

    both, without_rows, without_columns = projection(rows, columns), projection(columns), projection(rows)
    beyond_columns, beyond_rows, rest = both - without_rows, both - without_columns, np.eye(len(y)) - both
    squares = [y @ each @ y for each in (beyond_columns, beyond_rows, rest)]
    degrees = [round(np.trace(each)) for each in (beyond_columns, beyond_rows, rest)]
    return MeanSquares(
        *table.shape,
        of_rows=squares[0] / degrees[0],
        residual=squares[2] / degrees[2],
        of_columns=squares[1] / degrees[1],
        row_size=np.trace(rows.T @ beyond_columns @ rows) / degrees[0],
        column_size=np.trace(columns.T @ beyond_rows @ columns) / degrees[1],
        residual_degrees=degrees[2],
    )


def numbers(squares):
    return [getattr(squares, name) for name in MeanSquares.__slots__]


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (3, 3)])
def test_without_a_missing_cell_it_is_the_usual_analysis(shape):
    table = table_of(np.random.default_rng(0), *shape)
    assert numbers(unbalanced_components(table)) == pytest.approx(numbers(crossed.crossed_components(table)))
    for found, usual in zip(variances_without_each(table), crossed.crossed_without_each(table), strict=True):
        np.testing.assert_allclose(found, usual)


@given(st.integers(2, 8), st.integers(2, 8), st.floats(0, 0.5), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_equal_to_least_squares_whatever_is_missing(rows, columns, share, seed):
    generator = np.random.default_rng(seed)
    table = with_scores(lacking(generator, table_of(generator, rows, columns), share))
    if min(table.shape) < 2:
        return
    found = unbalanced_components(table)
    if found is not None:
        assert numbers(found) == pytest.approx(numbers(by_least_squares(table)), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_leaving_out_is_starting_anew(shape):
    generator = np.random.default_rng(3)
    table = with_scores(lacking(generator, table_of(generator, *shape), 0.15))
    for axis, found in enumerate(variances_without_each(table)):
        for place, pair in enumerate(zip(*found, strict=True)):
            squares = crossed.crossed_components(np.delete(table, place, axis))
            assert pair == pytest.approx((squares.contributed, squares.mitigated))
    ragged = with_scores(lacking(generator, table_of(generator, *shape, nested=True), 0.15))
    for place, pair in enumerate(zip(*nested.nested_estimate(ragged).without[0], strict=True)):
        squares = nested.nested_components(np.delete(ragged, place, 0))
        assert pair == pytest.approx((squares.contributed, squares.mitigated))


@pytest.mark.slow
@pytest.mark.parametrize("model", [CROSSED, NESTED], ids=["crossed", "nested"])
def test_variances_are_true_on_average(model):
    """A third of the cells is missing; within four standard errors."""
    generator = np.random.default_rng(4)
    tables = (lacking(generator, table_of(generator, 8, 5, nested=model is NESTED), 1 / 3) for _ in range(250))
    squares = [estimate.squares for estimate in map(model.estimate, tables) if estimate and estimate.squares]
    found = np.array([(each.contributed, each.mitigated) for each in squares])
    assert np.abs(found.mean(axis=0) - (0.5, 0.5)).max() < 4 * (found.std(axis=0) / math.sqrt(len(found))).max()


@pytest.mark.slow
@pytest.mark.parametrize("model", [CROSSED, NESTED], ids=["crossed", "nested"])
def test_a_twentieth_of_missing_cells_changes_little_and_the_interval_holds(model):
    """20 x 10 tables: close to the whole table's scores; the interval holds the truth as often as it says."""
    generator, far, held = np.random.default_rng(5), [], 0
    for _ in range(120):
        table = drawn(generator, (20, 10), (0.5, 0.5) if model is NESTED else (0.5, 0.5, 0.0))
        golden = generator.standard_normal(40)
        whole, part = (importance(each, golden, model=model) for each in (table, lacking(generator, table, 0.05)))
        far.append((part.importance - whole.importance, part.importance_corrected - whole.importance_corrected))
        held += part.importance_corrected_ci_low <= 0 <= part.importance_corrected_ci_high
    assert np.sqrt(np.mean(np.square(far), axis=0)).max() < 0.03
    assert held >= 0.95 * 120 - 3 * math.sqrt(120 * 0.95 * 0.05)


def test_a_column_that_always_fails_is_a_table_without_it():
    table, golden = table_of(np.random.default_rng(6), 20, 10), np.random.default_rng(7).standard_normal(50)
    whole = importance(table[:, :9], golden)
    table[:, 9] = np.nan
    found = importance(table, golden)
    assert found.metrics() == pytest.approx(whole.metrics())
    assert found.components == whole.components


def test_tables_that_fall_apart_and_tables_of_little():
    apart = np.full((6, 6), np.nan)
    apart[:3, :3], apart[3:, 3:] = table_of(np.random.default_rng(8), 3, 3), table_of(np.random.default_rng(9), 3, 3)
    assert numbers(unbalanced_components(apart)) == pytest.approx(numbers(by_least_squares(apart)))
    diagonal = np.where(np.eye(4, dtype=bool), 0.5, np.nan)
    assert crossed.crossed_components(diagonal) is None
    assert nested.nested_components(np.array([[0.1, np.nan], [np.nan, 0.3]])) is None


@pytest.mark.parametrize("missing", [1, 10])
def test_what_rows_and_columns_both_count_is_taken_away_whatever_is_missing(missing):
    """Pure interaction: intervals of tables that lack cells are hardly wider than those of the whole tables."""
    generator, ratios = np.random.default_rng(11), []
    for _ in range(40):
        whole = drawn(generator, (20, 10), (0.5, 0.0, 0.5))
        part = whole.copy()
        part.flat[generator.choice(whole.size, missing, replace=False)] = np.nan
        lengths = [np.ptp(crossed.crossed_estimate(table).interval()) for table in (part, whole)]
        ratios.append(lengths[0] / lengths[1])
    assert 0.97 < np.mean(ratios) < 1.04
    sums = np.add.outer(np.arange(5.0), [0.0, 2.0, 7.0])
    assert crossed._filled(np.where(np.eye(5, 3) > 0, np.nan, sums)) == pytest.approx(sums, abs=1e-3)


def tolerated(tables, share):
    """How many false claims of independent tables one seed in a thousand exceeds, if the true share is at its bound."""
    return int(binom.ppf(0.999, tables, share))


@pytest.mark.slow
def test_rows_of_one_score_do_not_make_intervals_too_sure():
    """At a share of one half, three rows in four with one score, at most 5 % of tables claim less (once 6.2 %)."""
    generator, claims = np.random.default_rng(6), 0
    for _ in range(8000):
        table = drawn(generator, (20, 3), (0.5, 0.5))
        table[5:, 1:] = math.nan
        claims += nested.nested_estimate(table).interval()[1] < 0
    assert claims <= tolerated(8000, 0.05)


@pytest.mark.parametrize("scores", [[3] * 20, [2] * 10 + [4] * 8 + [20] * 2], ids=["as many", "unequal"])
def test_rows_of_more_scores_count_more_in_the_degrees_of_freedom(scores):
    """Rows that differ far more than their scores: the parts of normal rows in the variance of the logit, put together.

    Of a mean square within rows of d degrees that is 2 (n_i - 1) / d^2; of rows, 2 (n_i / w)^2 with the sum w of their
    sizes. Rows of as many scores have one degree each, less one.
    """
    counts, columns = np.array(scores), np.arange(21)  # nobody has the last one
    table = np.linspace(0.4, 0.6, 20)[:, None] + 1e-6 * (-1.0) ** columns
    table[columns >= counts[:, None]] = math.nan
    total = counts.sum()
    parts = (counts - 1) / (total - 20) ** 2 + np.square(counts / (total - np.square(counts).sum() / total))
    expected = 19 / 20 * parts.sum() ** 2 / np.square(parts).sum()
    assert nested.nested_estimate(table).jackknife.degrees == pytest.approx(expected)


@pytest.mark.slow
def test_rows_of_unequal_spread_do_not_make_intervals_too_sure():
    """At a share of one half, spreads of rows drawn from an exponential distribution: 9 % may claim more or less.

    With M - 1 degrees of freedom, and limits for equal rows, 17 % did.
    """
    generator, claims = np.random.default_rng(7), 0
    for _ in range(600):
        within = generator.standard_exponential((20, 1)) / math.sqrt(2) * generator.standard_normal((20, 3))
        low, high = nested.nested_estimate(generator.standard_normal((20, 1)) + within).interval()
        claims += not low <= 0 <= high
    assert claims <= tolerated(600, 0.09)


def test_one_row_that_varies_counts_as_one_row():
    """All that is known of the variance within rows then comes from this row: its N - 1 degrees of freedom."""
    table = np.repeat(np.linspace(0.4, 0.6, 8)[:, None], 5, axis=1)
    table[3] += [0.1, -0.1, 0.2, -0.3, 0.1]
    squares, found = nested.nested_components(table), nested.nested_estimate(table)
    ratio = squares.of_rows / squares.residual
    assert found.jackknife is None
    low = (1 / (1 + (ratio / f.ppf(0.025, 1, 4) - 1) / 5)) ** 0.5
    assert found.interval()[0] == pytest.approx(low - math.sqrt(1 - low**2))

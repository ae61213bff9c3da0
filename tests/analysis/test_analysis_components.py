"""Variance components of a crossed table: degrees of freedom, leaving out one row or column, and rounding."""

import math
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.checks import all_checks
from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED
from mlflow_l3d.analysis.importance.estimators.crossed import (
    crossed_components,
    crossed_without_each,
    effects,
    mean_squares_without_one_row,
)
from mlflow_l3d.analysis.importance.tables import usable
from mlflow_l3d.analysis.importance.variances import MeanSquares
from mlflow_l3d.analysis.intervals import combined_error
from mlflow_l3d.analysis.planning.assurance import logit_variances

ALIKE = MeanSquares.complete(6, 4, of_rows=8.0, residual=2.0, of_columns=6.0)
APART = MeanSquares(6, 4, 8.0, 2.0, math.nan, row_size=4, column_size=math.nan, residual_degrees=18)
BOTH = pytest.mark.parametrize(("squares", "model"), [(ALIKE, CROSSED), (APART, NESTED)], ids=["crossed", "nested"])


def errors(squares, number):
    """Return what each mean square adds to the variance of a number: 2 MS^2 / df, times the square of the slope."""
    degrees = {"of_rows": 5, "of_columns": 3, "residual": squares.residual_degrees}
    steps = {name: getattr(squares, name) * np.array([1 + 1e-6, 1 - 1e-6]) for name in degrees}
    ends = {name: [number(replace(squares, **{name: value})) for value in steps[name]] for name in degrees}
    return [2 * (np.subtract(*ends[name]) / 2e-6) ** 2 / own for name, own in degrees.items()]


@BOTH
@pytest.mark.parametrize("part", ["total", "contributed"])
def test_degrees_of_freedom_are_those_of_satterthwaite(squares, model, part):
    number = attrgetter(part)
    degrees = 2 * number(squares) ** 2 / np.nansum(errors(squares, number))
    assert getattr(squares, f"{part}_degrees") == pytest.approx(degrees)


@BOTH
def test_variances_of_a_plan_are_those_of_its_mean_squares(squares, model):
    found = logit_variances(squares.variances(), model, rows=6, columns=4)
    of_rows, of_columns, residual = errors(squares, lambda each: math.log(each.contributed / each.mitigated))
    expected = squares.mitigated / squares.total, of_rows + residual, np.nan_to_num(of_columns)
    assert found == pytest.approx(expected)


def test_negative_component_is_kept_and_truncated():
    found = crossed_components(np.array([[0.0, 2.0], [2.0, 0.0]]))
    assert found.mitigated == pytest.approx(-2)
    assert found.total == found.contributed
    assert found.variances().total_index == 1.0


@pytest.mark.parametrize("shape", [(3, 2), (4, 3), (7, 5), (20, 10)])
def test_without_one_row_or_column_is_the_smaller_table(shape):
    table = 0.8 + 0.01 * np.random.default_rng(4).standard_normal(shape)
    squares = np.array(mean_squares_without_one_row(effects(table)))
    for row in range(shape[0]):
        expected = crossed_components(np.delete(table, row, axis=0))
        wanted = (expected.of_rows, expected.of_columns, expected.residual)
        assert_allclose(squares[:, row], wanted, rtol=1e-9, atol=1e-18)
    if shape[1] < 3:
        return
    variances = np.array(crossed_without_each(table)[1])
    for column in range(shape[1]):
        expected = crossed_components(np.delete(table, column, axis=1))
        wanted = (expected.contributed, expected.mitigated)
        assert_allclose(variances[:, column], wanted, rtol=1e-9, atol=1e-18)


def test_rounding_counts_as_zero():
    """Equal rows of numbers that binary fractions cannot hold: nothing but the columns may vary."""
    found = crossed_components(np.tile([0.1, 0.7, 0.3], (5, 1)))
    assert (found.of_rows, found.residual) == (0.0, 0.0)
    table = np.tile([0.1, 0.7, 0.3], (5, 1))
    table[2] += 0.01
    of_rows, _, residual = mean_squares_without_one_row(effects(table))
    assert of_rows[2] == 0.0
    assert (np.delete(of_rows, 2) > 0).all()
    assert residual[2] == 0.0


@pytest.mark.parametrize("scale", [1e-60, 1e-200, 1e-310])
def test_scores_without_squares_are_zero(scale):
    """The golden standard deviation was 0 without any check."""
    table = scale * np.random.default_rng(1).standard_normal((6, 4))
    record = importance(table, table[0], factor="f")
    assert record.golden_std == record.contributed_std == 0
    checks = all_checks(Evidence(importances={"f": record}, golden=usable(table[0])))
    assert "L3D004" in {each.code for each in checks}


def test_the_error_of_differences_of_any_size():
    left_out = [np.arange(5.0), np.arange(7.0) ** 2]
    error, degrees = combined_error(left_out)
    assert combined_error([1e-90 * each for each in left_out]) == pytest.approx((1e-90 * error, degrees), rel=1e-12)


def test_constant_table():
    found = crossed_components(np.full((4, 3), 0.1))
    assert found.total == 0.0
    assert np.isnan([found.variances().total_index, found.variances().importance]).all()

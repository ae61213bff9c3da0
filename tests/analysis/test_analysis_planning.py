"""Planner: closed forms, and expected half-widths against intervals of simulated tables."""

import math

import numpy as np
import pytest
from drawn_tables import drawn

from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED, RADIAL
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.planning.assurance import expected_half_width, optimal_columns
from mlflow_l3d.analysis.planning.runs_needed import runs_needed


def pilot(mitigated, main, interaction, design="crossed"):
    split = {"main": main, "interaction": interaction} if design == "crossed" else {}
    return VarianceComponents(design, "anova", 20, 10, main + interaction, mitigated, **split)


def simulated(generator, model, shape, truth):
    """Normal scores whose rows, columns and interactions have the given variances."""
    return drawn(generator, shape, truth if model.shared_columns else (truth[0], truth[1] + truth[2]))


@pytest.mark.parametrize(("share", "columns"), [(0.0, 2), (0.1, 2), (0.5, 3), (0.9, 11)])
def test_optimal_columns(share, columns):
    assert optimal_columns(share) == columns


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_optimal_columns_have_the_narrowest_interval(share):
    """For 1,200 cells in a nested design."""
    widths = {
        columns: expected_half_width(pilot(1 - share, share, 0), NESTED, rows=1200 // columns, columns=columns)
        for columns in range(2, 40)
    }
    best = min(widths, key=widths.__getitem__)
    assert abs(best - optimal_columns(share)) <= 1


@pytest.mark.parametrize("model", [CROSSED, NESTED])
@pytest.mark.parametrize("truth", [(0.5, 0.5, 0.0), (0.5, 0.0, 0.5), (0.8, 0.1, 0.1), (0.2, 0.4, 0.4)])
def test_delta_method_agrees_with_simulation(model, truth):
    plan = {"rows": 60, "columns": 20}
    delta = expected_half_width(pilot(*truth), model, **plan)
    generator = np.random.default_rng(0)
    ends = [model.estimate(simulated(generator, model, (60, 20), truth)).interval() for _ in range(60)]
    assert delta == pytest.approx(np.mean([high - low for low, high in ends]) / 2, rel=0.25)


def test_wide_where_nothing_else_matters():
    """The delta method errs on the careful side, and stays within bounds."""
    delta = expected_half_width(pilot(0.0, 1.0, 0.0), NESTED, rows=30, columns=5)
    generator = np.random.default_rng(0)
    ends = [NESTED.estimate(drawn(generator, (30, 5), (0.0, 1.0))).interval() for _ in range(200)]
    assert 1 >= delta > np.mean([high - low for low, high in ends]) / 2


def test_no_interval_no_half_width():
    assert math.isnan(expected_half_width(pilot(0.5, 0.5, 0), CROSSED, rows=2, columns=10))
    assert math.isnan(expected_half_width(pilot(0.5, 0.5, 0), CROSSED, rows=10, columns=2))
    assert math.isfinite(expected_half_width(pilot(0.5, 0.5, 0), NESTED, rows=10, columns=2))
    assert math.isnan(expected_half_width(pilot(0.0, 0.0, 0), NESTED, rows=10, columns=3))
    assert math.isnan(expected_half_width(pilot(0.5, 0.0, 0), NESTED, rows=10, columns=3))


def test_a_diverged_run_leaves_a_half_width():
    assert 0 < expected_half_width(pilot(1e18, 1.0, 0.0), RADIAL, rows=10, columns=2) < 1e-3


@pytest.mark.parametrize("model", [CROSSED, NESTED])
def test_runs_needed_is_the_smallest_that_is_enough(model):
    components = pilot(0.5, 0.1, 0.4)
    found = runs_needed(0.15, components, model)
    assert found.half_width <= 0.15
    assert found.cells == found.rows * found.columns
    one_less = expected_half_width(components, model, rows=found.rows - 1, columns=found.columns)
    assert one_less > 0.15
    narrower = runs_needed(0.1, components, model)
    assert narrower.cells > found.cells


def test_a_few_columns_of_a_crossed_table_are_never_enough():
    found = runs_needed(0.1, pilot(0.5, 0.5, 0.0), CROSSED, columns=10)
    assert (found.rows, found.columns, found.cells) == (None, None, None)
    assert found.half_width > 0.1
    assert runs_needed(0.1, pilot(0.5, 0.5, 0.0), NESTED, columns=10).cells is not None
    assert runs_needed(0.3, pilot(0.5, 0.5, 0.0), CROSSED).columns > 10


def test_pilot_of_a_nested_design_is_enough():
    nested, crossed = pilot(0.5, 0.25, 0.25, "nested"), pilot(0.5, 0.25, 0.25)
    assert runs_needed(0.2, nested, NESTED) == runs_needed(0.2, crossed, NESTED)
    assert runs_needed(0.3, nested, CROSSED).cells is not None


@pytest.mark.parametrize("model", [CROSSED, NESTED])
def test_the_half_width_does_not_depend_on_the_unit(model):
    size = {"rows": 20, "columns": 10}
    parts = (0.5, 0.3, 0.2)
    tiny = pilot(*[1e-240 * part for part in parts])
    assert expected_half_width(tiny, model, **size) == pytest.approx(expected_half_width(pilot(*parts), model, **size))

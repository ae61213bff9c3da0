"""Runs with which an interval becomes as narrow as wanted with some probability."""

import math

import numpy as np
import pytest
from drawn_tables import drawn

from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED, RADIAL
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.planning.assurance import Outlook, half_width_of
from mlflow_l3d.analysis.planning.runs_needed import runs_needed


def pilot(main, interaction, mitigated, scale=1.0):
    parts = [scale * part for part in (main, interaction, mitigated)]
    return VarianceComponents("crossed", "anova", 0, 0, parts[0] + parts[1], parts[2], parts[0], parts[1])


def simulated(generator, model, rows, columns, known):
    parts = (known.mitigated, known.main, known.interaction)
    return drawn(generator, (rows, columns), parts if model.shared_columns else (parts[0], parts[1] + parts[2]))


@pytest.mark.parametrize("model", [CROSSED, NESTED])
@pytest.mark.parametrize("known", [pilot(0.25, 0.25, 0.5), pilot(0.05, 0.05, 0.9)])
def test_the_goal_is_met_as_often_as_is_said(model, known):
    found = runs_needed(0.3, known, model, assurance=0.8)
    generator, met, count = np.random.default_rng(1), 0, 200
    for _ in range(count):
        low, high = model.estimate(simulated(generator, model, found.rows, found.columns, known)).interval()
        met += (high - low) / 2 <= 0.3
    assert 0.66 * count < met < 0.95 * count  # 80 %, from 200 simulated tables on either side
    assert found.half_width <= 0.3
    assert found.cells > runs_needed(0.3, known, model).cells


def test_it_does_not_depend_on_the_unit_and_rises_with_the_probability():
    sizes = {"rows": 20, "columns": 5}
    widths = [
        half_width_of(pilot(0.2, 0.3, 0.5, scale), NESTED, **sizes, assurance=share)
        for scale in (1.0, 1e-4)
        for share in (0.5, 0.8, 0.95)
    ]
    assert widths[:3] == pytest.approx(widths[3:])
    assert widths[0] < widths[1] < widths[2]


def test_what_no_table_reaches_stays_out_of_reach():
    assert runs_needed(0.05, pilot(0.5, 0, 0.5), CROSSED, assurance=0.8, columns=5).rows is None
    assert math.isnan(half_width_of(pilot(0, 0, 0), NESTED, rows=20, columns=5, assurance=0.8))
    assert math.isnan(half_width_of(pilot(0.5, 0, 0.5), CROSSED, rows=2, columns=5, assurance=0.8))


def product_table(generator, model, rows, columns):
    """Main effects, and an interaction that is the product of them; their variances are .25, .5 and .25."""
    own = generator.standard_normal((1 if model is CROSSED else rows, columns))
    others = generator.standard_normal((rows, 1))
    if model is RADIAL:
        own, others = own[:, [0, 1, 0]], np.hstack([others, others, generator.standard_normal((rows, 1))])
    return 0.5 * own + math.sqrt(0.5) * others + 0.5 * own * others


@pytest.mark.parametrize(("model", "rows", "columns"), [(CROSSED, 20, 10), (NESTED, 20, 3), (RADIAL, 100, 2)])
def test_plans_from_pilots_are_kept_where_effects_multiply(model, rows, columns):
    """Whatever the pilot found; plans by normal effects were kept in 0 to 13, 23 to 67 and 2 to 55 %."""
    generator, met = np.random.default_rng(2), []
    for _ in range(40):
        table = product_table(generator, model, rows, columns)
        pilot = Outlook.measured(model.estimate(table).components, model, model.estimate(table).without)
        found = runs_needed(0.5, pilot, model, assurance=0.8, columns=60 if model is CROSSED else None)
        if found.rows is not None:  # with 60 columns few pilots ask for more rows than a plan has
            low, high = model.estimate(product_table(generator, model, found.rows, found.columns)).interval()
            met.append((high - low) / 2 <= 0.5)
    assert len(met) >= 25
    assert 0.68 <= np.mean(met) <= 0.98


def test_a_pilot_that_says_more_needs_a_smaller_margin():
    generator, cells = np.random.default_rng(3), {}
    for rows in (10, 300):
        table = drawn(generator, (rows, 3), (0.5, 0.5))
        measured = Outlook.measured(NESTED.estimate(table).components, NESTED, NESTED.estimate(table).without)
        cells[rows] = runs_needed(0.2, measured, NESTED, assurance=0.8).cells
        cells[rows] /= runs_needed(0.2, measured, NESTED, assurance=0.5).cells
    assert cells[10] > cells[300] > 1

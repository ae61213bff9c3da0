"""Runs with which an interval becomes as narrow as wanted with some probability."""

import math

import numpy as np
import pytest

from mlflow_l3d.analysis.importance.models import CROSSED, NESTED
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.planning.assurance import assured_half_width, assured_runs
from mlflow_l3d.analysis.planning.runs_needed import runs_needed


def pilot(main, interaction, mitigated, scale=1.0):
    parts = [scale * part for part in (main, interaction, mitigated)]
    return VarianceComponents("crossed", "anova", 0, 0, parts[0] + parts[1], parts[2], parts[0], parts[1])


def drawn(generator, model, rows, columns, known):
    own = generator.standard_normal((1, columns) if model.shared_columns else (rows, columns))
    both = math.sqrt(known.interaction) * generator.standard_normal((rows, columns))
    others = math.sqrt(known.mitigated) * generator.standard_normal((rows, 1))
    return others + both + math.sqrt(known.main) * own


@pytest.mark.parametrize("model", [CROSSED, NESTED])
@pytest.mark.parametrize("known", [pilot(0.25, 0.25, 0.5), pilot(0.05, 0.05, 0.9)])
def test_the_goal_is_met_as_often_as_is_said(model, known):
    found = assured_runs(0.3, known, model, assurance=0.8)
    generator, met, count = np.random.default_rng(1), 0, 200
    for _ in range(count):
        low, high = model.estimate(drawn(generator, model, found.rows, found.columns, known)).interval()
        met += (high - low) / 2 <= 0.3
    assert 0.66 * count < met < 0.95 * count  # 80 %, from 200 simulated tables on either side
    assert found.half_width <= 0.3
    assert found.cells > runs_needed(0.3, known, model).cells


def test_it_does_not_depend_on_the_unit_and_rises_with_the_probability():
    sizes = {"rows": 20, "columns": 5}
    widths = [
        assured_half_width(pilot(0.2, 0.3, 0.5, scale), NESTED, **sizes, assurance=share)
        for scale in (1.0, 1e-4)
        for share in (0.5, 0.8, 0.95)
    ]
    assert widths[:3] == pytest.approx(widths[3:])
    assert widths[0] < widths[1] < widths[2]


def test_what_no_table_reaches_stays_out_of_reach():
    assert assured_runs(0.05, pilot(0.5, 0, 0.5), CROSSED, assurance=0.8, columns=5).rows is None
    assert math.isnan(assured_half_width(pilot(0, 0, 0), NESTED, rows=20, columns=5, assurance=0.8))
    assert math.isnan(assured_half_width(pilot(0.5, 0, 0.5), CROSSED, rows=2, columns=5, assurance=0.8))


@pytest.mark.parametrize(
    ("model", "known", "half_width"),
    [(NESTED, pilot(0.863, 0.049, 0.088), 0.3), (CROSSED, pilot(0.083, 0.22, 0.697), 0.9)],
)
def test_what_is_offered_is_narrow_enough(model, known, half_width):
    """The first few tries are not, in these cases."""
    found = assured_runs(half_width, known, model, assurance=0.8)
    size = {"rows": found.rows, "columns": found.columns}
    assert assured_half_width(known, model, **size, assurance=0.8) <= half_width

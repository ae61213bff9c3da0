"""The first-order index: what a factor brings about by itself."""

import math

import numpy as np
import pytest
from drawn_tables import covered, drawn

from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.designs.nested import NestedDesign


def record_of(table, design=CrossedDesign):
    golden = np.random.default_rng(0).standard_normal(table.size)
    return design.importances(Tables({"f": table}, golden))["f"]


@pytest.mark.parametrize("missing", [False, True])
def test_it_is_the_main_effect_by_the_total(missing):
    table = drawn(np.random.default_rng(1), (12, 8), (0.4, 0.4, 0.2))
    if missing:
        table[3, 2] = table[7, 7] = np.nan
    record = record_of(table)
    parts = record.components
    assert parts.main > 0
    assert record.first_order_index == pytest.approx(parts.main / (parts.main + parts.interaction + parts.mitigated))
    assert record.first_order_ci_low < record.first_order_index < record.first_order_ci_high
    assert record.first_order_index < parts.total_index
    details = record.details()
    assert details["first_order_index"] == record.first_order_index


def test_it_is_not_known_where_a_design_cannot_tell():
    table = drawn(np.random.default_rng(2), (12, 8), (0.4, 0.4, 0.2))
    assert math.isnan(record_of(table, NestedDesign).first_order_index)
    assert math.isnan(record_of(np.full((5, 5), 0.5)).first_order_index)


@pytest.mark.slow
@pytest.mark.parametrize("variances", [(0.5, 0.25, 0.25), (0.9, 0.1, 0.0), (0.5, 0.0, 0.5)])
def test_its_interval_covers(variances):
    generator = np.random.default_rng(3)
    records = (record_of(drawn(generator, (20, 10), variances)) for _ in range(150))
    intervals = ((record.first_order_ci_low - 1e-9, record.first_order_ci_high + 1e-9) for record in records)
    assert covered(intervals, variances[1]) >= 132 / 150  # at 95 %, fewer have a probability of 0.0005


@pytest.mark.parametrize("seed", range(20))
def test_it_is_a_share_of_the_total_that_is_reported_where_a_variance_is_cut(seed):
    """In half of these tables the mitigated variance is below 0."""
    record = record_of(drawn(np.random.default_rng(seed), (8, 6), (0, 0.3, 0.7)))
    parts = record.components
    assert record.first_order_index == pytest.approx(max(0, parts.main) / parts.total)
    assert record.first_order_ci_low <= record.first_order_index <= record.first_order_ci_high
    assert record.first_order_index <= parts.total_index

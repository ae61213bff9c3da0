"""Restricted maximum likelihood: equal to the analysis of variance on complete tables, unbiased on others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from checks_cases import checks_of
from drawn_tables import drawn

from mlflow_l3d.analysis.importance.estimators.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.estimators.missing_cells import reml_components
from mlflow_l3d.errors import L3DError


def simulated(seed, *shape):
    return drawn(np.random.default_rng(seed), shape, (0.5, 0.3, 0.2))


@pytest.mark.parametrize(("seed", "scale"), [(0, 1.0), (1, 0.01), (2, 100.0)])
def test_equal_to_the_analysis_of_variance_on_a_complete_table(seed, scale):
    table = scale * (3 + simulated(seed, 8, 6))
    expected = crossed_estimate(table).components
    assert expected.truncated == ()
    found = reml_components(table)
    for name in ("main", "interaction", "mitigated", "contributed", "total"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=2e-3)
    assert (found.method, found.rows, found.columns) == ("reml", 8, 6)
    assert found.importance == pytest.approx(expected.importance, abs=2e-3)


@pytest.mark.slow
def test_unbiased_with_a_fifth_of_the_cells_missing():
    found = []
    for seed in range(40):
        table = simulated(100 + seed, 8, 6)
        table[np.random.default_rng(seed).random(table.shape) < 0.2] = np.nan
        components = reml_components(table)
        found.append((components.mitigated, components.main, components.interaction))
    values = np.array(found)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - (0.5, 0.3, 0.2)) <= 4 * error).all()


def test_rows_that_lack_cells_are_used():
    table = simulated(4, 9, 5)
    table[0, 1] = np.nan
    kept = reml_components(table)
    assert (kept.method, kept.rows) == ("reml", 9)
    table[:, 2] = np.nan
    assert reml_components(table).columns == 4


def test_component_below_zero_becomes_zero():
    table = np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 1.5], [1.0, 1.5, 0.2]])
    assert "mitigated" in crossed_estimate(table).components.truncated
    found = reml_components(table)
    assert found.mitigated == pytest.approx(0.0, abs=1e-2)
    assert found.total_index == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize(
    "table", [np.zeros((0, 3)), [[0.1, 0.2]], [[0.1], [0.2]], [[0.1, np.nan], [np.nan, 0.2]], np.full((3, 3), np.nan)]
)
def test_too_little_for_components(table):
    assert reml_components(table) is None


def test_constant_scores():
    table = np.full((4, 3), 0.1)
    table[0, 0] = np.nan
    found = reml_components(table)
    assert found.total == 0.0
    assert math.isnan(found.importance)


@pytest.mark.slow
def test_where_reml_finds_nothing_the_analysis_of_variance_is_taken_and_the_check_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mlflow_l3d.analysis.importance.estimators import missing_cells
    from mlflow_l3d.analysis.importance.tables import Tables
    from mlflow_l3d.designs.crossed import CrossedDesign

    def fails(_table: object) -> None:
        msg = "missing=reml: the likelihood has no clear maximum."
        raise L3DError(msg)

    generator = np.random.default_rng(0)
    table = generator.standard_normal((8, 5)) + generator.standard_normal((8, 1))
    table[2, 3] = np.nan
    scores = Tables({"f": table}, generator.standard_normal(40))
    found = CrossedDesign.importances(scores, missing="reml")
    assert found["f"].components.method == "reml"
    low, high = found["f"].corrected_interval
    assert low < found["f"].importance_corrected < high
    monkeypatch.setattr(missing_cells, "reml_estimate", fails)
    fallen = CrossedDesign.importances(scores, missing="reml")
    dropped = CrossedDesign.importances(scores, missing="anova")
    assert fallen["f"].metrics() == dropped["f"].metrics()
    text = next(check.message for check in checks_of(fallen, scores.golden, missing="reml") if check.code == "L3D002")
    assert "Restricted maximum likelihood gave no estimate" in text
    assert "1 cell of 40 has no score (row 2)" in text

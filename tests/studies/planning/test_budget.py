"""What a budget buys: variances of a score by runs and examples, and how a mean is known best."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlflow_l3d.analysis.intervals import t_quantile
from mlflow_l3d.analysis.planning.runs_needed import MOST_RUNS, ScoreVariances, best, projection, score_variances
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named, pseudo_values, score
from mlflow_l3d.studies.dry_run import Budget
from mlflow_l3d.studies.planning.run import _costs

TRUTH = {"runs": 0.4, "examples": 1.0, "both": 2.0}


def drawn(generator, runs, pool):
    """Return a table of runs by examples with the variances of TRUTH."""
    parts = {"runs": (runs, 1), "examples": (1, pool), "both": (runs, pool)}
    return sum(generator.normal(scale=TRUTH[name] ** 0.5, size=shape) for name, shape in parts.items())


def variances(values, ids, level=None, levels=1):
    return score_variances(values, ids, level or [0] * len(values), levels)


def test_whole_tables_are_the_analysis_of_variance():
    table = drawn(np.random.default_rng(6), 6, 9) + 3
    found = variances(list(table), [np.arange(9)] * 6)
    of_runs, of_examples = 9 * table.mean(axis=1).var(ddof=1), 6 * table.mean(axis=0).var(ddof=1)
    left = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    both = np.square(left).sum() / (5 * 8)
    assert found.both == pytest.approx(both)
    assert found.runs == pytest.approx((of_runs - both) / 9)
    assert found.examples == pytest.approx((of_examples - both) / 6)
    assert (found.mean, found.pool, found.per_run, found.shared) == (pytest.approx(table.mean()), 9, 9, True)


def test_without_bias_where_each_run_has_examples_of_its_own():
    generator, sums = np.random.default_rng(2), []
    for _ in range(400):
        table = drawn(generator, 12, 40)
        chosen = [generator.permutation(40)[: generator.integers(10, 25)] for _ in table]
        found = variances([row[own] for row, own in zip(table, chosen, strict=True)], chosen)
        assert not found.shared
        sums.append([found.runs, found.examples, found.both])
    # Five standard errors of the mean of 400 estimates, none of which was cut off at 0 often.
    errors = np.std(sums, axis=0) / 20
    assert (np.abs(np.mean(sums, axis=0) - list(TRUTH.values())) < 5 * errors).all()


def test_a_list_that_is_used_equally_often_moves_no_mean():
    generator, shift = np.random.default_rng(5), np.array([-1.0, 0.0, 2.0])
    found = []
    for _ in range(300):
        level = generator.integers(0, 3, 18)
        table = drawn(generator, 18, 15) + shift[level][:, None]
        ids = [np.arange(15)] * 18
        plain, listed = variances(list(table), ids), variances(list(table), ids, level.tolist(), 3)
        found.append([plain.runs, listed.runs, listed.examples, listed.both])
    means, errors = np.mean(found, axis=0), np.std(found, axis=0) / 300**0.5
    truth = [TRUTH["runs"] + shift.var(), *TRUTH.values()]
    assert (np.abs(means - truth) < 5 * errors).all()
    known = ScoreVariances(0.4, 1.0, 2.0, mean=0, pool=15, per_run=15, shared=True, levels=3)
    table = projection(known, 100.0, per_run=1.0, per_example=1.0)
    assert (table["runs"] % 3 == 0).all()
    np.testing.assert_array_equal(table["runs"], 100 // (1 + table["examples"]) // 3 * 3)


@pytest.mark.parametrize("shared", [True, False])
def test_the_variance_of_a_mean_is_the_one_that_is_projected(shared):
    generator, pool, runs, examples = np.random.default_rng(3), 60, 7, 20
    means = []
    for _ in range(4000):
        table = drawn(generator, runs, pool)
        orders = generator.random((1 if shared else runs, pool)).argsort(axis=1)[:, :examples]
        means.append(np.take_along_axis(table, np.broadcast_to(orders, (runs, examples)), axis=1).mean())
    parts = ScoreVariances(**TRUTH, mean=0, pool=pool, per_run=20, shared=shared).of_mean(runs, examples)
    assert np.var(means) == pytest.approx(sum(parts), rel=0.1)


def test_the_best_of_all_ways_to_spend_a_budget():
    known = ScoreVariances(0.01, 0.2, 0.05, mean=0.7, pool=300, per_run=100, shared=True)
    table = projection(known, 1000.0, per_run=5.0, per_example=0.5)
    widths = {}
    for examples in range(2, 301):
        runs = int(1000 // (5 + 0.5 * examples))
        parts = np.array([0.01 / runs, 0.2 / examples, 0.05 / runs / examples])
        degrees = parts.sum() ** 2 / (parts**2 / [runs - 1, examples - 1, (runs - 1) * (examples - 1)]).sum()
        widths[examples] = t_quantile(degrees) * parts.sum() ** 0.5
    assert dict(zip(table["examples"], table["half_width"], strict=True)) == pytest.approx(widths)
    assert (table["cost"] <= 1000).all()
    top = best(table)
    assert top["examples"] == min(widths, key=widths.get)
    assert 2 < top["examples"] < 300


def test_what_costs_nothing_is_had_in_full():
    known = ScoreVariances(0.01, 0.2, 0.05, mean=0.7, pool=300, per_run=100, shared=True)
    assert best(projection(known, 10, per_run=1.0, per_example=0.0))[["examples", "runs"]].tolist() == [300, 10]
    assert projection(known, 2.9, per_run=1.0, per_example=0.0).empty
    assert projection(known, 1e12, per_run=1.0, per_example=0.0)["runs"].unique() == [MOST_RUNS]
    nothing = ScoreVariances(0, 0, 0, mean=1, pool=300, per_run=100, shared=True)
    assert best(projection(nothing, 100, per_run=0.0, per_example=1.0))["half_width"] == 0


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro"])
def test_pseudo_values_are_what_leaving_out_says(metric):
    generator = np.random.default_rng(4)
    labels = generator.integers(0, 3, 30)
    predictions = np.where(generator.random(30) < 0.7, labels, generator.integers(-1, 3, 30))
    whole = score(named(metric), labels, predictions, 3)
    without = [score(named(metric), np.delete(labels, i), np.delete(predictions, i), 3) for i in range(30)]
    values = pseudo_values(named(metric), labels, predictions, 3)
    np.testing.assert_allclose(values, 30 * whole - 29 * np.array(without))
    if metric == "accuracy":
        np.testing.assert_allclose(values, labels == predictions, atol=1e-12)


@pytest.mark.parametrize("ids", [[[0, 1], [0, 1]], [[0, 1], [2, 3], [4, 5]], [[0], [0], [0]]])
def test_too_little_to_tell(ids):
    assert variances([np.ones(len(each)) for each in ids], [np.array(each) for each in ids]) is None


def test_each_cell_also_pays_for_the_reference_set() -> None:
    approach, task = SimpleNamespace(only_evaluates=True), SimpleNamespace(reference_ids=range(50))
    request: Any = SimpleNamespace(setup=SimpleNamespace(approach=approach, task=task))
    assert str(Budget.parse("1 request", requests=True)) == "1 request"
    with pytest.raises(ParameterError, match="a number of cells"):
        Budget.parse("5 cellcells")
    requests, hours = (Budget.parse(text, requests=True) for text in ("500 requests", "1h"))
    assert _costs(request, requests, 3.0, 100)[:2] == (50, 1)
    assert _costs(request, hours, 3.0, 100)[:2] == pytest.approx((1.0, 0.02))

"""Stability of predicted numbers: by brute force over pairs, and equal to the function for one test set."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from analysis_oracle import put as put_run
from analysis_oracle import regression_consistency
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.consistency import Stability
from mlflow_l3d.analysis.consistency.comparisons import NumberComparison, pair_correlations
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import ParameterError

N = 25


def put(stability, phase, factor, row, *run):
    put_run(stability, phase, factor, row, None, *run)


def by_numbers(design, factors):
    return Stability(design_named(design).comparable(factors), NumberComparison())


def lin(one, other):
    shared = np.mean((one - one.mean()) * (other - other.mean()))
    return 2 * shared / (one.var() + other.var() + (one.mean() - other.mean()) ** 2)


def pairs_of(runs):
    """Both correlations of every pair that shares ten examples, or half of its own; a run maps id -> number."""
    for one, other in itertools.combinations(runs, 2):
        common = sorted(one.keys() & other.keys())
        if len(common) > 1 and all(len(common) >= min(10, len(run) / 2) for run in (one, other)):
            first, second = (np.array([run[key] for key in common]) for run in (one, other))
            yield np.corrcoef(first, second)[0, 1], lin(first, second)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
@settings(max_examples=40, deadline=None)
def test_different_test_sets_by_brute_force(seed, count, scale, shift):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=N)
    stability, runs = by_numbers("crossed", ["order"]), []
    for _ in range(count):
        ids = rng.permutation(N)[: rng.integers(1, N + 1)]
        guess = scale * (truth[ids] + rng.normal(size=len(ids)) + 0.3 * rng.normal()) + shift
        put(stability, "golden", None, None, guess, ids)
        runs.append(dict(zip(ids.tolist(), guess.tolist(), strict=True)))
    record, expected = stability.regression()["golden"], list(pairs_of(runs))
    if expected:
        assert tuple(record.values()) == pytest.approx(tuple(np.mean(expected, axis=0)), abs=1e-6)
    else:
        assert record == {}


def test_pairs_that_share_few_examples_do_not_pull_the_correlation_to_zero():
    rng = np.random.default_rng(0)
    truth, stability = rng.normal(size=200), by_numbers("crossed", ["order"])
    predictions = truth + 0.5 * rng.normal(size=(60, 200))
    ids = [rng.permutation(200)[:20] for _ in range(60)]
    for each, guess in zip(ids, predictions, strict=True):
        put(stability, "golden", None, None, guess[each], np.char.add("e", each.astype(str)))
    assert stability.regression()["golden"] == {}, "two examples a pair, whose correlation is -1 or 1"


def test_overlap_of_one_test_set_is_the_function_for_one():
    rng = np.random.default_rng(0)
    runs = 1e4 + rng.normal(size=N) + rng.normal(size=(300, N))
    whole = regression_consistency(runs)
    assert pair_correlations(runs) == pytest.approx((whole.pearson, whole.concordance), abs=1e-9)


def test_memory_does_not_grow_with_the_square_of_the_runs():
    runs = np.random.default_rng(0).normal(size=(1500, 20))
    tracemalloc.start()
    pair_correlations(runs)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * 1500**2 * 8


@pytest.mark.parametrize("shift", [0, 1], ids=["one test set", "different ones"])
def test_a_run_of_one_number_has_no_correlation(shift):
    rng = np.random.default_rng(3)
    stability = by_numbers("nested", ["order"])
    runs = [rng.normal(size=N), np.full(N, 0.1), rng.normal(size=N), rng.normal(size=N)]
    for at, run in enumerate(runs):
        put(stability, "investigation", "order", at // 2, run, np.arange(N) + shift * (at % 2))
    record = stability.regression()["order"]
    first, second = runs[2][shift:], runs[3][: N - shift]
    assert record["consistency_pearson"] == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert record["consistency_ccc"] == pytest.approx(lin(first, second) / 2), "0 with a run of one number"


def test_single_runs_and_bad_input():
    stability = by_numbers("crossed", ["order"])
    assert stability.regression() == {}
    put(stability, "golden", None, None, np.arange(3.0))
    assert stability.regression()["golden"] == {}
    put(stability, "golden", None, None, np.arange(3.0), [7, 8, 9])
    assert stability.regression()["golden"] == {}
    with pytest.raises(ParameterError, match=r"prediction=inf: must be a finite number"):
        put(stability, "golden", None, None, [1.0, math.inf])
    with pytest.raises(ParameterError, match=r"example_id=1: must occur once"):
        put(stability, "golden", None, None, [1.0, 2.0], [1, 1])
    with pytest.raises(ValueError, match="must be a number"):
        put(stability, "golden", None, None, ["a", "b"])
    with pytest.raises(ValueError, match="differ in number"):
        put(stability, "golden", None, None, [1.0, 2.0], [1, 2, 3])
    put(stability, "investigation", "order", 0, np.arange(3.0))
    put(stability, "investigation", "order", 1, np.arange(3.0))
    with pytest.raises(ValueError, match="closed"):
        put(stability, "investigation", "order", 0, np.arange(3.0))


def test_the_array_may_be_reused_by_the_caller():
    stability, run = by_numbers("crossed", ["order"]), np.arange(5.0)
    put(stability, "golden", None, None, run)
    run *= -1
    put(stability, "golden", None, None, run)
    assert stability.regression()["golden"]["consistency_pearson"] == pytest.approx(-1)

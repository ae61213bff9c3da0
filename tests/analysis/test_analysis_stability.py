"""Stability of a whole investigation: every number again by brute force over pairs of runs."""

import itertools
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from analysis_oracle import example_votes_of_frame
from analysis_oracle import put as put_run
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.consistency import Stability
from mlflow_l3d.analysis.consistency.results import Consistency, prediction_importance
from mlflow_l3d.analysis.intervals import ratio_interval
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import ParameterError

N = 30
LABELS = np.random.default_rng(5).integers(0, 3, N)
put = partial(put_run, labels=LABELS)


def guesses(rng, shape=()):
    """Predictions that are mostly right, some of them unparsed."""
    right = rng.random((*shape, N)) < 0.6
    return np.where(right, LABELS, rng.integers(-1, 3, (*shape, N)))


def frame_of(runs, ids):
    """One line for each prediction of runs with one test set."""
    lines = [{"run": at, "example_id": ids, "label": LABELS, "prediction": run} for at, run in enumerate(runs)]
    return pd.concat(map(pd.DataFrame, lines))


def con(runs):
    """CON from its definition: mean over pairs of the share of equal predictions."""
    pairs = list(itertools.combinations(runs, 2))
    return np.mean([np.mean((one == other) & (one != -1)) for one, other in pairs]) if pairs else math.nan


def ccon(runs):
    pairs = itertools.combinations(runs, 2)
    return np.mean([np.mean((one == other) & (one == LABELS)) for one, other in pairs])


def against_others(runs, at):
    return np.mean([np.mean((runs[at] == other) & (other != -1)) for j, other in enumerate(runs) if j != at])


def tables(seed=0, rows=4, columns=3, golden=5):
    rng = np.random.default_rng(seed)
    return {name: guesses(rng, (rows, columns)) for name in ("order", "split")}, guesses(rng, (golden,))


def filled(design, found, golden, ids=None):
    stability = Stability(design_named(design).comparable(list(found)))
    for factor, table in found.items():
        for (row, column), _ in np.ndenumerate(table[..., 0]):
            put(stability, "investigation", factor, row, column, table[row, column], ids=ids)
    for index, run in enumerate(golden):
        put(stability, "golden", None, None, None, run, index=index, ids=ids)
    return stability


@pytest.mark.parametrize("design", ["crossed", "nested"])
def test_tables_by_brute_force(design):
    found, golden = tables()
    stability = filled(design, found, golden)
    records = stability.consistencies()
    assert list(records) == ["order", "split", "golden"]
    for factor, table in found.items():
        assert records[factor].consistency == pytest.approx(np.mean([con(row) for row in table]))
        assert records[factor].correct_consistency == pytest.approx(np.mean([ccon(row) for row in table]))
        assert (records[factor].runs, records[factor].groups, records[factor].common_examples) == (12, 4, N)
        assert stability.metrics_of(factor) == records[factor].metrics()
    assert records["golden"].consistency == pytest.approx(con(golden))
    expected = [against_others(row, at) for table in found.values() for row in table for at in range(3)]
    expected += [against_others(golden, at) for at in range(5)]
    assert stability.agreement_of_runs() == pytest.approx(expected)
    assert stability.classes == LABELS.max() + 1


@pytest.mark.parametrize("design", ["crossed", "nested"])
def test_prediction_importance_of_tables(design):
    found, golden = tables(1)
    importances = filled(design, found, golden).prediction_importances()
    assert list(importances) == list(found)
    for factor, table in found.items():
        whole, rest = np.mean([con(row) for row in table]), con(golden)
        left = [[(1 - np.mean([con(row) for row in np.delete(table, i, 0)])) / (1 - rest) for i in range(4)]]
        if design == "crossed":
            without = [np.mean([con(row) for row in np.delete(table, j, 1)]) for j in range(3)]
            left.append([(1 - value) / (1 - rest) for value in without])
        left.append([(1 - whole) / (1 - con(np.delete(golden, i, 0))) for i in range(5)])
        record = importances[factor]
        assert record.share == pytest.approx((1 - whole) / (1 - rest))
        low, high = ratio_interval(record.share, *map(np.array, left))
        assert (record.share_ci_low, record.share_ci_high) == pytest.approx((low, high))
        assert record.interval_over == ("rows", *(["columns"] if design == "crossed" else []), "golden runs")


def test_columns_in_another_order_are_the_same_columns_and_a_row_that_lacks_one_keeps_its_value():
    found, golden = tables(2)
    whole = filled("crossed", found, golden).prediction_importances()["order"]
    mixed, gap = (Stability(design_named("crossed").comparable(["order"])) for _ in range(2))
    for row, runs in enumerate(found["order"]):
        for column in np.random.default_rng(row).permutation(3):
            put(mixed, "investigation", "order", row, int(column), runs[column])
            if (row, column) != (1, 2):
                put(gap, "investigation", "order", row, int(column), runs[column])
    for run in golden:
        put(mixed, "golden", None, None, None, run)
        put(gap, "golden", None, None, None, run)
    again = mixed.prediction_importances()["order"]
    assert (again.share_ci_low, again.share_ci_high) == pytest.approx((whole.share_ci_low, whole.share_ci_high))
    lacking = gap.prediction_importances()["order"]
    assert lacking.interval_over == ("rows", "columns", "golden runs")
    rows = [list(runs) if row != 1 else list(runs[:2]) for row, runs in enumerate(found["order"])]
    rest, rows_con = con(golden), [con(np.array(runs)) for runs in rows]

    def without_column(j):  # which is no run of a row that lacks it
        kept = [np.delete(runs, j, 0) if j < len(runs) else np.array(runs) for runs in rows if len(runs) > 2 or j == 2]
        return np.mean([con(runs) for runs in kept])

    left = [[(np.sum(rows_con) - one) / (len(rows) - 1) for one in rows_con], [without_column(j) for j in range(3)]]
    ratios = [[(1 - value) / (1 - rest) for value in values] for values in left]
    ratios.append([(1 - np.mean(rows_con)) / (1 - con(np.delete(golden, i, 0))) for i in range(5)])
    expected = ratio_interval(lacking.share, *map(np.array, ratios))
    assert (lacking.share_ci_low, lacking.share_ci_high) == pytest.approx(expected)


def radial(seed=4, rows=5, missing=(), ids=None):
    rng = np.random.default_rng(seed)
    base = guesses(rng, (rows,))
    swaps = {name: np.where(rng.random((rows, N)) < 0.7, base, guesses(rng, (rows,))) for name in ("order", "split")}
    stability = Stability(design_named("radial").comparable(list(swaps)))
    for row in range(rows):
        for name, runs in (("base", base), *swaps.items()):
            if (name, row) not in missing:
                factor, phase = (None, "base") if name == "base" else (name, "swap")
                put(stability, phase, factor, row, None, runs[row], ids=ids)
    return stability, base, swaps


def test_radial_groups_by_brute_force():
    stability, base, swaps = radial()
    records = stability.consistencies()
    sets = [base, *swaps.values()]
    for factor, runs in swaps.items():
        expected = np.mean([con(pair) for pair in zip(base, runs, strict=True)])
        assert records[factor].consistency == pytest.approx(expected)
        assert (records[factor].groups, records[factor].runs) == (5, 10)
    assert records["golden"].consistency == pytest.approx(np.mean([con(runs) for runs in sets]))
    assert (records["golden"].groups, records["golden"].runs) == (3, 15)
    pairs = [[con((base[row], runs[row])) for runs in swaps.values()] for row in range(5)]
    expected = [value for own in pairs for value in (np.mean(own), *own)]
    assert stability.agreement_of_runs() == pytest.approx(expected)
    for factor, runs in swaps.items():
        record = stability.prediction_importances()[factor]
        rows = np.array([con(pair) for pair in zip(base, runs, strict=True)])
        golden = np.mean([con(one) for one in sets])
        rest = [np.mean([con(np.delete(one, i, 0)) for one in sets]) for i in range(5)]
        left = [(1 - np.delete(rows, i).mean()) / (1 - rest[i]) for i in range(5)]
        assert record.share == pytest.approx((1 - rows.mean()) / (1 - golden))
        interval = ratio_interval(record.share, np.array(left))
        assert (record.share_ci_low, record.share_ci_high) == pytest.approx(interval)
        assert record.interval_over == ("rows with golden runs",)


def test_few_rows_with_their_golden_runs_have_no_interval():
    within, golden = Consistency("order", 0.7, 0.7, 4, 2, 9, 0.0), Consistency("golden", 0.5, 0.5, 4, 2, 9, 0.0)
    left = {"rows with golden runs": ([math.nan, 0.7], [0.5, 0.5])}
    few = prediction_importance(within, golden, [0.7, math.nan], left)
    assert math.isnan(few.share_ci_low)
    assert few.rows == 1


def test_two_columns_cannot_give_an_interval():
    found, golden = tables(14, columns=2)
    record = filled("crossed", found, golden).prediction_importances()["order"]
    assert record.share > 0
    assert math.isnan(record.share_ci_low)


def test_radial_with_missing_runs():
    stability, base, swaps = radial(6, missing={("base", 1), ("order", 3)})
    kept = {"base": [0, 2, 3, 4], "order": [0, 1, 2, 4], "split": [0, 1, 2, 3, 4]}
    sets = {"base": base, **swaps}
    pairs = {row: con((base[row], swaps["order"][row])) for row in (0, 2, 4)}
    record = stability.prediction_importances()["order"]
    golden = np.mean([con(sets[name][rows]) for name, rows in kept.items()])
    assert record.share == pytest.approx((1 - np.mean(list(pairs.values()))) / (1 - golden))
    assert record.rows == 3
    left = []
    for out in range(5):
        within = np.mean([value for row, value in pairs.items() if row != out])
        rest = np.mean([con(sets[name][[row for row in rows if row != out]]) for name, rows in kept.items()])
        left.append((1 - within) / (1 - rest))
    assert (record.share_ci_low, record.share_ci_high) == pytest.approx(ratio_interval(record.share, np.array(left)))
    alone = stability.agreement_of_runs()[3]
    assert math.isnan(alone), "the swap of row 1, whose base run is missing"


@pytest.mark.parametrize("kind", [np.int64, str, object])
def test_examples_are_those_of_the_frame_and_ids_do_not_matter(kind):
    names = np.array([f"id {7 * at % N}" for at in range(N)], dtype=object)
    ids = names.astype(kind) if kind is not np.int64 else np.arange(N) * 7 % N
    found, golden = tables(7)
    stability = filled("crossed", found, golden, ids)
    wanted, got = example_votes_of_frame(frame_of(golden, ids)), stability.examples()
    pd.testing.assert_frame_equal(got.frame, wanted.frame)
    for name in ("robust_share", "fragile_share", "never_right_share", "left_out"):
        assert getattr(got, name) == getattr(wanted, name), name
    plain = filled("crossed", found, golden)
    assert stability.consistencies() == plain.consistencies()
    assert stability.prediction_importances() == plain.prediction_importances()
    assert radial(ids=ids)[0].consistencies() == radial()[0].consistencies()
    np.testing.assert_array_equal(radial(ids=ids)[0].examples().frame["votes"], radial()[0].examples().frame["votes"])


def test_radial_examples_are_those_of_the_base_runs():
    stability, base, _ = radial(8)
    expected = example_votes_of_frame(frame_of(base, np.arange(N)))
    pd.testing.assert_frame_equal(stability.examples().frame, expected.frame)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(2, 12))
@settings(max_examples=40, deadline=None)
def test_different_test_sets(seed, runs, size):
    """Golden runs on their own test sets: per run on common examples, and the table of examples."""
    rng = np.random.default_rng(seed)
    stability, frames = Stability(design_named("crossed").comparable(["order"])), []
    places = rng.permutation(N)[:size]
    put(stability, "investigation", "order", 0, 0, LABELS[places], ids=places, labels=LABELS[places])
    for at in range(runs):
        ids = rng.permutation(N)[: rng.integers(1, size + 1)]
        guess = guesses(rng)[ids]
        put(stability, "golden", None, None, None, guess, index=at, ids=ids, labels=LABELS[ids])
        frames.append(pd.DataFrame({"run": at, "example_id": ids, "label": LABELS[ids], "prediction": guess}))
    answers = [dict(zip(one["example_id"], one["prediction"], strict=True)) for one in frames]
    compared = np.zeros((runs, runs), dtype=int)
    equal = np.zeros((runs, runs), dtype=int)
    for i, j in itertools.permutations(range(runs), 2):
        common = answers[i].keys() & answers[j].keys()
        compared[i, j] = len(common)
        equal[i, j] = sum(answers[i][key] == answers[j][key] != -1 for key in common)
    own = [equal[i].sum() / compared[i].sum() if compared[i].sum() else math.nan for i in range(runs)]
    found = stability.agreement_of_runs()
    assert math.isnan(found[0])
    assert found[1:] == pytest.approx(own, nan_ok=True)
    if not compared.sum():
        assert stability.examples() is None
        return
    record = stability.consistencies()["golden"]
    assert record.consistency == pytest.approx(equal.sum() / compared.sum())
    assert record.common_examples == pytest.approx(compared[np.triu_indices(runs, 1)].mean())
    pd.testing.assert_frame_equal(stability.examples().frame, example_votes_of_frame(pd.concat(frames)).frame)


def test_missing_golden_runs_and_single_runs_give_nothing_and_do_not_crash():
    found, _ = tables(9)
    stability = filled("crossed", found, [])
    assert list(stability.consistencies()) == ["order", "split"]
    assert stability.prediction_importances() == {}
    assert stability.examples() is None
    empty = Stability(design_named("radial").comparable(["order"]))
    assert (empty.consistencies(), empty.agreement_of_runs(), empty.examples()) == ({}, [], None)
    assert empty.classes is None
    assert empty.metrics_of("order") == {}
    put(empty, "base", None, 0, None, LABELS)
    assert list(empty.consistencies()) == ["golden"]
    assert empty.prediction_importances() == {}
    assert np.isnan(empty.agreement_of_runs()).all()


def test_wrong_places_are_named():
    stability = Stability(design_named("crossed").comparable(["order"]))
    with pytest.raises(ParameterError, match=r"phase='swap': must be one of golden, investigation"):
        put(stability, "swap", "order", 0, None, LABELS)
    with pytest.raises(ParameterError, match=r"factor='ordre'.*order"):
        put(stability, "investigation", "ordre", 0, 0, LABELS)
    with pytest.raises(ParameterError, match=r"row=None"):
        put(stability, "investigation", "order", None, 0, LABELS)
    put(stability, "investigation", "order", 0, 0, LABELS)
    put(stability, "investigation", "order", 1, 0, LABELS)
    with pytest.raises(ValueError, match="closed"):
        put(stability, "investigation", "order", 0, 1, LABELS)

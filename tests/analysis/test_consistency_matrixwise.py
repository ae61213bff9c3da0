"""Agreement of runs with one test set: brute force over pairs, identities, statsmodels' kappa, intervals, speed."""

from __future__ import annotations

import itertools
import math
import statistics
import time
import tracemalloc

import numpy as np
import pytest
from analysis_oracle import VoteCounter
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as kappa_of_statsmodels

from mlflow_l3d.analysis.stability.con import consistency_matrixwise
from mlflow_l3d.analysis.stability.votes import vote_consistency
from mlflow_l3d.errors import ParameterError


def pair_shares(predictions, labels):
    """CON and CCON of each pair, by plain loops."""
    equal, correct = {}, {}
    for i, j in itertools.combinations(range(len(predictions)), 2):
        hits = [a == b != -1 for a, b in zip(predictions[i], predictions[j], strict=True)]
        equal[i, j] = statistics.fmean(hits)
        right = [hit and a == r for hit, a, r in zip(hits, predictions[i], labels, strict=True)]
        correct[i, j] = statistics.fmean(right)
    return equal, correct


@st.composite
def runs_and_labels(draw, lowest=-1, highest=3, min_runs=2):
    shape = (draw(st.integers(min_runs, 7)), draw(st.integers(1, 8)))
    spread = draw(st.sampled_from([1, 1, 400]))
    predictions = draw(hnp.arrays(np.int64, shape, elements=st.integers(lowest, highest)))
    labels = draw(hnp.arrays(np.int64, shape[1], elements=st.integers(0, highest)))
    return np.where(predictions > 0, predictions * spread, predictions), labels * spread


@given(runs_and_labels())
@settings(max_examples=80, deadline=None)
def test_equal_to_brute_force_over_pairs(data):
    predictions, labels = data
    found = consistency_matrixwise(predictions, labels)
    equal, correct = pair_shares(predictions.tolist(), labels.tolist())
    runs = len(predictions)
    for shares, mean, std, per_run, without in (
        (equal, found.consistency, found.consistency_std, found.per_run, found.leave_one_out),
        (
            correct,
            found.correct_consistency,
            found.correct_consistency_std,
            found.per_run_correct,
            found.leave_one_out_correct,
        ),
    ):
        assert mean == pytest.approx(statistics.fmean(shares.values()))
        assert std == pytest.approx(statistics.pstdev(shares.values()), abs=1e-9)
        for run in range(runs):
            own = statistics.fmean(share for pair, share in shares.items() if run in pair)
            assert per_run[run] == pytest.approx(own)
            others = [share for pair, share in shares.items() if run not in pair]
            expected = statistics.fmean(others) if others else math.nan
            assert without[run] == pytest.approx(expected, nan_ok=True, abs=1e-12)
    assert found.agreement_on_wrong == pytest.approx(found.consistency - found.correct_consistency)
    assert found.unparsed_share == pytest.approx((predictions == -1).mean())
    assert vote_consistency(predictions, labels) == (found.consistency, found.correct_consistency)


@given(runs_and_labels())
@settings(max_examples=40, deadline=None)
def test_equal_to_the_vote_counter(data):
    predictions, labels = data
    counter = VoteCounter()
    for row in predictions:
        counter.add("all", np.arange(len(labels)), labels, row)
    record = counter.result("all")
    found = consistency_matrixwise(predictions, labels, spread=False)
    assert (found.consistency, found.correct_consistency) == (record.consistency, record.correct_consistency)
    assert found.unparsed_share == pytest.approx(record.unparsed_share)
    assert math.isnan(found.consistency_std)


@given(runs_and_labels(lowest=0, highest=1))
@settings(max_examples=80, deadline=None)
def test_with_two_classes_correct_consistency_follows_from_accuracy_and_consistency(data):
    predictions, labels = data
    predictions, labels = np.minimum(predictions, 1), np.minimum(labels, 1)
    found = consistency_matrixwise(predictions, labels)
    assert found.correct_consistency == pytest.approx(found.accuracy_mean - (1 - found.consistency) / 2, abs=1e-12)


@given(runs_and_labels(lowest=0, highest=4))
@settings(max_examples=60, deadline=None)
def test_kappa_is_that_of_statsmodels(data):
    predictions, labels = data
    found = consistency_matrixwise(predictions, labels).fleiss_kappa
    if len(np.unique(predictions)) == 1:
        assert math.isnan(found)
    else:
        table, _ = aggregate_raters(predictions.T)
        assert found == pytest.approx(kappa_of_statsmodels(table), abs=1e-9)


def test_identical_runs_agree_fully_and_have_no_interval():
    found = consistency_matrixwise([[0, 1, 1, 2]] * 5, [0, 1, 2, 2])
    assert (found.consistency, found.correct_consistency) == (1.0, 0.75)
    assert found.consistency_std == 0
    assert found.fleiss_kappa == pytest.approx(1)
    assert found.agreement_on_wrong == 0.25
    assert math.isnan(found.consistency_ci_low)
    assert math.isnan(found.consistency_ci_high)
    assert "consistency_ci_low" not in found.metrics()
    assert found.metrics()["consistency"] == 1.0


def test_unparsed_answers_never_agree():
    found = consistency_matrixwise([[-1, 0], [-1, 0], [-1, -1]], [0, 0])
    assert found.consistency == pytest.approx((0 + 1 / 3) / 2)
    assert found.unparsed_share == pytest.approx(4 / 6)
    assert consistency_matrixwise([[-1, -1]] * 3, [0, 1]).consistency == 0


def test_one_run_no_run_and_no_example_have_no_agreement():
    for predictions, labels in (([[0, 1]], [0, 1]), (np.zeros((0, 2), int), [0, 1]), (np.zeros((3, 0), int), [])):
        found = consistency_matrixwise(predictions, np.asarray(labels, dtype=int))
        assert math.isnan(found.consistency)
        assert math.isnan(found.correct_consistency)
        assert math.isnan(found.fleiss_kappa)
        assert len(found.per_run) == len(predictions) == len(found.to_frame())


def test_frame_has_one_row_a_run_and_shows_the_odd_one():
    frame = consistency_matrixwise([[0, 0, 1], [0, 0, 1], [0, 0, 1], [1, 1, 0]], [0, 0, 1]).to_frame()
    assert frame["consistency"].tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 0])
    assert frame.loc[3, "consistency_without"] == 1.0
    assert frame.sort_values("consistency")["run"].iloc[0] == 3


def simulated(rng, runs, examples, good):
    """Runs of two qualities; returns predictions, labels, and CON over all runs and examples there could be."""
    labels = rng.integers(0, 3, size=examples)
    hard = rng.random(examples) < 0.4
    right = np.where(hard, np.where(rng.random((runs, 1)) < good, 0.75, 0.35), 0.95)
    hits = rng.random((runs, examples)) < right
    wrong = (labels + rng.integers(1, 3, size=(runs, examples))) % 3
    mean_hard = good * 0.75 + (1 - good) * 0.35
    con = [p**2 + (1 - p) ** 2 / 2 for p in (mean_hard, 0.95)]
    return np.where(hits, labels, wrong), labels, hard, con


@pytest.mark.parametrize("over", ["runs", "examples", "both"])
def test_intervals_cover_what_they_claim(over):
    rng = np.random.default_rng(11)
    covered = 0
    repeats = 300
    fixed_runs = None
    for _ in range(repeats):
        predictions, labels, hard, con = simulated(rng, 20, 150, good=0.6)
        found = consistency_matrixwise(predictions, labels, interval_over=over, spread=False)
        if over == "runs":
            truth = np.where(hard, con[0], con[1]).mean()
        elif over == "both":
            truth = 0.4 * con[0] + 0.6 * con[1]
        else:
            # These runs on other examples: their own mixture of qualities, which 4,000 more examples show.
            fixed_runs = np.where(rng.random(20) < 0.6, 0.75, 0.35)
            predictions, labels, truth = with_fixed_runs(rng, fixed_runs, 150)
            found = consistency_matrixwise(predictions, labels, interval_over=over, spread=False)
        covered += found.consistency_ci_low <= truth <= found.consistency_ci_high
    assert 0.91 <= covered / repeats <= 1.0
    if over != "both":
        assert covered / repeats <= 0.985


def with_fixed_runs(rng, qualities, examples):
    labels = rng.integers(0, 3, size=examples)
    hard = rng.random(examples) < 0.4
    right = np.where(hard, qualities[:, None], 0.95)
    hits = rng.random(right.shape) < right
    wrong = (labels + rng.integers(1, 3, size=right.shape)) % 3
    runs = len(qualities)
    off = ~np.eye(runs, dtype=bool)
    on_hard = (np.outer(qualities, qualities) + np.outer(1 - qualities, 1 - qualities) / 2)[off].mean()
    return np.where(hits, labels, wrong), labels, 0.4 * on_hard + 0.6 * (0.95**2 + 0.05**2 / 2)


def test_interval_over_both_is_the_widest():
    rng = np.random.default_rng(5)
    predictions, labels, _, _ = simulated(rng, 12, 60, good=0.5)
    widths = {}
    for over in ("runs", "examples", "both"):
        found = consistency_matrixwise(predictions, labels, interval_over=over)
        assert found.consistency_ci_low < found.consistency < found.consistency_ci_high
        assert found.correct_consistency_ci_low < found.correct_consistency < found.correct_consistency_ci_high
        widths[over] = found.consistency_ci_high - found.consistency_ci_low
    assert widths["both"] > max(widths["runs"], widths["examples"])


@pytest.mark.parametrize("classes", [2, 3, 20, 300, 5000])
def test_many_classes_count_the_same(classes):
    rng = np.random.default_rng(classes)
    predictions = rng.integers(-1, classes, size=(9, 25))
    predictions[:, :12] = predictions[0, :12]
    labels = rng.integers(0, classes, size=25)
    equal, correct = pair_shares(predictions.tolist(), labels.tolist())
    found = consistency_matrixwise(predictions, labels)
    assert found.consistency == pytest.approx(statistics.fmean(equal.values()))
    assert found.correct_consistency == pytest.approx(statistics.fmean(correct.values()))
    assert found.consistency_std == pytest.approx(statistics.pstdev(equal.values()))
    shares = np.bincount(predictions[predictions >= 0]) / predictions.size
    expected = float(shares @ shares)
    assert found.fleiss_kappa == pytest.approx((found.consistency - expected) / (1 - expected))


def test_a_thousand_runs_of_a_thousand_examples_are_quick_and_small():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=1000)
    predictions = np.where(rng.random((1000, 1000)) < 0.9, labels, 1 - labels)
    durations = []
    for _ in range(5):
        start = time.perf_counter()
        con, ccon = vote_consistency(predictions, labels)
        durations.append(time.perf_counter() - start)
    assert 0.81 < con < 0.83
    assert 0.80 < ccon < 0.82
    # 0.004 s where it was written; the bound is loose, for a machine that does other things as well.
    assert min(durations) < 0.1
    tracemalloc.start()
    consistency_matrixwise(predictions, labels, spread=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * predictions.nbytes


@pytest.mark.parametrize(
    ("predictions", "labels", "words"),
    [
        ([0, 1], [0, 1], "one row a run"),
        ([[0, 1], [0, 1]], [0, 1, 1], "one row a run"),
        ([[0.5, 1]], [0, 1], "whole class numbers"),
        ([[0, -2]], [0, 1], "-1 or above"),
        ([[0, 1]], [0, -1], "0 or above"),
    ],
)
def test_bad_input_is_refused(predictions, labels, words):
    with pytest.raises(ValueError, match=words):
        consistency_matrixwise(predictions, labels)
    with pytest.raises(ValueError, match=words):
        vote_consistency(predictions, labels)


def test_an_unknown_interval_is_refused():
    with pytest.raises(ParameterError, match=r"interval_over='rows': must be one of both, examples, runs"):
        consistency_matrixwise([[0], [0]], [0], interval_over="rows")

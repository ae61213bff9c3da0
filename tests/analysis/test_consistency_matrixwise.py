"""Agreement of runs with one test set: brute force over pairs, identities, statsmodels' kappa, intervals, speed."""

import itertools
import math
import statistics

import numpy as np
import pytest
from analysis_oracle import consistency_matrixwise
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mlflow_l3d.analysis.consistency.runs import class_agreement


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
    spread = draw(st.sampled_from([1, 1, 400, 2000]))
    predictions = draw(hnp.arrays(np.int64, shape, elements=st.integers(lowest, highest)))
    labels = draw(hnp.arrays(np.int64, shape[1], elements=st.integers(0, highest)))
    return np.where(predictions > 0, predictions * spread, predictions), labels * spread


@given(runs_and_labels())
@settings(max_examples=80, deadline=None)
def test_equal_to_brute_force_over_pairs(data):
    predictions, labels = data
    found = class_agreement(predictions, labels)
    equal, correct = pair_shares(predictions.tolist(), labels.tolist())
    for shares, pairs in ((equal, found.pairs["consistency"]), (correct, found.pairs["correct_consistency"])):
        assert pairs.mean == pytest.approx(statistics.fmean(shares.values()))
        assert pairs.std == pytest.approx(statistics.pstdev(shares.values()), abs=1e-9)
        for run in range(len(predictions)):
            own = statistics.fmean(share for pair, share in shares.items() if run in pair)
            assert pairs.per_run[run] == pytest.approx(own)
    con, ccon = (statistics.fmean(shares.values()) for shares in (equal, correct))
    assert found.together["agreement_on_wrong"] == pytest.approx(con - ccon)
    assert found.together["unparsed_share"] == pytest.approx((predictions == -1).mean())
    shares = np.unique(predictions[predictions >= 0], return_counts=True)[1] / predictions.size
    by_chance = float(shares @ shares)
    kappa = (con - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan
    assert found.together["fleiss_kappa"] == pytest.approx(kappa, nan_ok=True)


def test_identical_runs_agree_fully_and_have_no_interval():
    found = consistency_matrixwise([[0, 1, 1, 2]] * 5, [0, 1, 2, 2])
    assert (found.consistency, found.correct_consistency) == (1.0, 0.75)
    assert found.consistency_std == 0
    assert found.fleiss_kappa == pytest.approx(1)
    assert found.agreement_on_wrong == 0.25
    assert math.isnan(found.consistency_ci_low)
    assert math.isnan(found.consistency_ci_high)


def test_one_run_has_no_agreement():
    found = consistency_matrixwise([[0, 1]], [0, 1])
    assert math.isnan(found.consistency)
    assert math.isnan(found.correct_consistency)
    assert math.isnan(found.fleiss_kappa)
    assert len(found.per_run) == 1


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


@pytest.mark.slow
def test_intervals_cover_what_they_claim():
    rng = np.random.default_rng(11)
    held, repeats = 0, 300
    for _ in range(repeats):
        predictions, labels, hard, con = simulated(rng, 20, 150, good=0.6)
        found = class_agreement(predictions, labels).pairs["consistency"]
        held += found.mean_ci_low <= np.where(hard, *con).mean() <= found.mean_ci_high
    assert 0.91 <= held / repeats <= 0.985

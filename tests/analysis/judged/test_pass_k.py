"""pass^k and pass@k: against all subsets, in closed form, and how often the intervals hold the truth."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from judged_app import App
from scipy.stats import binom

from mlflow_l3d.analysis.judged.repeated import pass_k, pass_table


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_shares_are_those_of_all_subsets(k):
    answers = [(1, 1, 0, 1), (0, 0, 0, 0), (1, 1, 1, 1, 1), (1, 0, 0, 1, 0, 1)]
    subsets = [list(combinations(row, k)) for row in answers]
    found = pass_k([sum(row) for row in answers], [len(row) for row in answers], k)
    assert found.all_pass == pytest.approx(np.mean([np.mean([all(s) for s in row]) for row in subsets]))
    assert found.any_pass == pytest.approx(np.mean([np.mean([any(s) for s in row]) for row in subsets]))
    assert found.all_low < found.all_pass < found.all_high


def test_rows_with_too_few_answers_are_left_out():
    found = pass_k([2, 1, 3], [2, 1, 3], 3)
    assert (found.rows, found.all_pass) == (1, 1)
    assert np.isnan(found.all_low)
    assert np.isnan(pass_k([1], [1], 2).all_pass)


def test_rows_that_all_pass_leave_an_interval():
    found = pass_k([4] * 50, [4] * 50, 4)
    assert found.all_pass == found.all_high == 1
    assert found.all_low == pytest.approx(1 / (1 + 2.0096**2 / 50), abs=1e-4)  # Wilson with Student's quantile


@pytest.mark.parametrize(("rows", "share"), [(50, 0.99), (50, 0.97), (100, 0.995)])
def test_intervals_allow_for_rare_rows_that_were_not_seen(rows, share):
    covered = 0.0
    for passed in range(rows + 1):
        found = pass_k(np.arange(rows) < passed, np.ones(rows), 1)
        covered += binom.pmf(passed, rows, share) * (found.all_low <= share <= found.all_high)
    assert covered > 0.95


def test_a_table_counts_an_answer_as_passed_by_the_majority_of_its_judgements():
    table = App(threshold=0.0).draw(np.random.default_rng(0), 20, 4, 3)
    passed = (table.groupby(["row", "answer"])["value"].sum() >= 2).groupby("row").sum()
    lines = pass_table(table)
    assert list(lines["k"]) == [1, 2, 3, 4]
    for k in (1, 4):
        assert lines["all_pass"][k - 1] == pytest.approx(pass_k(passed, np.full(20, 4), k).all_pass)


def test_answers_of_other_prompts_are_no_repeats():
    """One prompt always passes and one never: of two answers to one prompt both pass, or none does."""
    frame = pd.DataFrame({"row": [*"aaaabbbb"], "answer": range(8), "prompt": [*"xxyyxxyy"], "judge": "exact"})
    lines = pass_table(frame.assign(value=[1, 1, 0, 0] * 2))
    assert lines[["k", "all_pass", "any_pass", "rows"]].to_numpy().tolist() == [[1, 0.5, 0.5, 2], [2, 0.5, 0.5, 2]]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "spread"), [(50, (1.0, 1.0)), (200, (4.0, 1.0))])
def test_intervals_of_four_answers_hold_the_truth(rows, spread):
    random = np.random.default_rng(3)
    truth = [np.mean(random.beta(*spread, 400_000) ** k) for k in (1, 2, 4)]
    held = []
    for _ in range(400):
        passed = random.binomial(4, random.beta(*spread, rows))
        found = [pass_k(passed, np.full(rows, 4), k) for k in (1, 2, 4)]
        held.append([each.all_low <= value <= each.all_high for each, value in zip(found, truth, strict=True)])
    coverage = np.mean(held, axis=0)
    assert ((coverage > 0.92) & (coverage < 0.98)).all(), coverage

"""Levels of factors by each scorer: which is best, adjusted for all pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from mlflow_l3d.studies.genai.results import best_level
from mlflow_l3d.studies.judged.numbers import adjusted, level_pairs, pair_of, score_scorer
from mlflow_l3d.studies.judged.results import JudgedEvaluation


@pytest.fixture
def table() -> pd.DataFrame:
    """Return scores of 3 prompts x 2 models x 2 repeats: the first prompt is 2 better than the others, models equal."""
    random = np.random.default_rng(3)
    names = ["row", "prompt", "model", "repeat"]
    index = pd.MultiIndex.from_product([range(40), ["a", "b", "c"], ["small", "large"], range(2)], names=names)
    frame = index.to_frame(index=False).assign(judge="x", scorer="points", answer=range(len(index)), failed="")
    rows = random.normal(size=40)[frame["row"]]
    return frame.assign(value=2.0 * frame["prompt"].eq("a") + rows + random.normal(size=len(frame)))


def test_pairs_are_those_of_means_of_rows_adjusted_by_holm(table: pd.DataFrame) -> None:
    pairs = adjusted([*level_pairs(table, ["prompt", "model"], True)])
    expected = []
    for factor in ("prompt", "model"):
        means = table.groupby(["row", factor])["value"].mean().unstack()
        for one, other in combinations(table[factor].unique(), 2):
            gaps = means[one] - means[other]
            expected.append((factor, one, other, gaps.mean(), stats.ttest_1samp(gaps, 0).pvalue, gaps.sem()))
    assert [(pair.factor, pair.first, pair.second) for pair in pairs] == [each[:3] for each in expected]
    _, holm, *_ = multipletests([each[4] for each in expected], method="holm")
    half = stats.t.ppf(1 - 0.025 / 4, 39)
    for pair, (*_, mean, p, error), p_adjusted in zip(pairs, expected, holm, strict=True):
        one = pair.record
        assert one.difference == pytest.approx(mean)
        # The variance is a little larger: one over the number of rows that differ; a sign test bounds the largest.
        assert one.error == pytest.approx(max(error * np.sqrt(1 + 1 / 39), one.error * (one.verdict == "better")))
        assert one.joint_high == pytest.approx(mean + half * one.error)
        assert (one.p >= p, one.p_adjusted >= p_adjusted) == (True, True)
    assert [pair.record.verdict for pair in pairs] == ["better", "better", "undecided", "undecided"]


def test_the_best_level_has_its_difference_and_verdict(table: pd.DataFrame) -> None:
    pairs = adjusted([*level_pairs(table, ["prompt", "model"], True)])
    assert best_level(pairs[:3]).startswith("On points, **a** is better than b and c: difference +2.")
    assert best_level(pairs[3:]).startswith("On points, undecided between **")
    lower = adjusted([*level_pairs(table, ["prompt"], False)])
    assert " is better than a; undecided between " in best_level(lower)
    assert "**a**" not in best_level(lower)
    equal = adjusted([*level_pairs(table.assign(value=1.0), ["model"], True)])
    assert best_level(equal) == "On points, all levels are equal."


def test_a_system_that_is_not_worse_by_more_than_the_smallest_effect_is_named(table: pd.DataFrame) -> None:
    sides = [part for _, part in table.groupby("model", sort=False)]

    def said(effect: float | None, higher: bool = True) -> str:
        pair = pair_of("small", "large", sides, smallest_effect=effect, higher_is_better=higher)
        assert pair.summary()["non_inferior"] == pair.not_worse[1:6]
        return pair.not_worse

    one = pair_of("small", "large", sides).record
    most, other = -one.low, one.high  # that the first, and the second, may be smaller by
    assert 0 < most < other
    words = f" small is not worse than large by more than {most * 1.01:.3f} on points (non-inferiority)."
    assert said(most * 1.01) == words
    assert pair_of("small", "large", sides, smallest_effect=0.5).planned == "0.500"
    assert " large is not worse than small" in said(most * 1.01, higher=False)
    assert [said(None), said(most * 0.99), said(other * 1.01)] == [""] * 3


def test_a_level_that_loses_its_low_answers_is_not_better(table: pd.DataFrame) -> None:
    lower = table.groupby(["row", "prompt", "model"])["value"].transform("min")
    is_lost = table["model"].eq("large") & table["value"].eq(lower)
    lossy = table.assign(value=table["value"].mask(is_lost), failed=np.where(is_lost, "answer", ""))
    (pair,) = adjusted([*level_pairs(lossy, ["model"], True)])
    assert pair.record.p < 0.001
    assert pair.record.verdict == "undecided"
    assert "(120 of 240 answers of large are lost)." in best_level([pair])
    (pair,) = adjusted([*level_pairs(lossy.assign(value=lossy["value"] * 0 + 1), ["model"], True)])
    assert best_level([pair]) == "On points, all levels are equal (120 of 240 answers of large are lost)."


def test_levels_are_compared_at_levels_of_other_factors_that_both_have(table: pd.DataFrame) -> None:
    """A budget left the best prompt to one model only."""
    few = table[table["model"].eq("small") | table["prompt"].eq("b")]
    (pair,) = (pair for pair in level_pairs(few, ["prompt", "model"], True) if pair.factor == "model")
    both = few[few["prompt"].eq("b")].groupby("model")["value"].mean()
    assert pair.record.difference == pytest.approx(both["small"] - both["large"])
    apart = table[table["model"].eq("small") == table["prompt"].eq("a")]
    assert {pair.factor for pair in level_pairs(apart, ["prompt", "model"], True)} == {"prompt"}


@pytest.mark.parametrize("repeats", [1, 2])
def test_verdicts_of_different_prompts_say_nothing_of_verdicts_that_change(table: pd.DataFrame, repeats: int) -> None:
    few = table[table["repeat"] < repeats]
    verdicts = few.assign(row=few["row"].astype(str), value=(few["value"] > 0).astype(float))
    one = score_scorer(verdicts)
    page = " ".join(JudgedEvaluation("", ("run",), "app", (one,), ()).summary().split())
    assert ("Do verdicts change? Not known: each answer has one judgement" in page) == (repeats == 1)
    assert ("points/unstable_rows" in one.metrics()) == (repeats == 2)


def test_repeats_of_some_rows_are_seen_although_others_miss_a_version() -> None:
    """Four of ten rows are asked twice and have a second prompt: 0.9 answers per row and prompt."""
    asked = [(str(row), "x", repeat) for row in range(10) for repeat in range(2 if row < 4 else 1)]
    asked += [(str(row), "y", 0) for row in range(4)]
    frame = pd.DataFrame(asked, columns=["row", "prompt", "value"]).assign(judge="exact", scorer="points")
    one = score_scorer(frame.assign(answer=range(len(frame)), value=frame["value"].astype(float)))
    assert one.components.design["repeat"] < 1
    assert one.metrics()["points/unstable_rows"] == 4

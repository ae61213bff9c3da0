"""What a comparison says, in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.analysis.comparison.compare import compare_systems
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.comparison.report.page import comparison_document
from mlflow_l3d.studies.comparison.report.tables import luck_table
from mlflow_l3d.studies.comparison.report.words import advice_on, answers


def compared(first, second, **options):
    pair = [
        System(name, np.array(scores, dtype=float), {"data_order": np.arange(len(scores))})
        for name, scores in (("A", first), ("B", second))
    ]
    return compare_systems({"task": pair}, named("accuracy"), **options)


def text_of(comparison):
    return comparison_document(comparison, pd.DataFrame(), pd.DataFrame()).to_text()


@pytest.mark.parametrize(
    ("second", "options", "shorts"),
    [
        ([0.5, 0.6, 0.7, 0.8], {}, ("undecided", "50.0 % of the time", "a smallest effect")),
        ([0.4, 0.51, 0.59, 0.7], {}, ("A by 10.00 pp", "62.5 % of the time", "settled")),
        ([0.5, 0.6, 0.7, 0.8], {"smallest_effect": 0.01}, ("undecided", "50.0 % of the time", "100 runs")),
        ([0.501, 0.6, 0.699, 0.8], {"smallest_effect": 0.01}, ("equivalent", "50.0 % of the time", "settled")),
        ([0.9, 0.3, 0.75, 0.55], {}, ("undecided", "50.0 % of the time", "1,311 runs")),
    ],
)
def test_short_answers(second, options, shorts):
    found = compared([0.5, 0.6, 0.7, 0.8], second, **options)
    assert tuple(answer.short for answer in answers(found)) == shorts
    text = text_of(found)
    assert advice_on(found.differences[0]).text.partition(" Of ")[0] in " ".join(text.split())


@pytest.mark.parametrize(
    ("changes", "do", "why"),
    [
        ({"verdict": "better"}, "settled", "The 12 runs of each settle it."),
        ({"verdict": "better", "runs": (12, 15)}, "settled", "The 12 and 15 runs of each settle it."),
        ({"runs_to_settle": 16.0}, "16 runs", "12 are there"),
        ({"of_runs": 0.94, "of_examples": 0.06}, "more runs and test examples", "about 900 test examples"),
        ({"of_runs": 0.2, "of_examples": 0.8}, "more test examples", "about 900 test examples"),
        ({"examples_needed": math.inf}, "a smallest effect", "There is no difference to settle."),
    ],
)
def test_advice_follows_the_verdict_and_what_the_difference_varies_by(changes, do, why):
    found = compared([0.5, 0.6, 0.8], [0.4, 0.6, 0.7])
    base = {"runs": (12, 12), "verdict": "undecided", "examples_needed": 900.0, "runs_to_settle": math.inf}
    one = replace(found.differences[0], **base | changes)
    assert advice_on(one).short == do
    assert why in advice_on(one).text
    assert luck_table(replace(found, differences=(one,))).rows[0][-1] == do


def test_what_is_paired_and_what_is_not_is_said():
    one = System("A", np.array([0.5, 0.6, 0.8]), {"data_split": np.arange(3), "data_order": np.arange(3)})
    other = System("B", np.array([0.4, 0.6, 0.7]), {"data_split": np.arange(3), "sample_choice": np.arange(3)})
    text = " ".join(text_of(compare_systems({"t": [one, other]}, named("accuracy"))).split())
    assert "Shared runs have the same data_split, not data_order, sample_choice." in text
    apart = System("B", other.scores, {"data_split": np.arange(5, 8)})
    text = " ".join(text_of(compare_systems({"t": [one, apart]}, named("accuracy"))).split())
    assert "Nothing is paired: the two share neither runs nor test examples." in text

"""What a comparison says, in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.analysis.comparison.compare import compare_systems
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.comparison.text import comparison_text
from mlflow_l3d.report.comparison.words import answers


def compared(first, second, **options):
    pair = [
        System(name, np.array(scores, dtype=float), {"data_order": np.arange(len(scores))})
        for name, scores in (("A", first), ("B", second))
    ]
    return compare_systems({"task": pair}, named("accuracy"), **options)


@pytest.mark.parametrize(
    ("second", "options", "shorts"),
    [
        ([0.5, 0.6, 0.7, 0.8], {}, ("undecided", "50.0 % of the time", "no difference to settle")),
        ([0.4, 0.51, 0.59, 0.7], {}, ("A by 10.00 pp", "62.5 % of the time", "settled")),
        ([0.5, 0.6, 0.7, 0.8], {"smallest_effect": 0.01}, ("equivalent", "50.0 % of the time", "settled")),
        ([0.9, 0.3, 0.75, 0.55], {}, ("undecided", "50.0 % of the time", "1,311 runs")),
    ],
)
def test_short_answers(second, options, shorts):
    found = compared([0.5, 0.6, 0.7, 0.8], second, **options)
    assert tuple(answer.short for answer in answers(found)) == shorts
    assert max(map(len, comparison_text(found, pd.DataFrame()).splitlines())) <= 100


def test_what_is_paired_and_what_is_not_is_said():
    one = System("A", np.array([0.5, 0.6, 0.8]), {"data_split": np.arange(3), "data_order": np.arange(3)})
    other = System("B", np.array([0.4, 0.6, 0.7]), {"data_split": np.arange(3), "sample_choice": np.arange(3)})
    text = " ".join(comparison_text(compare_systems({"t": [one, other]}, named("accuracy")), pd.DataFrame()).split())
    assert "Shared runs have the same data_split, not data_order, sample_choice." in text
    apart = System("B", other.scores, {"data_split": np.arange(5, 8)})
    text = " ".join(comparison_text(compare_systems({"t": [one, apart]}, named("accuracy")), pd.DataFrame()).split())
    assert "Nothing is paired: the two share neither runs nor test examples." in text

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
from mlflow_l3d.report import style
from mlflow_l3d.studies.comparison.report.figures import difference_figure, score_figure
from mlflow_l3d.studies.comparison.report.page import comparison_document, luck_table
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


def test_the_figure_of_differences_shows_the_intervals_of_the_table():
    systems = {
        task: [System(name, np.array(scores), {"data_order": np.arange(4)}) for name, scores in rows.items()]
        for task, rows in {
            "first": {"A": [0.5, 0.6, 0.7, 0.8], "B": [0.4, 0.51, 0.59, 0.7], "C": [0.5, 0.62, 0.68, 0.8]},
            "second": {"A": [0.3, 0.35, 0.4, 0.3], "B": [0.2, 0.26, 0.31, 0.2], "C": [0.31, 0.35, 0.38, 0.32]},
        }.items()
    }
    found = compare_systems(systems, named("accuracy"), smallest_effect=0.02)
    (axes,) = difference_figure(found).axes
    assert [len(found.differences), len(found.over_tasks)] == [6, 3]
    shown = [*found.differences, *(pair.found for pair in found.over_tasks)]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[0] == "A\n- B, first"
    assert [label.endswith(", over tasks") for label in labels] == [False] * 6 + [True] * 3
    _, *lines = axes.lines  # the first is at zero
    for at, one in enumerate(shown):
        joint, interval, middle = lines[3 * at : 3 * at + 3]
        np.testing.assert_allclose(interval.get_xdata(), [100 * one.low, 100 * one.high])
        np.testing.assert_allclose(middle.get_xdata(), [100 * one.difference])
        if at < 6:
            np.testing.assert_allclose(joint.get_xdata(), [100 * one.joint_low, 100 * one.joint_high])
    verdicts = [one.verdict for one in found.differences] + [pair.verdict for pair in found.over_tasks]
    coloured = [lines[3 * at + 1].get_color() == style.BLUE for at in range(9)]
    assert coloured == [verdict in ("better", "worse") for verdict in verdicts]
    assert {True, False} == set(coloured)
    assert "smallest effect" in axes.get_figure().legends[0].get_texts()[0].get_text()


def test_the_figure_of_scores_shows_every_run_and_joins_what_is_shared():
    found = compared([0.5, 0.6, 0.7, 0.8], [0.4, 0.51, 0.59, 0.7])
    scores = pd.DataFrame(
        {
            "task": "task",
            "system": ["A"] * 4 + ["B"] * 4,
            "score": [0.5, 0.6, 0.7, 0.8, 0.4, 0.51, 0.59, 0.7],
            "pair": [0, 1, 2, None, 0, 1, 2, None],
        }
    )
    (axes,) = score_figure(found, scores).axes
    for points, name in zip(axes.collections, ("A", "B"), strict=True):
        own = scores.loc[scores["system"] == name, "score"]
        np.testing.assert_allclose(points.get_offsets()[:, 0], 100 * own)
    joined = [line.get_xdata().tolist() for line in axes.lines[:-2]]
    np.testing.assert_allclose(joined, [[50, 40], [60, 51], [70, 59]])
    np.testing.assert_allclose([line.get_xdata()[0] for line in axes.lines[-2:]], [65, 55])

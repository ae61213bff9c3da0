"""What the strategies say together: where the simpler ones differ from the published method."""

import math

import numpy as np
import pytest

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.verdicts import StrategyResult
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.strategies.run import strategies_document

FACTORS = ("order", "split")


def document(*verdicts):
    """Return the document of verdicts by random, fixed and interactions on each factor."""
    rng = np.random.default_rng(0)
    golden = rng.normal(0.7, 0.05, 12)
    records = {name: importance(rng.normal(0.7, 0.05, (4, 3)), golden, factor=name) for name in FACTORS}
    analysis = Analysis(named("accuracy"), records, {}, ())
    results = [StrategyResult("golden", "golden_model", 0.05, 0.05, None)]
    for factor, by in zip(FACTORS, verdicts, strict=True):
        results += [
            StrategyResult(strategy, factor, 0.03, 0.05, important)
            for strategy, important in zip(("random", "fixed", "interactions"), by, strict=True)
        ]
    return strategies_document(analysis, results, title="t", source=Source(approach="head", task="reviews.csv"))


ORDER, SPLIT = "order is important; split is not important.", "split is important"
ALL_VARY = "in its runs all factors vary."
YES, NO, JUDGE = (True, True, True), (False, False, False), "Simpler strategies judge"


@pytest.mark.parametrize(
    ("verdicts", "headline", "leads"),
    [
        (
            (YES, (True, False, False)),
            f"{JUDGE} 1 of 2 factors otherwise than the published method.",
            (ORDER, f"By random, {SPLIT}: {ALL_VARY}", "Nowhere."),
        ),
        ((YES, NO), f"{JUDGE} all 2 factors like the published method.", (ORDER, "Nowhere.", "Nowhere.")),
        (
            ((True, False, False), (True, False, True)),
            f"{JUDGE} all 2 factors otherwise than the published method.",
            (
                f"{SPLIT}; order is not important.",
                f"By random, order is important: {ALL_VARY}",
                "By fixed, split is not important: in its runs the other factors never change.",
            ),
        ),
        (
            ((None,) * 3,) * 2,
            "No strategy gives a verdict: the golden runs do not differ.",
            ("order, split are without a verdict.", "Nowhere.", "Nowhere."),
        ),
    ],
)
def test_headline_and_answers_say_where_strategies_differ(verdicts, headline, leads):
    shown = document(*verdicts)
    assert shown.headline == headline
    assert tuple(marked(answer.lead) for answer in shown.answers) == leads
    assert len(shown.to_text().splitlines()) <= 25


def test_table_is_that_of_the_paper_and_the_step_asks_for_more_rows():
    shown = document((True, True, True), (True, False, False))
    assert shown.table.head == ("factor", "random", "fixed", "interactions")
    assert shown.table.rows[1] == ("order", "3.000 (*)", "3.000 (*)", "3.000 (*)")
    assert len(shown.steps) <= 1
    assert math.isfinite(float(shown.table.rows[0][1]))
    assert "corrected" in shown.to_html()

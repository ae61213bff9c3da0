"""What the report says of single predictions: how much runs agree, and on which examples they do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.consistency.results import PredictionImportance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.examples import shares_bar
from mlflow_l3d.report.numbers import MISSING, between, plain, points, signed, with_limits
from mlflow_l3d.report.page import Drawing
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.investigation.report.verdicts import Shown

_MOST_RATIO: Final = 10.0
"""Upper ends of a ratio from here on say nothing: with few rows the interval has no end."""
RATIO: Final = (
    "how often runs disagree if this factor alone changes, over how often if every factor does, "
    "with the 95 % interval. It estimates the share of the predictions' variance that the factor causes, "
    "interactions included; numerator and denominator come from different runs, so that luck may put it above 1, where "
    "no share can be"
)
"""What the ratio is that stands with importance for predictions."""


def prediction_parts(shown: Shown) -> list[Drawing | Table | None]:
    """Return how many examples depend on luck, and how much runs agree."""
    bar = shares(shown.analysis)
    return [Drawing(shares_bar(bar)) if bar else None, agreement_table(shown)]


def agreement_table(shown: Shown) -> Table | None:
    """Return how much runs agree on single predictions, a row for each group; None without predictions."""
    analysis = shown.analysis
    names = dict.fromkeys([*analysis.consistencies, *analysis.regression])
    groups = [record.factor for record in shown.records if record.factor in names]
    groups += [name for name in names if name not in analysis.importances]
    if not groups:
        return None
    whole = Table.of([_agreement_row(shown, name) for name in groups])
    # Without classes some columns have no meaning; of those that have one, an empty one says so.
    table = whole.without_empty(whole.head[6:] if analysis.agreement is None else whole.head[1:])
    return replace(table, note=_agreement_note(shown, table.head))


def _agreement_row(shown: Shown, name: str) -> dict[str, str]:
    analysis = shown.analysis
    group, numbers = shown.agreement(name), analysis.regression.get(name, {})
    every = "pooled runs" if shown.golden_word == "pooled" else shown.design.words.examples

    def shared(attribute: str) -> float:
        return float(getattr(group, attribute, math.nan))

    common = shared("common_examples")
    return {
        "what changes": f"every factor ({every})" if name == "golden" else name,
        "CON %": points(shared("consistency"), 1),
        "CCON %": points(shared("correct_consistency"), 1),
        "agree on\nwrong %": MISSING if shown.graded else points(shared("agreement_on_wrong"), 1),
        "kappa": plain(shared("fleiss_kappa")),
        "common\nexamples": f"{common:,.0f}" if math.isfinite(common) else MISSING,
        "importance for\npredictions": importance_text(shown.prediction_importance(name)),
        "share of\ndisagreement": ratio_text(shown.prediction_importance(name)),
        "accuracy\nstd": points(shared("accuracy_std")),
        "larger\ntest set": points(shared("accuracy_std_population")),
        "Pearson": plain(numbers.get("consistency_pearson", math.nan)),
        "concor-\ndance": plain(numbers.get("consistency_ccc", math.nan)),
    }


def _agreement_note(shown: Shown, head: Sequence[str]) -> str:
    agreement = shown.analysis.agreement
    parts = []
    if agreement not in (None, "regression"):
        parts.append(f"Predictions are compared by {agreement}.")
    if shown.graded and "CCON %" in head:
        parts.append("CON: mean agreement of two runs; CCON: the same against the truth.")
    if agreement is None:
        parts.append(
            "Accuracy std: standard deviation of the accuracy between runs that are compared, in points; larger test "
            "set: what would be left of it without the noise of a finite test set. Where few runs are compared at a "
            "time, the latter may be 0 by chance."
        )
    if "Pearson" in head:
        parts.append(
            "Correlations of the numbers that two runs predict, mean over pairs: Pearson's is blind to shift and "
            "scale; Lin's concordance is 1 only for equal predictions."
        )
    if shown.analysis.prediction_importances:
        parts.append(
            "Importance for predictions: above 0 the factor changes more predictions, interactions included, than all "
            f"others without it. Share of disagreement: {RATIO}."
        )
    return " ".join(parts)


def shares(analysis: Analysis) -> list[tuple[str, float]]:
    """Return the shares of robust, fragile and never right examples by their names; empty if there are too few."""
    votes = analysis.examples
    if votes is None or len(votes.frame) < FEWEST_EXAMPLES:
        return []
    return [
        ("right in every run", votes.robust_share),
        ("right in some", votes.fragile_share),
        ("right in none", votes.never_right_share),
    ]


def importance_text(record: PredictionImportance | None) -> str:
    """Return importance for predictions, and below it its interval."""
    if record is None or not math.isfinite(record.share):
        return MISSING
    return with_limits(signed(record.importance), between(*record.importance_interval))


def ratio_text(record: PredictionImportance | None) -> str:
    """Return the ratio behind importance for predictions in per cent, and below it its interval."""
    if record is None or not math.isfinite(record.share):
        return MISSING
    low, high = record.share_ci_low, record.share_ci_high
    if not math.isfinite(low):
        return f"{points(record.share, 0)} %"
    return f"{points(record.share, 0)} %\n{points(low, 0)} to {'any' if high >= _MOST_RATIO else points(high, 0)}"

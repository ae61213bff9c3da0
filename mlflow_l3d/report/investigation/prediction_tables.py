"""What the report says of single predictions: how far runs agree, and on which examples they do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.stability.prediction_importance import PredictionImportance
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.investigation.verdicts import by_importance, golden_record, golden_word, is_graded
from mlflow_l3d.report.numbers import MISSING, plain, points, signed
from mlflow_l3d.report.table import Table

FRAGILE_SHOWN: Final = 15

_MOST_SHARE: Final = 10.0
"""Upper ends of a share, a fraction, from here on say nothing: with few rows the interval has no end."""


def agreement_table(analysis: Analysis) -> Table | None:
    """Return how far runs agree on single predictions, a row for each group; None without predictions."""
    found = dict.fromkeys([*analysis.consistencies, *analysis.regression])
    groups = [record.factor for record in by_importance(analysis) if record.factor in found]
    groups += [name for name in found if name not in analysis.importances]
    if not groups:
        return None
    pooled = golden_word(golden_record(analysis)) == "pooled"
    label = "pooled runs" if pooled else design_named(analysis.design).words.examples
    whole = Table(
        (
            "what changes",
            "CON %",
            "CCON %",
            "agree on\nwrong %",
            "kappa",
            "common\nexamples",
            "importance for\npredictions",
            "accuracy\nstd",
            "larger\ntest set",
            "Pearson",
            "concor-\ndance",
        ),
        tuple(_agreement_row(analysis, name, label) for name in groups),
    )
    # Without classes some columns have no meaning; of those that have one, an empty one says so.
    optional = whole.head[6:] if analysis.agreement is None else whole.head[1:]
    table = whole.without_empty(optional)
    return replace(table, note=_agreement_note(analysis, table.head))


def _agreement_row(analysis: Analysis, name: str, label: str) -> tuple[str, ...]:
    head = f"every factor ({label})" if name == "golden" else name
    numbers = analysis.regression.get(name, {})
    correlations = [plain(numbers.get(f"consistency_{kind}", math.nan)) for kind in ("pearson", "ccc")]
    group = analysis.consistencies.get(name)
    if group is None:
        return (head, *[MISSING] * 8, *correlations)
    return (
        head,
        points(group.consistency, 1),
        points(group.correct_consistency, 1),
        MISSING if is_graded(analysis) else points(group.agreement_on_wrong, 1),
        plain(group.fleiss_kappa),
        f"{group.common_examples:,.0f}" if math.isfinite(group.common_examples) else MISSING,
        prediction_text(analysis.prediction_importances.get(name)),
        points(group.accuracy_std),
        points(group.accuracy_std_population),
        *correlations,
    )


def _agreement_note(analysis: Analysis, head: Sequence[str]) -> str:
    parts = []
    if analysis.agreement not in (None, "regression"):
        parts.append(f"Predictions are compared by {analysis.agreement}.")
    if is_graded(analysis) and "CCON %" in head:
        parts.append("CON: mean agreement of two runs; CCON: the same against the truth.")
    if analysis.agreement is None:
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
    if analysis.prediction_importances:
        parts.append(
            "Importance for predictions: above 0 the factor changes more predictions than all others together; below "
            "it its share of their variance, with the 95 % interval."
        )
    return " ".join(parts)


def fragile_table(analysis: Analysis) -> Table | None:
    """Return the examples on which runs differ most: ids and votes, no texts; None where there are none."""
    if analysis.examples is None:
        return None
    worst = analysis.examples.most_fragile(FRAGILE_SHOWN)
    if worst.empty:
        return None
    return Table(
        ("example", "true class", "votes", "runs", "right %", "entropy (bits)"),
        tuple(
            (
                str(row["example_id"]),
                str(row["label"]),
                _votes(row["votes"], int(row["unparsed"])),
                str(row["runs"]),
                points(float(row["share_right"]), 0),
                plain(float(row["entropy"])),
            )
            for row in worst.to_dict("records")
        ),
        "Votes: how many runs predict each class, as class: runs. Entropy is 0 where all runs agree.",
        frozenset({2}),
    )


def shares(analysis: Analysis) -> tuple[tuple[str, str, float], ...]:
    """Return kind, name and share of robust, fragile and never right examples; empty without examples."""
    votes = analysis.examples
    if votes is None or not math.isfinite(votes.robust_share):
        return ()
    return (
        ("robust", "right in every run", votes.robust_share),
        ("fragile", "right in some", votes.fragile_share),
        ("never", "right in none", votes.never_right_share),
    )


def prediction_text(record: PredictionImportance | None) -> str:
    """Return importance for predictions, and below it the share with its interval."""
    if record is None or not math.isfinite(record.share):
        return MISSING
    low, high = record.share_ci_low, record.share_ci_high
    ends = points(low, 0), "any" if high >= _MOST_SHARE else points(high, 0)
    bounds = "" if MISSING in ends else f" ({ends[0]} to {ends[1]})"
    return f"{signed(record.importance)}\n{points(record.share, 0)} %{bounds}"


def _votes(votes: Sequence[int], unparsed: int) -> str:
    named = sorted(((count, name) for name, count in enumerate(votes) if count), key=lambda pair: (-pair[0], pair[1]))
    parts = [f"{name}: {count}" for count, name in named[:6]]
    if len(named) > 6:
        parts.append(f"{len(named) - 6} more classes: {sum(count for count, _ in named[6:])}")
    return ", ".join([*parts, *([f"no class: {unparsed}"] if unparsed else [])])

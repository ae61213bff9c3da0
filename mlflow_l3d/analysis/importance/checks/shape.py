"""Checks of the shape of a distribution of scores (L3D013)."""

from __future__ import annotations

from collections.abc import Iterator

from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.tails import Tails, tails, tails_of_rows
from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.importance.tables import uncollapsed
from mlflow_l3d.analysis.typing import FloatArray


def golden_tails(evidence: Evidence) -> Iterator[Check]:
    """L3D013 of scores that stand for independent draws of every factor."""
    moments = tails(_uncollapsed(evidence.golden, evidence))
    if moments is None:
        return
    if moments.long:
        yield Check("L3D013", "warning", "Long tails", _long(moments, evidence.golden_runs))
    elif moments.two_groups:
        message = (
            f"The scores of {moments.size} {evidence.golden_runs} fall into two groups (bimodality "
            f"{moments.bimodality:.2f}; normal "
            f"scores have 0.33). Hardly any run scores their mean: report both groups and how often each occurs."
        )
        yield Check("L3D013", "info", "Two groups of scores", message)


def row_tails(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D013 of the rows of one factor."""
    moments = tails_of_rows(_uncollapsed(record.table, evidence))
    if moments is not None and moments.long:
        message = _long(moments, "rows, each the mean of its cells,")
        yield Check("L3D013", "warning", "Long tails", message, record.factor)


def _uncollapsed(scores: FloatArray, evidence: Evidence) -> FloatArray:
    """Return scores without those of runs that collapsed, which L3D005 tells of."""
    lowest = evidence.lowest_of_tails
    return scores if lowest is None else uncollapsed(scores, lowest)


def _long(moments: Tails, runs: str) -> str:
    return (
        f"The scores of {moments.size} {runs} have long tails: skewness {moments.skewness:+.2f} (normal: 0), excess "
        f"kurtosis {moments.kurtosis:.2f} (0), bimodality {moments.bimodality:.2f} (0.33). A few runs make up much of "
        "every standard deviation, and others of their kind may be missing here: in simulations 95 % intervals of such "
        "scores cover 80 to 90 %, less if runs collapse, so no verdict is given. Look at the lowest and highest runs."
    )

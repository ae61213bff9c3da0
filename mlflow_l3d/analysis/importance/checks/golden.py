"""Checks of the golden runs, and of the shape that their scores have in common with rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.scores import collapsed_check, constant_check
from mlflow_l3d.analysis.importance.checks.tails import Tails, tails, tails_of_rows
from mlflow_l3d.analysis.importance.checks.words import counted_of
from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.importance.tables import uncollapsed
from mlflow_l3d.analysis.typing import FloatArray


def missing_golden_runs(evidence: Evidence) -> Iterator[Check]:
    """L3D003: golden runs without a score."""
    scores = int(np.isfinite(evidence.golden).sum())
    missing = len(evidence.golden) - scores
    if scores < 2:
        message = (
            f"{scores} golden runs have a score; without at least 2 there is no golden standard deviation and no "
            "importance. Run the golden runs (golden_runs), or see why they failed and run the same command again."
        )
        yield Check("L3D003", "warning", "No golden runs to compare with", message)
    elif missing:
        message = (
            f"{counted_of(missing, 'golden run', len(evidence.golden), 'has')} no score; the golden standard deviation "
            f"is that of the other {scores}. See the errors of the failed runs, then run the same command again."
        )
        yield Check("L3D003", "warning", "Golden runs missing", message)


def constant_golden_scores(evidence: Evidence) -> Iterator[Check]:
    """L3D004: all golden runs score the same."""
    cause = "Either the model learns nothing and predicts one class"
    yield from constant_check(evidence, evidence.golden, "golden runs", cause, None)


def collapsed_golden_runs(evidence: Evidence) -> Iterator[Check]:
    """L3D005: golden runs that score below chance."""
    scores = evidence.golden[np.isfinite(evidence.golden)]
    if evidence.chance is not None and len(scores):
        yield from collapsed_check(evidence, float((scores < evidence.chance).mean()), len(scores), None)


def pooled_golden_runs(evidence: Evidence) -> Iterator[Check]:
    """L3D008: no golden runs, all other runs take their place."""
    if not evidence.has_pooled_golden:
        return
    count = int(np.isfinite(evidence.golden).sum())
    message = (
        f"The golden standard deviation is that of the {count} pooled cells of all tables, as the paper allows and "
        "advises against: in a table each configuration occurs many times, so that the pooled runs vary less than "
        "independent ones, and nothing can show that a seed leaks. Report a score from golden runs (golden_runs=auto)."
    )
    yield Check("L3D008", "warning", "Golden standard deviation from pooled runs", message)


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
            f"scores have 0.33). Almost no run scores their mean: report both groups and how often each occurs."
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

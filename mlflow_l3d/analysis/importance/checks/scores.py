"""Checks that golden runs and tables have alike: equal scores, and scores below chance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.checks.collapse import in_two_parts
from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.words import in_unit, points
from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.importance.tables import constant
from mlflow_l3d.analysis.typing import FloatArray

COLLAPSE_WARNING: Final = 0.05
"""From this share of collapsed runs on, L3D005 is a warning."""
COLLAPSE_FEW: Final = 0.5
"""Up to this share of collapsed runs they are called few."""


def constant_scores(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D004: all cells of a factor score the same."""
    cause = "Either every run predicts one class"
    yield from constant_check(evidence, record.table, "cells", cause, record.factor)


def collapsed_cells(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D005: cells of a factor that score below chance."""
    yield from collapsed_check(evidence, record.collapsed_share, int(np.isfinite(record.table).sum()), record)


def constant_check(
    evidence: Evidence, scores: FloatArray, runs: str, cause: str, factor: str | None
) -> Iterator[Check]:
    """L3D004 of some scores; `runs` says whose, `cause` what most likely makes them equal."""
    finite_scores = scores[np.isfinite(scores)]
    if not are_equal(finite_scores):
        return
    score = in_unit(finite_scores[0], percent=evidence.metric.percent)
    message = (
        f"All {len(finite_scores)} {runs} score {score}: importance is undefined. {cause}, or no factor has an effect; "
        "look at the predictions of one run."
    )
    if evidence.unread:
        message += f" Of all answers {evidence.unread}."
    title = "Constant golden scores" if factor is None else "Constant scores"
    yield Check("L3D004", "warning", title, message, factor)


def collapsed_check(evidence: Evidence, share: float, count: int, record: Importance | None) -> Iterator[Check]:
    """L3D005 of a share of `count` runs: the cells of a record, or the golden runs."""
    if not share > 0:
        return
    runs = "golden runs" if record is None else "cells"
    few = "; a few of them can make up most of a standard deviation" * (share <= COLLAPSE_FEW)
    message = (
        f"{round(share * count)} of {count} {runs} ({points(share)} %) score below chance (1 / classes), often "
        f"because they name one class for everything{few}. Look at their predictions. For training "
        "try a smaller learning rate, a longer warm-up or more epochs; for prompts "
        "another format, contextual calibration or a larger model."
    )
    factor = None if record is None else record.factor
    check = Check("L3D005", "warning" if share >= COLLAPSE_WARNING else "info", "Collapsed runs", message, factor)
    yield check if evidence.collapse is None else in_two_parts(check, evidence.collapse, record)


def are_equal(scores: FloatArray) -> bool:
    """Return whether two scores or more are equal but for rounding."""
    return len(scores) >= 2 and constant(scores)

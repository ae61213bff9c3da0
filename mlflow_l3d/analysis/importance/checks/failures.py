"""Runs without a score: whether they go with the configurations of a factor, and what they could hide."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.words import points
from mlflow_l3d.analysis.importance.importance import importance
from mlflow_l3d.analysis.importance.models import TableModel
from mlflow_l3d.analysis.importance.results import Check, Importance

OF_RUNS_THAT_END: Final = (
    "All numbers are those of runs that end: where runs fail that would have scored low, luck looks smaller."
)
DRAWS: Final = 1999
"""Random placements of the failures that those seen are compared with."""


class Failures(NamedTuple):
    """What is known of the cells of a table that have no score.

    Attributes
    ----------
    p_rows, p_columns
        p-value of "failures fall on rows (columns) at random"; nan if there is nothing to tell.
    at_chance
        The record with every failure, golden runs too, counted as a score of guessing; None if that is not known.
    """

    p_rows: float
    p_columns: float
    at_chance: Importance | None


def failures(record: Importance, model: TableModel, *, chance: float | None = None) -> Failures | None:
    """Return the evidence on the failures of a table; None if no cell failed, or every cell did.

    Parameters
    ----------
    record
        The factor.
    model
        How the columns of its table belong together.
    chance
        Score of guessing; None if the metric has none.
    """
    missing = ~np.isfinite(record.table)
    if not missing.any() or missing.all():
        return None
    at_chance = None
    if chance is not None:
        filled = (np.where(np.isfinite(scores), scores, chance) for scores in (record.table, record.golden))
        at_chance = importance(*filled, factor=record.factor, chance=chance, model=model, level=record.level)
    return Failures(_at_random(missing), _at_random(missing.T) if model.shared_columns else math.nan, at_chance)


def selected_pairs(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D012 of a design whose runs do not form rows and columns: runs with a score are those that did not fail."""
    if record.factor not in evidence.failing:
        return
    message, cause = OF_RUNS_THAT_END, evidence.failing[record.factor]
    low, high = cause.corrected_interval
    if math.isfinite(cause.importance_corrected):
        ends = f" ({low:+.2f} to {high:+.2f})" if math.isfinite(low) else ""
        message += f" For which runs fail its importance is {cause.importance_corrected:+.2f}{ends}."
    message += counted_at_chance(evidence.at_chance.get(record.factor))
    yield Check("L3D012", "warning", "Failures are a selection", message, record.factor)


def counted_at_chance(again: Importance | None) -> str:
    """Return what the numbers are with failures counted as guessing; empty if that is not known."""
    if again is None or not math.isfinite(again.importance):
        return ""
    return (
        f" With every failure counted as a score of guessing the published score is {again.importance:+.2f}, the "
        f"corrected one {again.importance_corrected:+.2f}, the golden standard deviation {points(again.golden_std)} "
        "points."
    )


def _at_random(missing: npt.NDArray[np.bool_]) -> float:
    """Return how often random placements crowd into rows as much; nan for one failure, which crowds nowhere."""
    counts = missing.sum(axis=1)
    total = int(counts.sum())
    if total < 2 or len(counts) < 2:
        return math.nan
    # From a generator of its own, so that the same table always has the same number.
    drawn = np.random.default_rng(0).multivariate_hypergeometric([missing.shape[1]] * len(counts), total, size=DRAWS)
    return float(1 + (np.square(drawn).sum(axis=1) >= np.square(counts).sum()).sum()) / (DRAWS + 1)

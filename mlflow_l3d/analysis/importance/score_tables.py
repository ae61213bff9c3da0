"""The scores of one investigation, and records from them that are not the analysis of variance of a complete table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from mlflow_l3d.analysis.importance.reml import reml_estimate
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import L3DError

Missing = Literal["drop", "reml"]


@dataclass(frozen=True, slots=True)
class Tables:
    """Scores of one investigation; nan where a cell has none. A design says what they mean.

    Attributes
    ----------
    tables
        Factor -> scores. Crossed and nested: shape (M, N). Radial: swaps, shape (n, 1). Strategies: shape (1, N M).
    golden
        Shape (L,): golden runs; empty where a design's own runs serve.
    base
        Runs that all factors share, the first axis is the rows: the base runs of the radial design, shape (n,).
    pooled
        Whether the cells of all tables, pooled, take the place of golden runs.
    """

    tables: Mapping[str, FloatArray]
    golden: FloatArray = field(default_factory=lambda: np.empty(0))
    base: FloatArray = field(default_factory=lambda: np.empty(0))
    pooled: bool = False

    @property
    def missing(self) -> int:
        """Cells and golden runs without a score."""
        every = (*self.tables.values(), self.golden, self.base)
        return sum(int(np.isnan(scores).sum()) for scores in every)

    def scaled(self, factor: float) -> Tables:
        """Return the same scores in another unit."""
        tables = {name: factor * table for name, table in self.tables.items()}
        return replace(self, tables=tables, golden=factor * self.golden, base=factor * self.base)


def without_importance(record: Importance, design: str) -> Importance:
    """Return the record of a baseline: of the numbers only `golden_std` and those of the scores are not nan."""
    nan = math.nan
    return replace(
        record,
        design=design,
        importance=nan,
        contributed_std=nan,
        mitigated_std=nan,
        importance_corrected=nan,
        importance_ci_low=nan,
        importance_ci_high=nan,
        importance_p=nan,
        components=None,
    )


def with_reml(record: Importance) -> Importance:
    """Return the record of a crossed table that lacks cells, corrected score and interval from every cell.

    The published score is from complete rows all the same.
    """
    try:
        estimate = reml_estimate(record.table)
    except L3DError:  # the likelihood has no clear maximum: L3D002 says that complete rows were taken
        return record
    if estimate is None:
        return record
    low, high = estimate.interval(record.level)
    return replace(
        record,
        importance_corrected=estimate.importance,
        importance_ci_low=low,
        importance_ci_high=high,
        importance_p=estimate.p_value(),
        components=estimate.components,
    )

"""From the tables of scores of an investigation, of any layout, to the record of every factor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import LEVEL
from mlflow_l3d.analysis.importance.importance import importance, importance_path, radial_importance
from mlflow_l3d.analysis.importance.reml import reml_estimate
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.strategies import StrategyResult, fixed_strategy, random_strategy
from mlflow_l3d.analysis.importance.variances import Layout
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import L3DError

Missing = Literal["drop", "reml"]


@dataclass(frozen=True, slots=True)
class Tables:
    """Scores of one investigation; nan where a cell has none.

    Attributes
    ----------
    layout
        Design or baseline strategy.
    tables
        Factor -> scores. Crossed and nested: shape (M, N). Radial: swaps, shape (n, 1). Strategies: shape (1, N M).
    golden
        Shape (L,): golden runs; empty in the radial design.
    base
        Shape (n,): base runs of the radial design, else empty.
    pooled
        Whether the cells of all tables, pooled, take the place of golden runs.
    """

    layout: Layout
    tables: Mapping[str, FloatArray]
    golden: FloatArray
    base: FloatArray = field(default_factory=lambda: np.empty(0))
    pooled: bool = False

    def first(self, steps: int, of: int) -> Tables:
        """Return the scores of the first `steps` of `of` steps: rows, but for the strategies."""
        golden = self.golden[: -(-len(self.golden) * steps // of)]
        if self.layout in ("random", "fixed"):
            tables = {name: table[:, : table.shape[1] * steps // of] for name, table in self.tables.items()}
        else:
            tables = {name: table[:steps] for name, table in self.tables.items()}
        return replace(self, tables=tables, golden=golden, base=self.base[:steps])

    def golden_scores(self) -> FloatArray:
        """Return the scores that stand for independent draws of every factor."""
        if self.layout == "radial":
            sets: FloatArray = np.concatenate([self.base, *(table[:, 0] for table in self.tables.values())])
            return sets
        if self.pooled:
            # Row by row, so that the first rows come first.
            cells: FloatArray = np.concatenate(list(self.tables.values()), axis=1).reshape(-1)
            return cells
        return self.golden

    @property
    def missing(self) -> int:
        """Cells and golden runs without a score."""
        every = (*self.tables.values(), self.golden, self.base)
        return sum(int(np.isnan(scores).sum()) for scores in every)


def importances_of(
    scores: Tables, *, chance: float | None = None, missing: Missing = "drop", level: float = LEVEL
) -> dict[str, Importance]:
    """Return the record of every factor.

    Parameters
    ----------
    scores
        The tables.
    chance
        Score of guessing, if a lower one is a collapse.
    missing
        ``reml``: in crossed tables that lack cells, the corrected score and its interval come from every cell
        (:func:`mlflow_l3d.analysis.importance.reml.reml_estimate`); the published score from complete rows all the
        same.
    level
        Confidence level of the intervals.

    Returns
    -------
    dict of str to Importance
        A baseline strategy has no importance: of its numbers only `golden_std` and those of the scores are not nan.
    """
    if scores.layout == "radial":
        swaps = {name: table[:, 0] for name, table in scores.tables.items()}
        return radial_importance(scores.base, swaps, chance=chance, level=level) if swaps else {}
    golden = scores.golden_scores()
    found = {}
    for name, table in scores.tables.items():
        design: Literal["crossed", "nested"] = "nested" if scores.layout == "nested" else "crossed"
        record = importance(table, golden, factor=name, chance=chance, design=design, level=level)
        if scores.layout in ("random", "fixed"):
            record = _without_importance(record, scores.layout)
        elif missing == "reml" and design == "crossed" and record.cells_missing:
            record = _with_reml(record)
        found[name] = replace(record, golden_pooled=scores.pooled)
    return found


def strategies_of(importances: Mapping[str, Importance], layout: Layout) -> dict[str, StrategyResult]:
    """Return what a baseline strategy says about every factor; nothing for a design."""
    if layout not in ("random", "fixed"):
        return {}
    judge = random_strategy if layout == "random" else fixed_strategy
    return {name: judge(record.table, record.golden_std, factor=name) for name, record in importances.items()}


def paths_of(importances: Mapping[str, Importance]) -> dict[str, pd.DataFrame]:
    """Return, for the factors of crossed and nested designs, how their scores settled while rows were added."""
    return {
        name: importance_path(record.table, record.golden, design=record.design, level=record.level)
        for name, record in importances.items()
        if record.design == "crossed" or record.design == "nested"
    }


def _without_importance(record: Importance, layout: Layout) -> Importance:
    nan = math.nan
    return replace(
        record,
        design=layout,
        importance=nan,
        contributed_std=nan,
        mitigated_std=nan,
        importance_corrected=nan,
        importance_ci_low=nan,
        importance_ci_high=nan,
        importance_p=nan,
        components=None,
    )


def _with_reml(record: Importance) -> Importance:
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

"""Analysis records made by hand: what they hold is computed here, in plain numpy."""

import math

import numpy as np

from mlflow_l3d.analysis.consistency.results import Consistency
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.metrics.classification import F1_MACRO

NAN = math.nan


def make_importance(factor, *, rows=20, columns=10, golden=40, seed=0, missing=(), interval=None) -> Importance:
    """Build a record around a random table; `interval` is (corrected, low, high)."""
    rng = np.random.default_rng(seed)
    table = 0.8 + 0.01 * rng.normal(size=(rows, 1)) + 0.006 * rng.normal(size=(rows, columns))
    for cell in missing:
        table[cell] = NAN
    full = table[np.isfinite(table).all(axis=1)]
    scores = 0.8 + 0.012 * np.random.default_rng(99).normal(size=golden)
    contributed, mitigated = full.std(axis=1).mean(), full.mean(axis=1).std()
    score = (contributed - mitigated) / scores.std()
    corrected, low, high = interval or (score, score - 0.2, score + 0.2)
    return Importance(
        factor=factor,
        importance=float(score),
        contributed_std=float(contributed),
        mitigated_std=float(mitigated),
        golden_std=float(scores.std()),
        importance_corrected=float(corrected),
        importance_corrected_ci_low=float(low),
        importance_corrected_ci_high=float(high),
        score_mean=float(np.nanmean(table)),
        score_std=float(np.nanstd(table)),
        collapsed_share=0.0,
        table=table,
        golden=scores,
        rows_used=len(full),
        cells_missing=len(missing),
        golden_missing=0,
    )


def nothing(factor: str, rows: int = 3, columns: int = 4) -> Importance:
    """Build the record of a factor of which no cell has a score."""
    missing = {"rows_used": 0, "cells_missing": 12, "golden_missing": 5}
    return Importance(factor, *[NAN] * 7, np.full((rows, columns), NAN), np.full(5, NAN), **missing)


def make_analysis(records, *, checks=(), predictions=True) -> Analysis:
    consistencies = {}
    if predictions:
        consistencies = {r.factor: Consistency(r.factor, 0.934, 0.741, 10, 20, 9000, 0.0) for r in records}
        consistencies["golden"] = Consistency("golden", 0.875, 0.702, 40, 1, 7800, 0.0)
    return Analysis(F1_MACRO, {record.factor: record for record in records}, consistencies, checks, 0)

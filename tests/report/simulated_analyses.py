"""Analyses of simulated scores and predictions, of every design."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.examples import example_votes
from mlflow_l3d.analysis.consistency.results import Consistency, prediction_importance
from mlflow_l3d.analysis.importance.estimators.nested import nested_estimate
from mlflow_l3d.analysis.planning import stopping
from mlflow_l3d.analysis.planning.stopping import EpsilonRule, IntervalRule
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import Planned, design_named
from mlflow_l3d.designs.analyse import analyse

FACTORS = ("data_order+sample_choice", "model_initialisation", "label_selection", "data_split", "model_randomness")


def cells_of(design: str, factors: tuple[str, ...] = FACTORS, rows: int = 12, columns: int = 6) -> pd.DataFrame:
    """Return cells whose factors differ in strength."""
    rng = np.random.default_rng(5)
    found: list[tuple[object, ...]] = []
    shared = 0.006 * rng.normal(size=rows)
    if design == "radial":
        found += [("base", None, row, None, None, 0.8 + shared[row] + 0.004 * rng.normal()) for row in range(rows)]
    for at, name in enumerate(factors):
        strength = 0.012 / (1 + at)
        if design == "radial":
            for row in range(rows):
                found.append(("swap", name, row, None, None, 0.8 + shared[row] + strength * rng.normal()))
            continue
        for row in range(1 if design in ("random", "fixed") else rows):
            for column in range(columns):
                score = 0.8 + shared[row] + strength * rng.normal()
                found.append(("investigation", name, row, column, None, score))
    if design != "radial":
        found += [("golden", None, None, None, at, 0.8 + 0.012 * rng.normal()) for at in range(40)]
    return pd.DataFrame(found, columns=["phase", "factor", "row", "column", "index", "f1_macro"])


def simulated(design, *, pooled=False, level=0.95, factors=FACTORS) -> Analysis:
    """Return an analysis with everything that one can hold."""
    cells = cells_of(design, factors)
    if pooled:
        cells = cells[cells["phase"] != "golden"]
    plan = Planned(design=design_named(design), pooled=pooled, classes=2)
    analysis = analyse(cells, plan, metric="f1_macro", level=level)
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 2, 80)
    wrong = rng.random((30, 80)) < rng.choice([0.0, 0.02, 0.3, 1.0], size=80, p=[0.5, 0.3, 0.15, 0.05])
    votes = example_votes(np.where(wrong, 1 - labels, labels), labels, np.arange(80))
    groups = {
        name: Consistency(name, 0.95 - 0.01 * at, 0.78, 6, 12, 5000, 0.0, 80.0, 0.71 - 0.02 * at, 0.012, 0.007)
        for at, name in enumerate(factors)
    }
    golden = Consistency("golden", 0.87, 0.74, 40, 1, 62400, 0.01, 80.0, 0.62, 0.019, 0.016)
    importances = {
        name: prediction_importance(group, golden, [group.consistency - 0.01, group.consistency + 0.01] * 4)
        for name, group in groups.items()
    }
    found = {} if design in ("random", "fixed") else importances
    return replace(analysis, consistencies={**groups, "golden": golden}, examples=votes, prediction_importances=found)


def with_interim_analyses(analysis: Analysis, rule: str = "interval") -> Analysis:
    """Return the analysis as if a stopping rule had looked while it ran."""
    frames = []
    for name, record in analysis.importances.items():
        watch: EpsilonRule | IntervalRule
        if rule == "epsilon":
            watch = EpsilonRule(1.0)
            watch.analyse(record.table, record.golden)
        else:
            table = record.table
            watch = IntervalRule(0.9, factors=5)
            with patch.object(stopping, "FIRST_ANALYSIS", 6):
                watch.analyse(len(table), lambda rows, table=table: nested_estimate(table[:rows]))  # type: ignore[misc]
        frames.append(watch.history_frame().assign(factor=name))
    return replace(analysis, interim_analyses=pd.concat(frames, ignore_index=True))

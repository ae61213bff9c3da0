"""Sweeps made by hand: points whose tables are drawn with known variances, and share configurations as real ones do."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.estimators import CROSSED
from mlflow_l3d.analysis.importance.verdicts import verdict_of
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.analyse import advise
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint

Shares = Mapping[str, tuple[float, float, float]]
"""Factor -> shares of the variance: all others, the factor alone, both together."""


def drawn_point(
    choices: Mapping[str, str | float],
    shares: Shares,
    *,
    rows: int = 10,
    columns: int = 6,
    golden: int = 30,
    std: float = 0.02,
    shared: float = 0.0,
    task: str = "sst2",
    root_seed: int = 0,
    seed: int = 0,
    run_id: str = "",
) -> SweptPoint:
    """Return a point of crossed tables; `shared` is the share of each effect that points of one root seed share."""
    records = {}
    own = np.random.default_rng([seed, 1])
    common = np.random.default_rng([root_seed, 2])
    for factor, (others, alone, both) in shares.items():

        def effect(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
            ours, theirs = own.normal(size=shape), common.normal(size=shape)
            return np.sqrt(1 - shared) * ours + np.sqrt(shared) * theirs

        table = np.sqrt(others) * effect(rows, 1) + np.sqrt(alone) * effect(1, columns)
        table = 0.8 + std * (table + np.sqrt(both) * effect(rows, columns))
        scores = 0.8 + std * effect(golden)
        records[factor] = importance(table, scores, factor=factor, chance=0.5, model=CROSSED)
    design = design_named("crossed")
    advice = {name: advise(design, record, verdict_of(record)) for name, record in records.items()}
    return SweptPoint(run_id or f"run{seed}", dict(choices), task, Analysis(F1_MACRO, records, advice=advice))


def grid(values: Mapping[str, Sequence[str | float]]) -> list[dict[str, str | float]]:
    """Return every combination of the values, the last choice changing fastest."""
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


def drawn_sweep(
    values: Mapping[str, Sequence[str | float]], factors: Sequence[str] = ("data_order", "sample_choice"), seed: int = 0
) -> list[SweptPoint]:
    """Return a sweep in which the first factor matters less with every value of the first choice."""
    points = []
    places = grid(values)
    for at, choices in enumerate(places):
        place = at / max(1, len(places) - 1)
        shares = {
            name: (0.2 + 0.6 * place, 0.5 - 0.3 * place, 0.3 - 0.3 * place) if not number else (0.5, 0.25, 0.25)
            for number, name in enumerate(factors)
        }
        task = str(choices.get("task", "sst2"))
        points.append(drawn_point(choices, shares, seed=100 * seed + at, task=task))
    return points

"""How narrow an interval will be with a wanted probability, and how many runs that needs: by simulation."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.models import CROSSED, NESTED, TableModel
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.jackknife import LEVEL
from mlflow_l3d.analysis.planning.precision import expected_half_width, variance_parts
from mlflow_l3d.analysis.planning.runs_needed import RunsNeeded, runs_needed
from mlflow_l3d.analysis.typing import FloatArray

MOST_TABLES: Final = 200
FEWEST_TABLES: Final = 40
CELLS: Final = 60_000
"""Simulated tables are as many as have so many cells together, within these bounds."""
ROUNDS: Final = 4
MOST_ROUNDS: Final = 40
"""Tries, and those where none of the former is narrow enough."""
CLOSE: Final = 0.97
"""A half-width from this share of the wanted one on is no reason to try fewer runs."""


def assured_half_width(
    pilot: VarianceComponents,
    model: TableModel,
    *,
    rows: int,
    columns: int,
    assurance: float,
    level: float = LEVEL,
) -> float:
    """Return the half-width within which the interval of the corrected importance stays with some probability.

    Parameters
    ----------
    pilot, model, rows, columns, level
        As for :func:`~mlflow_l3d.analysis.planning.precision.expected_half_width`, which is met in half of all
        investigations only: the interval of a small one may be much wider or narrower.
    assurance
        The probability.

    Returns
    -------
    float
        That quantile of the half-widths of simulated tables with normal effects, always the same ones; nan where there
        will be no interval, or the pilot has no variance.
    """
    expected = expected_half_width(pilot, model, rows=rows, columns=columns, level=level)
    if math.isnan(expected):
        return math.nan
    main, interaction, mitigated = variance_parts(pilot)
    mitigated = max(mitigated, (main + interaction) / (rows * columns))  # less cannot be seen, as there
    parts = [part / (main + interaction + mitigated) for part in (main, interaction, mitigated)]
    if not model.shared_columns:
        parts = [0.0, parts[0] + parts[1], parts[2]]
    parts = [round(part, 4) for part in parts]
    return float(np.quantile(_half_widths(model.name, *parts, rows, columns, level), assurance))


def assured_runs(
    half_width: float,
    pilot: VarianceComponents,
    model: TableModel,
    *,
    assurance: float,
    columns: int | None = None,
    level: float = LEVEL,
) -> RunsNeeded:
    """Return the runs with which the interval is as narrow as wanted with some probability.

    Parameters
    ----------
    half_width, pilot, model, columns, level
        As for :func:`~mlflow_l3d.analysis.planning.runs_needed.runs_needed`.
    assurance
        The probability.
    """
    aim, best = half_width, None
    for number in range(MOST_ROUNDS):
        if number >= ROUNDS and best is not None:
            break
        found = runs_needed(aim, pilot, model, columns=columns, level=level)
        if found.rows is None or found.columns is None:
            break
        size = {"rows": found.rows, "columns": found.columns}
        width = assured_half_width(pilot, model, **size, assurance=assurance, level=level)
        found = replace(found, half_width=width)
        if width <= half_width and (best is None or (found.cells or 0) < (best.cells or 0)):
            best = found
        if CLOSE * half_width <= width <= half_width or not width > 0:
            break
        closer = CLOSE if number >= ROUNDS else 1.0
        aim *= min(closer, half_width / width) if width > half_width else half_width / width * math.sqrt(CLOSE)
    return best or found


@lru_cache(maxsize=256)
def _half_widths(
    model: str, main: float, interaction: float, mitigated: float, rows: int, columns: int, level: float
) -> FloatArray:
    """Return the half-widths of the intervals of simulated tables."""
    generator = np.random.default_rng(0)
    own, others, both = (math.sqrt(part) for part in (main, mitigated, interaction))
    estimate = {each.name: each.estimate for each in (CROSSED, NESTED)}[model]
    widths = []
    for _ in range(min(MOST_TABLES, max(FEWEST_TABLES, CELLS // (rows * columns)))):
        table = others * generator.standard_normal((rows, 1)) + both * generator.standard_normal((rows, columns))
        found = estimate(table + own * generator.standard_normal((1, columns)))
        low, high = (-1.0, 1.0) if found is None else found.interval(level)
        widths.append((high - low) / 2)
    return np.array(widths)

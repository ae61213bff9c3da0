"""Simulated investigations as they were planned: how often the interval is as narrow as was wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from _tables import Variances, crossed, nested, text_of

from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.designs import Design, design_named

HALF_WIDTH: Final = 0.2
ASSURANCE: Final = 0.8
PLANNED: Final[tuple[Variances, ...]] = (
    (0.9, 0.1, 0.0),
    (0.9, 0.05, 0.05),
    (0.5, 0.5, 0.0),
    (0.5, 0.25, 0.25),
    (0.1, 0.9, 0.0),
    (0.1, 0.45, 0.45),
)


def planning_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: runs for the expected half-width, and for one that is kept with the assurance; how often met."""
    for name in ("crossed", "nested"):
        design = design_named(name)
        for place, variances in enumerate(PLANNED):
            others, main, both = variances
            known = VarianceComponents("crossed", "anova", 0, 0, main + both, others, main, both)
            parts = []
            for assurance in (None, ASSURANCE):
                found = design.needed(HALF_WIDTH, known, assurance=assurance)
                generator = np.random.default_rng([11, place])
                met = sum(
                    _half_width(design, generator, found.rows, found.columns, variances) <= HALF_WIDTH
                    for _ in range(tables)
                )
                parts += [f"{found.rows} x {found.columns}", f"{100 * met / tables:.0f}"]
            yield [name, text_of(variances), *parts]


def _half_width(
    design: type[Design], generator: np.random.Generator, rows: int | None, columns: int | None, variances: Variances
) -> float:
    if rows is None or columns is None:
        return math.inf
    draw = crossed if design.model.shared_columns else nested
    found = design.model.estimate(draw(generator, rows, columns, variances))
    low, high = (-1.0, 1.0) if found is None else found.interval()
    return (high - low) / 2

"""Simulated investigations as they were planned: how often the interval is as narrow as was wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from _tables import Variances, crossed, nested, text_of

from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.designs import Design, design_named
from mlflow_l3d.studies.planning.pilot import FactorPilot
from mlflow_l3d.studies.planning.tables import assumed_variances, range_of_cells

if TYPE_CHECKING:
    from mlflow_l3d.studies.investigation.run_plan import Plan

HALF_WIDTH: Final = 0.2
PILOT_HALF_WIDTH: Final = 0.1
MOST_PILOTS: Final = 40
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


def pilot_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: cells that are needed, what pilots find and leave open, and how often that holds the truth."""
    known = assumed_variances(0.5, 0.5)
    for name, rows, columns in (("nested", 3, 3), ("nested", 10, 3), ("crossed", 3, 3), ("crossed", 10, 10)):
        design, generator, found = design_named(name), np.random.default_rng(3), []
        plan = SimpleNamespace(design=design, half_width=PILOT_HALF_WIDTH)
        true = design.needed(PILOT_HALF_WIDTH, known, assurance=ASSURANCE).cells or math.nan
        while len(found) < min(tables, MOST_PILOTS):
            draw = crossed if design.model.shared_columns else nested
            scores = Tables({"f": draw(generator, rows, columns, (0.5, 0.25, 0.25))}, generator.standard_normal(9))
            record = design.importances(scores)["f"]
            parts, ends = record.components, (record.importance_corrected_ci_low, record.importance_corrected_ci_high)
            if parts is None or not parts.contributed > 0:
                continue
            first = (record.first_order_ci_low, record.first_order_ci_high)
            pilot = FactorPilot(
                parts, *map(total_index_of, ends), "", same=True, first_low=first[0], first_high=first[1]
            )
            cells = design.needed(PILOT_HALF_WIDTH, parts, assurance=ASSURANCE).cells
            if cells is not None:
                low, high = range_of_cells(cast("Plan", plan), pilot, cells)
                found.append((low, cells, high, low <= true <= high))
        middle = [f"{value:,.0f}" for value in np.median(np.array(found, dtype=float)[:, :3], axis=0)]
        held = f"{100 * np.mean([each[3] for each in found]):.0f}"
        yield [name, f"{rows} x {columns}", f"{true:,.0f}", middle[1], f"{middle[0]} to {middle[2]}", held]


def _half_width(
    design: type[Design], generator: np.random.Generator, rows: int | None, columns: int | None, variances: Variances
) -> float:
    if rows is None or columns is None:
        return math.inf
    draw = crossed if design.model.shared_columns else nested
    found = design.model.estimate(draw(generator, rows, columns, variances))
    low, high = (-1.0, 1.0) if found is None else found.interval()
    return (high - low) / 2

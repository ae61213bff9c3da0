"""The conformance check of designs."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.designs import Design, Planned
from mlflow_l3d.designs.analyse import analyse
from mlflow_l3d.testing.cells import require

FACTORS = ("first", "second", "third", "fourth")
SHARES = {"first": 0.8, "second": 0.1, "third": 0.05, "fourth": 0.05}
"""Share of each factor in the variance of the score, without interactions."""


def check_design(design: type[Design], *, rows: int = 40, columns: int = 10) -> None:
    """Check a design on an additive score with a known importance of every factor.

    Cells are unique, come step by step, and a smaller plan is a part of a larger one. Filling tables cell by cell
    gives the same tables as a frame of cells, and the first steps equal the smaller plan. The intervals contain the
    truth, and factors come in its order. Everything is JSON.

    Parameters
    ----------
    design
        The class.
    rows, columns
        Size of the plan.

    Raises
    ------
    AssertionError
        With one sentence that names the broken rule.
    """
    whole = _planned(design, rows, columns)
    cells = list(whole.cells())
    places = {(cell.phase, cell.factor, cell.row, cell.column, cell.index) for cell in cells}
    require(len(cells) == len(whole), f"len() is {len(whole)}, cells() yields {len(cells)}")
    require(len(places) == len(cells), "two cells have the same place")
    require(len({cell.key for cell in cells}) == len(cells), "two cells have the same configurations")
    require([cell.key for cell in whole.cells()] == [cell.key for cell in cells], "cells() differs from call to call")
    steps = [whole.step_of(cell) for cell in cells]
    require(steps == sorted(steps), "cells do not come step by step")
    counts = [steps.count(step) for step in range(whole.steps)]
    require(counts == [whole.step_size(step) for step in range(whole.steps)], "step_size() contradicts step_of()")
    half = _planned(design, rows // 2, columns)
    keys = {cell.key for cell in cells if whole.step_of(cell) < half.steps}
    require({cell.key for cell in half.cells()} == keys, "the first steps are not the smaller plan")
    phases = {cell.phase for cell in cells} - {"golden"}
    require(phases <= set(design.phases), f"cells have phases {sorted(phases)}, the class names {design.phases}")
    _check_tables(design, whole, half, cells)
    _check_analysis(design, whole, cells)


def _planned(design: type[Design], rows: int, columns: int) -> Design:
    golden = 0 if design.tables_are_golden else rows * columns
    return design(FACTORS[:2], FACTORS, columns, rows, golden, 0, "conformance")


def _known(plan: Design) -> Planned:
    rows, columns = plan.mitigation_runs, plan.investigation_runs
    return Planned(type(plan), rows=rows, columns=columns, golden_runs=plan.golden_runs)


def _score(cell: Cell) -> float:
    return sum(math.sqrt(share) * float(stream(cell.seeds[name]).standard_normal()) for name, share in SHARES.items())


def _frame(cells: list[Cell]) -> pd.DataFrame:
    rows = [
        {
            **{name: getattr(cell, name) for name in ("phase", "factor", "row", "column", "index")},
            **{f"factor.{name}": number for name, number in cell.configurations.items()},
            "score": _score(cell),
        }
        for cell in cells
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


def _check_tables(design: type[Design], whole: Design, half: Design, cells: list[Cell]) -> None:
    filled = whole.empty()
    for cell in reversed(cells):
        whole.fill(filled, cell, _score(cell))
    require(filled.missing == 0, "fill() leaves places empty")
    for plan, part in ((whole, cells), (half, [cell for cell in cells if whole.step_of(cell) < half.steps])):
        tables = design.tables(_frame(part), "score", FACTORS[:2], _known(plan))
        first = design.first(filled, plan.steps, whole.steps)
        same = all(np.array_equal(first.tables[name], tables.tables[name]) for name in FACTORS[:2])
        same &= np.array_equal(first.base, tables.base) and np.array_equal(first.golden, tables.golden)
        require(same, "fill() and first() give other tables than tables() of the same cells")


def _check_analysis(design: type[Design], whole: Design, cells: list[Cell]) -> None:
    planned = _known(whole)
    frame = _frame(cells)
    analysis = analyse(frame, planned, metric="score")
    require(set(analysis.importances) == set(FACTORS[:2]), f"the cells have the factors {list(analysis.importances)}")
    require(analysis.cells_failed == 0, "a complete investigation has missing cells")
    again = analyse(planned.select(frame), planned, metric="score")
    require(analysis.metrics() == again.metrics(), "the order of cells changes the numbers")
    json.dumps(analysis.metrics(), allow_nan=False)
    for name, record in analysis.importances.items():
        require(record.design == design.name, f"the record of {name} is of design {record.design!r}")
        if design.baseline:
            continue
        truth = math.sqrt(SHARES[name]) - math.sqrt(1 - SHARES[name])
        low, high = record.importance_corrected_ci_low, record.importance_corrected_ci_high
        require(low <= truth <= high, f"the importance of {name} is {truth:.2f}, its interval {low:.2f} to {high:.2f}")
    strong, weak = (analysis.importances[name].importance_corrected for name in FACTORS[:2])
    require(design.baseline or strong > weak, "80 % of the variance are called less important than 10 %")

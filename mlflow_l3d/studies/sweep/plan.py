"""What a sweep has to do, breadth first: points, cells, cells that are done, hours, and what its budget buys."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.base import expected_workers
from mlflow_l3d.studies.dry_run import StudyPlan, seconds_per_run
from mlflow_l3d.studies.sweep.request import PointRequest, SweepRequest
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.opening import spooled_cells

FIRST_STEPS: Final = 2
"""Steps of every point in the first round: a spread of row means needs two rows."""


@dataclass(frozen=True, repr=False)
class SweepPlan(StudyPlan):
    """What there is to do.

    Attributes
    ----------
    title, parts, workers, notes
        One row per point: also its choices, ``steps`` and ``steps_in_budget`` (rows, as a rule), and
        ``seconds_per_cell``.
    request
        The sweep.
    """

    request: SweepRequest = field(kw_only=True)

    def check(self) -> None:
        """Raise ParameterError if the budget is known to be enough for no point."""
        frame, budget = self.parts, self.request.budget
        scored = frame["steps_in_budget"] >= np.minimum(frame["steps"], FIRST_STEPS)
        if budget.cells is not None and not scored.any():
            fix = "A point is scored from two rows on. Use a larger one."
            raise ParameterError("budget", budget, "is enough for no point", fix)

    def line(self) -> str:
        """Return what there is to do, in one line."""
        frame, budget = self.parts, self.request.budget
        parts = [f"{counted(len(frame), 'point')}, {super().line()}"]
        if budget:
            whole = int((frame["steps_in_budget"] >= frame["steps"]).sum())
            fewest, reached = int(frame["steps_in_budget"].min()), int((frame["steps_in_budget"] >= FIRST_STEPS).sum())
            reach = (
                f"{fewest} rows of every point" if fewest else f"a score of {reached} of {counted(len(frame), 'point')}"
            )
            parts.append(
                f"the budget of {budget} is enough for {counted(whole, 'whole point')}, and for {reach}"
                if budget.cells is not None or math.isfinite(self.hours)
                else f"the budget of {budget} is kept; the number of points shows when the first cells are timed"
            )
        return "; ".join(parts)

    def shown(self) -> pd.DataFrame:
        """Return the columns that the command line prints."""
        hidden = [] if self.request.budget else ["steps", "steps_in_budget"]
        return self.parts.drop(columns=["seconds_per_cell", *hidden])


def turns(steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (point, step): in each round all points in their order, up to twice as many steps as in the round before.

    The rounds end at 2, 4, 8, 16, ... steps (rows, as a rule). A point that would have a quarter more at most goes to
    its end at once: so are points of 5, 10 or 20 rows whole one after the other in the last round, and not all at the
    very end. Wherever work ends, no point has more than 2.5 times the steps of one that is not whole, but for the first
    round.

    Parameters
    ----------
    steps
        How many steps each point has.
    """
    done, until = [0] * len(steps), FIRST_STEPS
    while any(reached < whole for reached, whole in zip(done, steps, strict=True)):
        for point, whole in enumerate(steps):
            end = whole if whole <= 1.25 * until else until
            yield from ((point, step) for step in range(done[point], end))
            done[point] = end
        until *= 2


def make_plan(request: SweepRequest, client: Client) -> SweepPlan:
    """Count what there is to do, and look up how long earlier cells took."""
    points = request.points
    contexts = dict.fromkeys(point.context_key for point in points)
    done = {context: finished_cells(client, context) for context in contexts}
    left = [_left(point, {*done[point.context_key], *spooled_cells(client, point.key)}) for point in points]
    finished = [done[point.context_key].values() for point in points]
    seconds = seconds_per_run(client, [point.setup for point in points], finished)
    workers = expected_workers(points[0].setup)
    new = _new(left)
    rows = []
    for point, lacking, each, own in zip(points, left, seconds, new, strict=True):
        cells = len(point.design())
        row = {**point.choices, "cells": cells, "done": cells - sum(map(len, lacking)), "to_compute": sum(own)}
        row |= {"steps": len(own), "steps_in_budget": 0, "seconds_per_cell": each}
        rows.append({**row, "hours": each * sum(own) / 3600 / workers if sum(own) else 0.0})
    frame = pd.DataFrame(rows)
    frame["steps_in_budget"] = steps_in_budget(new, seconds, workers, request)
    return SweepPlan(request.title, frame, workers, request=request)


def steps_in_budget(
    new: Sequence[Sequence[int]], seconds: Sequence[float], workers: int, request: SweepRequest
) -> list[int]:
    """Return for each point how many steps the budget is enough for, in the order of work.

    Parameters
    ----------
    new
        Cells to compute: point -> step -> number.
    seconds
        Of a cell of each point; nan if unknown.
    workers
        Cells that run side by side.
    request
        Has the budget.
    """
    budget, begun, cells, time = request.budget, [0] * len(new), 0, 0.0
    for point, step in turns([len(steps) for steps in new]):
        more, takes = new[point][step], new[point][step] * seconds[point] / workers if new[point][step] else 0.0
        fits = budget.cells is None or cells + more <= budget.cells
        fits = fits and (budget.seconds is None or time + takes <= budget.seconds)
        if begun[point] == step and (fits or not more):
            cells, time, begun[point] = cells + more, time + takes, step + 1
    return begun


def _left(point: PointRequest, done: set[str]) -> list[list[str]]:
    """Return step -> keys of the cells of a point that are not done."""
    design = point.design()
    steps = groupby(design.cells(), key=design.step_of)
    return [[cell.key for cell in cells if cell.key not in done] for _, cells in steps]


def _new(left: Sequence[Sequence[Sequence[str]]]) -> list[list[int]]:
    """Return point -> step -> cells that no point before it, in the order of work, has computed by then."""
    seen: set[str] = set()
    counts = [[0] * len(steps) for steps in left]
    for point, step in turns([len(steps) for steps in left]):
        fresh = set(left[point][step]) - seen
        counts[point][step] = len(fresh)
        seen |= fresh
    return counts

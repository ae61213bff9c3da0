"""What a sweep has to do, breadth first: points, cells, cells that are done, and hours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pandas as pd

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.dry_run import StudyPlan, plan_cells
from mlflow_l3d.studies.sweep.request import SweepRequest
from mlflow_l3d.tracking.connection import Client

FIRST_STEPS: Final = 2
"""Steps of every point in the first round: a spread of row means needs two rows."""


@dataclass(frozen=True, repr=False)
class SweepPlan(StudyPlan):
    """What there is to do.

    Attributes
    ----------
    title, parts, workers, notes
        One row per point, with its choices.
    request
        The sweep.
    """

    request: SweepRequest = field(kw_only=True)

    def check(self) -> None:
        """Raise ParameterError if the budget is known to be enough for no point."""
        budget, designs = self.request.budget, [point.design() for point in self.request.points]
        first = [sum(map(each.step_size, range(min(FIRST_STEPS, each.steps)))) for each in designs]
        if budget.cells is not None and budget.cells < min(first) and not self.parts["done"].any():
            fix = "A point is scored from two rows on. Use a larger one."
            raise ParameterError("budget", budget, "is enough for no point", fix)

    def line(self) -> str:
        """Return what there is to do, in one line."""
        budget = f"; the budget of {self.request.budget} may end it earlier" if self.request.budget else ""
        return f"{counted(len(self.parts), 'point')}, {super().line()}{budget}"


def make_plan(request: SweepRequest, client: Client) -> SweepPlan:
    """Count what there is to do, and look up how long earlier cells took."""
    plan = plan_cells(client, request.title, {str(number): each for number, each in enumerate(request.points)})
    choices = pd.DataFrame([point.choices for point in request.points])
    parts = pd.concat([choices, plan.parts.drop(columns="part")], axis=1)
    return SweepPlan(request.title, parts, plan.workers, request=request, requests=plan.requests)


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

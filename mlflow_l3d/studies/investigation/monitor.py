"""The numbers while an investigation runs: scores as they arrive, metrics step by step, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.checks.shape import long_tails
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.importance.verdicts import joint_level
from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.analysis.planning.stopping import EpsilonRule, IntervalRule
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.studies.investigation.run_plan import Plan


class Stopping:
    """Looks at the scores after every row; the investigation ends when all factors' rules have said stop.

    Parameters
    ----------
    plan
        Its stopping rule, not ``none``.
    factors
        The investigated factors.
    scale
        What scores are multiplied by before a look: 100 if people read them as percentage points, as the papers do.
    """

    def __init__(self, plan: Plan, factors: Sequence[str], scale: int) -> None:
        self.rows: int | None = None
        self._scale = scale
        self._design = plan.design
        self._rules: dict[str, EpsilonRule | IntervalRule] = {
            factor: EpsilonRule(plan.epsilon)
            if plan.stop == "epsilon"
            else IntervalRule(plan.half_width, factors=len(factors))
            for factor in factors
        }

    def analyse(self, scores: Tables) -> None:
        """Look after one more row.

        Parameters
        ----------
        scores
            The rows run so far; each row is looked at once, in order.
        """
        scores = scores.changed(lambda values: self._scale * values)
        for factor, rule in self._rules.items():
            if isinstance(rule, IntervalRule):
                estimate = partial(self._estimate, scores, factor)
                rule.analyse(self._rows(scores), estimate, partial(self._long_tails, scores, factor))
            else:
                rule.analyse(scores.tables[factor], self._design.golden_scores(scores))
        if all(rule.history and rule.history[-1].decision == "stop" for rule in self._rules.values()):
            self.rows = self._rows(scores)

    def history_frame(self) -> pd.DataFrame:
        """Return one row a look: ``factor``, and the columns of `INTERIM_COLUMNS` of analysis/planning/stopping.py."""
        looks = pd.concat({factor: rule.history_frame() for factor, rule in self._rules.items()}, names=["factor"])
        return looks.reset_index("factor").sort_values("rows", kind="stable", ignore_index=True)

    def _estimate(self, scores: Tables, factor: str, rows: int) -> Estimate | None:
        return self._design.estimate(self._design.first(scores, rows, self._rows(scores)), factor)

    def _long_tails(self, scores: Tables, factor: str, rows: int) -> bool:
        done = self._design.first(scores, rows, self._rows(scores))
        return long_tails(self._design.golden_scores(done), done.tables[factor])

    @staticmethod
    def _rows(scores: Tables) -> int:
        return len(next(iter(scores.tables.values())))


class Monitor:
    """Tables of scores that fill up in any order.

    Parameters
    ----------
    request
        What is investigated; its plan may have a rule that ends the investigation.

    Attributes
    ----------
    steps_done
        Steps that are complete, with all before them.
    """

    def __init__(self, request: InvestigationRequest) -> None:
        plan = request.plan
        self.metric = request.metric
        self.failed = 0
        self.design = request.design()
        self.scores = self.design.empty(pooled=plan.golden_pooled)
        self._chance = self.metric.chance_level(len(request.setup.task.class_names))
        self._stopping = None if plan.stop == "none" else Stopping(plan, request.factors, unit_of(self.metric).scale)
        self._left = np.array([self.design.step_size(step) for step in range(self.design.steps)])
        self.steps_done = 0

    @property
    def stopped(self) -> int | None:
        """Rows after which the stopping rule ended the investigation; None while it continues."""
        return None if self._stopping is None else self._stopping.rows

    @property
    def interim_analyses(self) -> pd.DataFrame | None:
        """The looks of the stopping rule so far; None without one."""
        return None if self._stopping is None else self._stopping.history_frame()

    def add(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Take the score of one cell; a cell without the metric counts as failed."""
        score = metrics.get(self.metric.name, np.nan)
        self.failed += int(np.isnan(score))
        self.design.fill(self.scores, cell, score)
        self._left[self.design.step_of(cell)] -= 1

    def new_steps(self) -> list[tuple[int, dict[str, float]]]:
        """Return (steps done, the parent's metrics) for each completed since the last call, with all before it.

        None come after the step at which the stopping rule says stop.
        """
        steps: list[tuple[int, dict[str, float]]] = []
        while self.stopped is None and self.steps_done < len(self._left) and self._left[self.steps_done] == 0:
            self.steps_done += 1
            part = self.design.first(self.scores, self.steps_done, len(self._left))
            steps.append((self.steps_done, self._metrics(part)))
            if self._stopping is not None:
                self._stopping.analyse(part)
        return steps

    def _metrics(self, scores: Tables) -> dict[str, float]:
        level = joint_level(LEVEL, len(scores.tables))
        records = self.design.importances(scores, chance=self._chance, level=level)
        return Analysis(self.metric, records, cells_failed=self.failed).metrics(details=False)

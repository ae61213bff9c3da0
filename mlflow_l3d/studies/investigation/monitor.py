"""The numbers while an investigation runs: scores as they arrive, metrics step by step, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.shape import long_tails
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.importance.verdicts import joint_level
from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.analysis.planning.stopping import EpsilonRule, IntervalRule
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.studies.investigation.request import InvestigationRequest


class Monitor:
    """Tables of scores that fill up in any order; a stopping rule looks at them after every row.

    Parameters
    ----------
    request
        What is investigated; its plan may have a rule that ends the investigation.

    Attributes
    ----------
    steps_done
        Steps that are complete, with all before them.
    stopped
        Rows after which all factors' rules said stop, which ends the investigation; None while it continues.
    """

    def __init__(self, request: InvestigationRequest) -> None:
        plan = request.plan
        self.metric = request.metric
        self.failed = 0
        self.design = request.design()
        self.scores = self.design.empty(pooled=plan.golden_pooled)
        self._chance = self.metric.chance_level(len(request.setup.task.class_names))
        self._rules: dict[str, EpsilonRule | IntervalRule] = {
            factor: EpsilonRule(plan.epsilon)
            if plan.stop == "epsilon"
            else IntervalRule(plan.half_width, factors=len(request.factors))
            for factor in request.factors * (plan.stop != "none")
        }
        self.stopped: int | None = None
        self._left = np.array([self.design.step_size(step) for step in range(self.design.steps)])
        self.steps_done = 0

    @property
    def interim_analyses(self) -> pd.DataFrame | None:
        """One row a look, ``factor`` and the columns of `INTERIM_COLUMNS` of analysis/planning/stopping.py; or None."""
        if not self._rules:
            return None
        looks = pd.concat({factor: rule.history_frame() for factor, rule in self._rules.items()}, names=["factor"])
        return looks.reset_index("factor").sort_values("rows", kind="stable", ignore_index=True)

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
            if self._rules:
                self._look(part)
        return steps

    def _look(self, scores: Tables) -> None:
        """Let the rules look after one more row; each row is looked at once, in order."""
        # The papers' bounds are of percentage points, as people read most scores.
        scale = unit_of(self.metric).scale
        scores = scores.changed(lambda values: scale * values)
        rows = len(next(iter(scores.tables.values())))

        for factor, rule in self._rules.items():
            if isinstance(rule, EpsilonRule):
                rule.analyse(scores.tables[factor], self.design.golden_scores(scores))
            else:
                estimate = partial(self._estimate, scores, factor)
                rule.analyse(rows, estimate, partial(self._has_long_tails, scores, factor))
        if all(rule.stopped for rule in self._rules.values()):
            self.stopped = rows

    def _estimate(self, scores: Tables, factor: str, rows: int) -> Estimate | None:
        return self.design.estimate(self.design.first(scores, rows, self.steps_done), factor)

    def _has_long_tails(self, scores: Tables, factor: str, rows: int) -> bool:
        return long_tails(self.design.golden_scores(scores), scores.tables[factor][:rows])

    def _metrics(self, scores: Tables) -> dict[str, float]:
        level = joint_level(LEVEL, len(scores.tables))
        records = self.design.importances(scores, chance=self._chance, level=level)
        return Analysis(self.metric, records, cells_failed=self.failed).metrics(details=False)

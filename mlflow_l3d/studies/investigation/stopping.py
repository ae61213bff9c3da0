"""The stopping rule of a whole investigation: every factor has its own, and the last one to stop ends it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.planning.stopping import EpsilonRule, IntervalRule
from mlflow_l3d.studies.investigation.run_plan import Plan

PERCENT = 100
"""Scores are fractions, and people give epsilon in percentage points, as the papers do."""


class Stopping:
    """Looks at the scores after every row; the investigation ends when all factors' rules have said stop.

    Parameters
    ----------
    plan
        Its stopping rule, not ``none``.
    factors
        The investigated factors.
    """

    def __init__(self, plan: Plan, factors: Sequence[str]) -> None:
        self.rows: int | None = None
        self._design = plan.design
        self._rules: dict[str, EpsilonRule | IntervalRule] = {}
        for factor in factors:
            if plan.stop == "epsilon":
                self._rules[factor] = EpsilonRule(plan.epsilon)
            else:
                self._rules[factor] = IntervalRule(plan.half_width, factors=len(factors))

    def analyse(self, scores: Tables) -> None:
        """Look after one more row.

        Parameters
        ----------
        scores
            The rows run so far; each row is looked at once, in order.
        """
        scores = scores.scaled(PERCENT)
        for factor, rule in self._rules.items():
            if isinstance(rule, IntervalRule):
                rule.analyse(self._rows(scores), partial(self._estimate, scores, factor))
            else:
                rule.analyse(scores.tables[factor], self._design.golden_scores(scores))
        if all(rule.history and rule.history[-1].decision == "stop" for rule in self._rules.values()):
            self.rows = self._rows(scores)

    def history_frame(self) -> pd.DataFrame:
        """Return one row a look: ``factor``, and the columns of `INTERIM_COLUMNS` of analysis/planning/stopping.py."""
        frames = [
            frame.assign(factor=factor) for factor, rule in self._rules.items() if len(frame := rule.history_frame())
        ]
        if not frames:
            return pd.DataFrame(columns=["factor", *IntervalRule(0.5).history_frame().columns])
        frame = pd.concat(frames, ignore_index=True)
        ordered = frame.sort_values("rows", kind="stable", ignore_index=True)
        return ordered[["factor", *(name for name in ordered if name != "factor")]]

    def _estimate(self, scores: Tables, factor: str, rows: int) -> Estimate | None:
        return self._design.estimate(self._design.first(scores, rows, self._rows(scores)), factor)

    @staticmethod
    def _rows(scores: Tables) -> int:
        return len(next(iter(scores.tables.values())))

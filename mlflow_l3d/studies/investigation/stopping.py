"""The stopping rule of a whole investigation: every factor has its own, and the last one to stop ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.score_tables import Tables
from mlflow_l3d.analysis.importance.variances import Design
from mlflow_l3d.analysis.planning.stopping import EpsilonRule, IntervalRule
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError
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
        self._rules: dict[str, EpsilonRule | IntervalRule] = {}
        for factor in factors:
            if plan.stop == "epsilon":
                self._rules[factor] = EpsilonRule(plan.epsilon)
            else:
                self._rules[factor] = IntervalRule(plan.half_width, factors=len(factors), design=_design(plan))

    def analyse(self, scores: Tables) -> None:
        """Look after one more row.

        Parameters
        ----------
        scores
            The rows run so far; each row is looked at once, in order.
        """
        golden = PERCENT * scores.golden_scores()
        for factor, rule in self._rules.items():
            table = PERCENT * scores.tables[factor]
            if scores.layout == "radial":
                others = [scores.tables[name] for name in self._rules if name != factor]
                own = np.column_stack([PERCENT * scores.base, table])
                rule.analyse(own, np.column_stack(others) * PERCENT if others else np.empty((len(own), 0)))
            else:
                rule.analyse(table, golden)
        if all(rule.history and rule.history[-1].decision == "stop" for rule in self._rules.values()):
            self.rows = _rows(scores)

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


def _design(plan: Plan) -> Design:
    if plan.design in ("random", "fixed"):
        raise ParameterError("stop", plan.stop, f"is not for design={plan.design}")
    return cast("Design", plan.design)


def _rows(scores: Tables) -> int:
    tables: list[FloatArray] = list(scores.tables.values())
    return len(tables[0])

"""The test examples of a session in two halves: one judges, and the fresh one confirms what was kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import scores_of


class Halves:
    """Two halves of the test examples, drawn from the root seed, within each class if there are classes.

    Parameters
    ----------
    answers
        Predictions of a run of the baseline; None if it has none.
    metric, task
        By which both are scored, and what the baseline says of its data.
    root_seed
        Of the baseline.

    Raises
    ------
    ParameterError
        If there are no predictions, or the metric is not computed from them.
    """

    def __init__(
        self, answers: pd.DataFrame | None, metric: Metric, task: Mapping[str, Any], root_seed: int | None
    ) -> None:
        if answers is None or metric.function is None:
            why = f"needs predictions that {metric.name} is computed from, and the baseline has none"
            raise ParameterError("fresh_half", "true", why, "Leave it out, or name another metric.")
        self.metric, self._task, draws = metric, task, stream(root_seed or 0, "fresh half")
        ordered = answers.sort_values("example_id", kind="stable")
        drawn = ordered.iloc[draws.permutation(len(ordered))]
        if answers["label"].dtype.kind in "iu":
            drawn = drawn.sort_values("label", kind="stable")  # every other one of each class
        self._ids, self._fresh = set(answers["example_id"]), set(drawn["example_id"].iloc[1::2])

    def of(self, answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the predictions of the half that judges, and of the fresh one."""
        fresh = answers["example_id"].isin(self._fresh)
        return answers[~fresh], answers[fresh]

    def scores(self, answers: pd.DataFrame | None, title: str) -> tuple[float, float]:
        """Return a run's score on the half that judges, and on the fresh one.

        Raises
        ------
        ParameterError
            If it has no predictions, or those of other examples.
        """
        if answers is None or set(answers["example_id"]) != self._ids:
            what = "no predictions" if answers is None else "predictions of other test examples"
            why = f"{title[:60]} has {what}, of which no half can be scored"
            raise ParameterError("fresh_half", "true", why, "Investigate with test_selection=fixed, or leave it out.")
        kind, classes = str(self._task.get("kind", "classification")), len(self._task.get("classes") or ()) or None
        only = [self.metric.name]
        every = [
            scores_of(np.array(part["label"]), np.array(part["prediction"]), kind, classes=classes, only=only)
            for part in self.of(answers)
        ]
        judged, fresh = (each.get(self.metric.name, math.nan) for each in every)
        return judged, fresh

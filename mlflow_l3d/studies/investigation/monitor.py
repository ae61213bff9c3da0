"""The numbers while an investigation runs: scores as they arrive, metrics step by step, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import Design
from mlflow_l3d.metrics.known import named
from mlflow_l3d.plan.cells import Cell
from mlflow_l3d.studies.investigation.stopping import Stopping


class Monitor:
    """Tables of scores that fill up in any order.

    Parameters
    ----------
    design
        The cells.
    metric
        The investigated metric.
    classes
        Number of classes, None where not known.
    pooled
        Whether all other runs take the place of golden runs.
    stopping
        The rule that may end the investigation; None for none.
    """

    def __init__(
        self,
        design: Design,
        *,
        metric: str,
        classes: int | None,
        pooled: bool = False,
        stopping: Stopping | None = None,
    ) -> None:
        self.metric = metric
        self.failed = 0
        self.scores = design.empty(pooled=pooled)
        self._design = design
        self._chance = named(metric).chance_level(classes)
        self._stopping = stopping
        self._left = np.array([design.step_size(step) for step in range(design.steps)])
        self._done = 0

    @property
    def stopped(self) -> int | None:
        """Rows after which the stopping rule ended the investigation; None while it goes on."""
        return None if self._stopping is None else self._stopping.rows

    @property
    def interim_analyses(self) -> pd.DataFrame | None:
        """The looks of the stopping rule so far; None without one."""
        return None if self._stopping is None else self._stopping.history_frame()

    def add(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Take the score of one cell; a cell without the metric counts as failed."""
        score = metrics.get(self.metric, np.nan)
        self.failed += int(np.isnan(score))
        self._design.fill(self.scores, cell, score)
        self._left[self._design.step_of(cell)] -= 1

    def new_steps(self) -> list[tuple[int, dict[str, float]]]:
        """Return (steps done, the parent's metrics) for each completed since the last call, with all before it.

        None come after the step at which the stopping rule says stop.
        """
        found: list[tuple[int, dict[str, float]]] = []
        while self.stopped is None and self._done < len(self._left) and self._left[self._done] == 0:
            self._done += 1
            part = self._design.first(self.scores, self._done, len(self._left))
            found.append((self._done, self._metrics(part)))
            if self._stopping is not None:
                self._stopping.analyse(part)
        return found

    def _metrics(self, scores: Tables) -> dict[str, float]:
        records = self._design.importances(scores, chance=self._chance)
        return Analysis(self.metric, records, cells_failed=self.failed).metrics(details=False)

"""The numbers while an investigation runs: scores as they arrive, and the parent's metrics row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlflow_l3d.analysis.aggregate import CHANCE_METRICS
from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.results import Analysis, FloatArray
from mlflow_l3d.plan.cells import Cell


class Monitor:
    """Tables of scores that fill up in any order.

    Parameters
    ----------
    factors
        Investigated factors.
    rows, columns, golden_runs
        M, N, L.
    metric
        The investigated metric.
    classes
        Number of classes, None where not known.
    """

    def __init__(
        self, factors: Sequence[str], *, rows: int, columns: int, golden_runs: int, metric: str, classes: int | None
    ) -> None:
        self.metric = metric
        self.tables: dict[str, FloatArray] = {factor: np.full((rows, columns), np.nan) for factor in factors}
        self.golden: FloatArray = np.full(golden_runs, np.nan)
        self.failed = 0
        self._rows = rows
        self._classes = classes if metric in CHANCE_METRICS else None
        self._left = np.full(rows, columns * len(factors))
        for row in range(rows):
            self._left[row] += self._golden_due(row) - self._golden_due(row - 1)
        self._rows_done = 0

    def add(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Take the score of one cell; a cell without the metric counts as failed."""
        score = metrics.get(self.metric, np.nan)
        self.failed += int(np.isnan(score))
        if cell.phase == "golden":
            index = int(cell.index or 0)
            self.golden[index] = score
            row = index * self._rows // len(self.golden)
        else:
            row = int(cell.row or 0)
            self.tables[str(cell.factor)][row, int(cell.column or 0)] = score
        self._left[row] -= 1

    def new_rows(self) -> list[tuple[int, dict[str, float]]]:
        """Return (rows done, the parent's metrics) for each row completed since the last call, with all before it."""
        steps = []
        while self._rows_done < self._rows and self._left[self._rows_done] == 0:
            self._rows_done += 1
            steps.append((self._rows_done, self._metrics(self._rows_done)))
        return steps

    def _golden_due(self, row: int) -> int:
        return -(-len(self.golden) * (row + 1) // self._rows)

    def _metrics(self, rows: int) -> dict[str, float]:
        golden = self.golden[: self._golden_due(rows - 1)]
        records = {
            factor: importance(table[:rows], golden, factor=factor, classes=self._classes)
            for factor, table in self.tables.items()
        }
        return Analysis(self.metric, records, cells_failed=self.failed).metrics()

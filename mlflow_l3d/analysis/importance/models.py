"""The two ways in which the columns of an M x N table of scores belong together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.components import (
    Components,
    crossed_components,
    effects,
    mean_squares_without_one_column,
    mean_squares_without_one_row,
)
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.intervals import crossed_estimate
from mlflow_l3d.analysis.importance.nested import (
    NestedComponents,
    nested_components,
    nested_estimate,
    nested_variances_without_each,
)
from mlflow_l3d.analysis.typing import FloatArray


@dataclass(frozen=True)
class TableModel:
    """What is estimated from a complete table, shape (M, N), finite.

    Attributes
    ----------
    name
        Of the design that the model is named after.
    shared_columns
        Whether column j is the same configuration under every row, so that columns are draws as rows are.
    estimate, components
        The corrected importance with its error, and the variances behind it; None below two rows or columns.
    without_each_row, without_each_column
        The corrected importance without each row, or column, in turn: shapes (M,) and (N,), M or N at least 3. None
        where columns belong to their row.
    """

    name: str
    shared_columns: bool
    estimate: Callable[[FloatArray], Estimate | None]
    components: Callable[[FloatArray], Components | NestedComponents | None]
    without_each_row: Callable[[FloatArray], FloatArray]
    without_each_column: Callable[[FloatArray], FloatArray] | None = None

    @property
    def least_columns(self) -> int:
        """Columns that an interval needs."""
        return 3 if self.shared_columns else 2


def importances_of_variances(contributed: FloatArray, mitigated: FloatArray) -> FloatArray:
    """Return the corrected importance that pairs of variances make; what is mitigated may be below zero."""
    left = np.maximum(0.0, mitigated)
    scores: FloatArray = (np.sqrt(contributed) - np.sqrt(left)) / np.sqrt(contributed + left)
    return scores


def _crossed(squares: tuple[FloatArray, FloatArray, FloatArray], rows: int, columns: int) -> FloatArray:
    of_rows, of_columns, residual = squares
    contributed = of_columns / rows + (1 - 1 / rows) * residual
    return importances_of_variances(contributed, (of_rows - residual) / columns)


CROSSED: Final = TableModel(
    name="crossed",
    shared_columns=True,
    estimate=crossed_estimate,
    components=crossed_components,
    without_each_row=lambda table: _crossed(
        mean_squares_without_one_row(effects(table)), len(table) - 1, table.shape[1]
    ),
    without_each_column=lambda table: _crossed(
        mean_squares_without_one_column(effects(table)), len(table), table.shape[1] - 1
    ),
)
"""Rows and columns crossed: two-way analysis of variance."""
NESTED: Final = TableModel(
    name="nested",
    shared_columns=False,
    estimate=nested_estimate,
    components=nested_components,
    without_each_row=lambda table: importances_of_variances(*nested_variances_without_each(table)),
)
"""Every row has columns of its own: one-way analysis of variance."""

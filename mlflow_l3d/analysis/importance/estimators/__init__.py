"""How the components of variance are estimated, one module a design, and how the columns of a table belong together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mlflow_l3d.analysis.importance.estimate import Estimate, Variances
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_components, crossed_estimate, crossed_without_each
from mlflow_l3d.analysis.importance.estimators.levels import levels_components, levels_estimate, levels_without_each
from mlflow_l3d.analysis.importance.estimators.nested import (
    nested_components,
    nested_estimate,
    nested_variances_without_each,
    radial_estimate,
    radial_variances_without_each,
)
from mlflow_l3d.analysis.importance.variances import MeanSquares
from mlflow_l3d.analysis.intervals import FloatArray


@dataclass(frozen=True)
class TableModel:
    """What is estimated from a table, shape (M, N), nan if a score is missing.

    Attributes
    ----------
    name
        Of the design that the model is named after.
    shared_columns
        Whether column j is the same configuration under every row, so that columns are draws as rows are.
    estimate, components
        The corrected importance with its error, and the mean squares behind it; None below two rows or columns.
    without_each
        Contributed and mitigated variance without each row and, where columns are draws, each column in turn.
    """

    name: str
    shared_columns: bool
    estimate: Callable[[FloatArray], Estimate | None]
    components: Callable[[FloatArray], MeanSquares | None]
    without_each: Callable[[FloatArray], tuple[Variances, ...]]

    @property
    def least_columns(self) -> int:
        """Columns that an interval needs."""
        return 3 if self.shared_columns else 2


CROSSED: Final = TableModel("crossed", True, crossed_estimate, crossed_components, crossed_without_each)
"""Rows and columns crossed: two-way analysis of variance."""
NESTED: Final = TableModel(
    "nested", False, nested_estimate, nested_components, lambda table: (nested_variances_without_each(table),)
)
"""Every row has columns of its own: one-way analysis of variance."""
RADIAL: Final = TableModel(
    "radial",
    False,
    lambda sets: radial_estimate(sets, 1),
    lambda sets: nested_components(sets[:, :2]),
    lambda sets: (radial_variances_without_each(sets, 1),),
)
"""Rows of base run, swap of the factor, and swaps of the others."""
LEVELS: Final = TableModel(
    "levels", False, levels_estimate, levels_components, lambda table: (levels_without_each(table),)
)
"""Every row has the same columns, and these are all there are: no draws."""

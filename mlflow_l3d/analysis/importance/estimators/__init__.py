"""How the components of variance are estimated, one module a design, and how the columns of a table belong together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.estimators.levels import levels_estimate
from mlflow_l3d.analysis.importance.estimators.nested import nested_estimate, radial_estimate
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
    estimate
        The corrected importance with its error; None below two rows or columns.
    """

    name: str
    shared_columns: bool
    estimate: Callable[[FloatArray], Estimate | None]

    @property
    def least_columns(self) -> int:
        """Columns that an interval needs."""
        return 3 if self.shared_columns else 2

    def dependent_spread(self, tables: Iterable[FloatArray]) -> tuple[float, float] | None:
        """Return standard deviation and degrees of freedom of a run, from tables whose runs share rows and columns.

        Both are means over the tables, which may share runs (Satterthwaite 1946); None if no table has them.
        """
        estimates = [self.estimate(table[np.isfinite(table).any(axis=1)]) for table in tables]
        squares = [each.squares for each in estimates if each is not None]
        parts = [each for each in squares if each is not None and each.total > 0]
        if not parts:
            return None
        degrees = float(np.mean([each.total_degrees for each in parts]))
        return math.sqrt(np.mean([each.total for each in parts])), degrees


CROSSED: Final = TableModel("crossed", True, crossed_estimate)
"""Rows and columns crossed: two-way analysis of variance."""
NESTED: Final = TableModel("nested", False, nested_estimate)
"""Every row has columns of its own: one-way analysis of variance."""
RADIAL: Final = TableModel("radial", False, partial(radial_estimate, place=1))
"""Rows of base run, swap of the factor, and swaps of the others."""
LEVELS: Final = TableModel("levels", False, levels_estimate)
"""Every row has the same columns, and these are all there are: no draws."""

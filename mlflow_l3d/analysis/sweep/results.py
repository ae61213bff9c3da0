"""What the points of a sweep say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from mlflow_l3d.analysis.sweep.point import Choice, SweptPoint, choices_of
from mlflow_l3d.analysis.sweep.table import long_table
from mlflow_l3d.errors import ParameterError


@dataclass(frozen=True)
class Sweep:
    """Several investigations side by side.

    Attributes
    ----------
    points
        The investigations, in their order.
    choices
        Systematic choice -> its values, of those in which points differ.
    factors
        Investigated factors, in the order in which they first occur.
    rows
        One row a point and factor; see :func:`mlflow_l3d.analysis.sweep.table.long_table`.
    """

    points: tuple[SweptPoint, ...]
    choices: Mapping[str, tuple[Choice, ...]]
    factors: tuple[str, ...]
    rows: pd.DataFrame

    @property
    def failed(self) -> tuple[SweptPoint, ...]:
        """The points without a score."""
        return tuple(point for point in self.points if not point.complete)

    def metrics(self) -> dict[str, float]:
        """Return the single numbers by name."""
        failed = self.rows.drop_duplicates("point")["cells_failed"].sum()
        return {"points": float(len(self.points)), "points_failed": float(len(self.failed)), "cells_failed": failed}


def analyse_sweep(points: Sequence[SweptPoint]) -> Sweep:
    """Return what several investigations say together.

    Parameters
    ----------
    points
        At least one.

    Raises
    ------
    ParameterError
        If there is none.
    """
    if not points:
        raise ParameterError("points", "(none)", "must be at least one investigation")
    rows = long_table(points)
    factors = tuple(str(name) for name in rows["factor"].unique() if name)
    return Sweep(tuple(points), choices_of(points), factors, rows)

"""Designs: which cells an investigation has, and what is computed from their scores. A class each; and their plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.analysis.importance.checks.evidence import PlanFacts
from mlflow_l3d.analysis.importance.tables import Tables, factors_in
from mlflow_l3d.designs.base import Design, Sizes

__all__ = ["Design", "Planned", "all_designs", "design_named", "design_of", "plannable_designs"]


@cache
def design_named(name: str) -> type[Design]:
    """Return the class of a design.

    Raises
    ------
    ParameterError
        If there is no such design; the parameter is ``design``.
    """
    design: type[Design] = registry.load("design", name)
    return design


def all_designs() -> dict[str, type[Design]]:
    """Return name -> class of every design that is installed, sorted by name."""
    return {name: design_named(name) for name in registry.names("design")}


def plannable_designs() -> dict[str, type[Design]]:
    """Return name -> class of the designs whose precision can be reckoned before a run."""
    return {name: design for name, design in all_designs().items() if design.planning is not None}


def design_of(cells: pd.DataFrame) -> type[Design]:
    """Return the design of a stranger's cells: one that has a phase of theirs to itself, else the crossed one."""
    phases = set(cells["phase"]) if "phase" in cells else set()
    recognising = [design for design in all_designs().values() if design.recognises(phases)]
    return recognising[0] if recognising else design_named("crossed")


@dataclass(frozen=True)
class Planned(Sizes, PlanFacts):
    """The known parts of the plan behind some cells; None if only the cells tell.

    Attributes in addition to those of :class:`mlflow_l3d.designs.base.Sizes` and of
    :class:`mlflow_l3d.analysis.importance.checks.evidence.PlanFacts`:

    Attributes
    ----------
    design
        Class of the design; None means what the phases of the cells tell.
    factors
        The investigated factors in the order to report; None means all that are found.
    sequential
        Whether a rule looked at the intervals while the investigation ran (``stop=interval``).
    distinct_rows
        Rows that the mitigation strategies allow before one repeats; inf if any number, or if it is not known.
    """

    design: type[Design] | None = None
    factors: Sequence[str] | None = None
    sequential: bool = False
    distinct_rows: float = math.inf

    def design_of(self, cells: pd.DataFrame) -> type[Design]:
        """Return the design: that of the plan, else what the cells tell."""
        return self.design or design_of(cells)

    def select(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the cells of the plan in the order in which votes are counted.

        Cells that were under way when a stopping rule said stop lie beyond the plan.
        """
        design = self.design_of(cells)
        inside = pd.Series(True, index=cells.index)
        rows = None if design.baseline else self.rows
        for name, count in (("row", rows), ("index", None if self.pooled else self.golden_runs)):
            if count is not None and name in cells:
                inside &= ~(pd.to_numeric(cells[name]) >= count).fillna(value=False).astype(bool)
        factors = list(cells["factor"].dropna().unique()) if self.factors is None else self.factors
        return design.order(cells[inside], factors)

    def tables(self, cells: pd.DataFrame, metric: str) -> Tables:
        """Return the tables of scores; errors as :func:`mlflow_l3d.designs.analyse.analyse`."""
        design = self.design_of(cells)
        factors = factors_in(cells, design.phases) if self.factors is None else self.factors
        return design.tables(cells, metric, factors, self)

"""The crossed design of a fixed list: column j is level j, and the levels are all there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlflow_l3d.analysis.importance.estimators import LEVELS
from mlflow_l3d.cells.cell import Cell, cell_key
from mlflow_l3d.designs import words
from mlflow_l3d.designs.crossed import JOINT, CrossedDesign
from mlflow_l3d.errors import ParameterError


@dataclass(frozen=True)
class LevelsDesign(CrossedDesign):
    """All N levels of the investigated factor under each of M rows, and L golden runs.

    The seed of column j is j: a factor that chooses from a list takes the element at its seed modulo the length of the
    list. Rows and golden runs draw a level like any configuration, each as likely, so that they equal those of the
    crossed design.
    """

    name = "levels"
    words = words.LEVELS
    model = LEVELS
    planning = None
    compares = "levels"
    lists = True
    products = repeats = ablates = False
    stops = ()

    def check_runs(self) -> None:
        """Raise ParameterError where rows would repeat, or factors are joined."""
        super().check_runs()
        for factor in self.factors:
            if JOINT in factor and factor not in self.all_factors:
                allowed = "joins factors, and design=levels takes the levels of one list"
                raise ParameterError("factor", factor, allowed, "Name them by themselves, or use design=crossed.")

    def investigation_cell(self, factor: str, row: int, column: int) -> Cell:
        """Return the cell of level `column` in a row."""
        drawn = super().investigation_cell(factor, row, column)
        seeds = {**drawn.seeds, factor: column}
        return replace(drawn, seeds=seeds, key=cell_key(self.context_key, seeds))

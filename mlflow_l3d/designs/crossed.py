"""The published crossed design, what all designs with one M x N table per factor have in common, and configurations.

Joint factors move together, and a mitigation strategy keeps a factor to a small set of configurations.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance import importance, importance_path
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators import CROSSED, TableModel
from mlflow_l3d.analysis.importance.estimators.crossed import with_first_order
from mlflow_l3d.analysis.importance.estimators.missing_cells import Missing, with_reml
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import Tables, golden_scores, score_table, usable
from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import GOLDEN_BASE, INVESTIGATION_BASE, MITIGATION_BASE
from mlflow_l3d.designs.base import Design, Sizes
from mlflow_l3d.designs.layout import Mitigation
from mlflow_l3d.errors import ParameterError

JOINT: Final = "+"
"""Between the names of factors that are one."""


@dataclass(frozen=True)
class TableDesign(Design):
    """A design with M x N runs for every investigated factor, and L golden runs that all share."""

    @abstractmethod
    def configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:
        """Return the configuration of every factor at a place in the table of `members`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table of one factor."""
        return self.mitigation_runs, self.investigation_runs

    def cells(self) -> Iterator[Cell]:
        """Yield the cells step by step, each step followed by its share of the golden runs."""
        for step in range(self.steps):
            for factor in self.factors:
                for number in range(self.investigation_runs):
                    yield self.investigation_cell(factor, *self.place(step, number))
            for index in range(self._golden_before(step), self._golden_before(step + 1)):
                yield self.cell("golden", dict.fromkeys(self.all_factors, GOLDEN_BASE + index), index=index)

    def investigation_cell(self, factor: str, row: int, column: int) -> Cell:
        """Return the cell at (`row`, `column`) of the table of `factor`."""
        configurations = self.configurations(factor_members(factor, self.all_factors), row, column)
        return self.cell("investigation", configurations, factor=factor, row=row, column=column)

    def step_of(self, cell: Cell) -> int:
        """Return the 0-based step that a cell of this design belongs to."""
        if cell.phase == "golden":
            return int(cell.index or 0) * self.steps // self.golden_runs
        return self.step_at(int(cell.row or 0), int(cell.column or 0))

    def step_size(self, step: int) -> int:
        """Return how many cells step `step` has, golden runs included."""
        golden = self._golden_before(step + 1) - self._golden_before(step)
        return len(self.factors) * self.investigation_runs + golden

    def place(self, step: int, number: int) -> tuple[int, int]:
        """Return row and column of run `number` of a step."""
        return step, number

    def step_at(self, row: int, column: int) -> int:
        """Return the step of the cells at a place: the other direction of `place`."""
        return row

    def _golden_before(self, step: int) -> int:
        """Return how many golden runs come before a step: rounded up, so that every step has its share."""
        return -(-self.golden_runs * step // self.mitigation_runs)

    def mitigated(self, members: Sequence[str], number: int, base: int) -> dict[str, int]:
        """Return the configurations of all factors but `members` in row `number`."""
        mitigated = [name for name in self.all_factors if name not in members]
        return mitigated_configurations(number, base, mitigated, self.mitigation)

    def empty(self, *, pooled: bool = False) -> Tables:
        """Return the tables of scores before the first cell is done, all nan."""
        tables = {factor: np.full(self.shape, np.nan) for factor in self.factors}
        return Tables(tables, np.full(self.golden_runs, np.nan), pooled=pooled)

    @classmethod
    def tables(cls, cells: pd.DataFrame, metric: str, factors: Sequence[str], sizes: Sizes) -> Tables:
        """Return the tables of scores of a frame of cells: shape (M, N) for every factor."""
        tables = {name: score_table(cells, name, metric, rows=sizes.rows, columns=sizes.columns) for name in factors}
        golden = np.empty(0) if sizes.pooled else golden_scores(cells, metric, runs=sizes.golden_runs)
        return Tables(tables, golden, pooled=sizes.pooled)

    @classmethod
    def importances(
        cls, scores: Tables, *, chance: float | None = None, missing: Missing = "anova", level: float = LEVEL
    ) -> dict[str, Importance]:
        """Return the record of every factor; see :func:`mlflow_l3d.analysis.importance.importance`."""
        golden = cls.golden_scores(scores)
        records = {}
        for name, table in scores.tables.items():
            record = importance(table, golden, factor=name, chance=chance, model=cls.model, level=level)
            if scores.pooled:  # cells of one table are not independent of each other
                record = replace(record, golden_std_ci_low=math.nan, golden_std_ci_high=math.nan)
                record = replace(record, importance_ci_low=math.nan, importance_ci_high=math.nan)
            record = cls.final(record, missing)
            if cls.model.shared_columns:
                record = with_first_order(record)
            records[name] = replace(record, design=cls.name, golden_pooled=scores.pooled)
        return records

    @classmethod
    def final(cls, record: Importance, missing: Missing) -> Importance:
        """Return the record of a factor as this design reports it."""
        return with_reml(record) if missing == "reml" and cls.model.shared_columns and record.cells_missing else record

    @classmethod
    def estimate(cls, scores: Tables, factor: str) -> Estimate | None:
        """Return the corrected importance of a factor."""
        return cls.model.estimate(usable(scores.tables[factor]))

    @classmethod
    def paths(cls, importances: Mapping[str, Importance]) -> dict[str, pd.DataFrame]:
        """Return how scores settled while rows were added."""
        return {
            name: importance_path(record.table, record.golden, model=cls.model, level=record.level)
            for name, record in importances.items()
            if not cls.baseline
        }


@dataclass(frozen=True)
class CrossedDesign(TableDesign):
    """The published design (Pecher et al. 2024, Algorithm 1): N columns under each of M rows, and L golden runs.

    A row puts the mitigated factors at the same configurations in every table, so that factors can be compared on
    shared rows. With `product` the columns of a joint factor are the cross product of its members' configurations (the
    paper's B.1) instead of pairs: N = b^k columns hold every combination of b configurations of k members; other N hold
    the first N of a fixed order. Columns then share configurations, so they are no longer independent draws, and an
    interval that takes them for such is too narrow.
    """

    name = "crossed"
    model = CROSSED
    planning: ClassVar[TableModel | None] = CROSSED
    products = repeats = True
    stops: ClassVar[tuple[str, ...]] = ("interval", "epsilon")

    def check_runs(self) -> None:
        """Raise ParameterError where rows would repeat."""
        for factor in self.factors:
            if self.mitigation_runs > (rows := self._rows_of(factor)):
                allowed = f"the factors mitigated for {factor} have {rows:g} combination(s), so rows would repeat"
                raise ParameterError("mitigation_runs", self.mitigation_runs, allowed, f"Use {rows:g} at most.")
        if self.product and not any(JOINT in factor for factor in self.factors):
            raise ParameterError("joint", "product", "has no effect without joint factors", "Use factor=a+b.")

    @property
    def distinct_rows(self) -> float:
        """Rows that differ in the table of every factor."""
        return min(map(self._rows_of, self.factors), default=math.inf)

    def _rows_of(self, factor: str) -> float:
        members = factor_members(factor, self.all_factors)
        if len(members) == 1 and not self.mitigation:
            return math.inf
        return distinct_rows(self.mitigation, [name for name in self.all_factors if name not in members])

    def configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:
        """Return column `column` of the members, and row `row` of all others."""
        columns = product_configurations(column, len(members)) if self.product else [column] * len(members)
        of_members = {name: INVESTIGATION_BASE + number for name, number in zip(members, columns, strict=True)}
        return of_members | self.mitigated(members, row, MITIGATION_BASE)


def joint_name(members: Iterable[str], all_factors: Sequence[str]) -> str:
    """Return the one name of a set of known factors, its members in the order of `all_factors`.

    Raises
    ------
    ParameterError
        If a member is listed twice; the parameter is ``factor``.
    """
    listed = list(members)
    if len(set(listed)) < len(listed):
        raise ParameterError("factor", JOINT.join(listed), "joint factors must be different factors")
    return JOINT.join(name for name in all_factors if name in listed)


def factor_members(name: str, all_factors: Sequence[str]) -> tuple[str, ...]:
    """Return the factors that `name` joins, as :func:`joint_name` orders them; one for a factor alone.

    A factor of an approach may itself have ``+`` in its name; its whole name is looked for first.
    """
    return (name,) if name in all_factors else tuple(name.split(JOINT))


def product_configurations(column: int, members: int) -> tuple[int, ...]:
    """Return element `column` of the cross product of `members` sets of configurations 0, 1, 2, ...

    The order goes by the largest configuration in an element. The first ``b ** members`` elements are then the full
    product of the first b configurations of every member, for every b, and an element does not depend on how many
    columns there are.

    Parameters
    ----------
    column
        0-based number of the element.
    members
        Number of sets, at least 1.

    Returns
    -------
    tuple of int
        Length `members`.
    """
    largest = round(column ** (1 / members))
    largest -= largest**members > column
    rest = column - largest**members
    element: list[int] = []
    reached = False  # whether one of the configurations chosen so far is the largest; if none is, a later one must be
    for left in range(members - 1, -1, -1):
        each = (largest + 1) ** left
        if not reached:
            each -= largest**left
        chosen = min(rest // each, largest) if each else largest
        rest -= chosen * each
        reached = reached or chosen == largest
        element.append(chosen)
    return tuple(element)


def distinct_rows(mitigation: Mitigation, mitigated: Iterable[str]) -> float:
    """Return how many rows differ before the configurations of the `mitigated` factors repeat; inf if they never do."""
    return math.prod(len(mitigation[name]) if name in mitigation else math.inf for name in mitigated)


def mitigated_configurations(
    number: int, base: int, mitigated: Sequence[str], mitigation: Mitigation
) -> dict[str, int]:
    """Return the configuration of every mitigated factor in one row.

    Parameters
    ----------
    number
        0-based number of the row.
    base
        Where the configurations of factors without a reduced set begin.
    mitigated
        The factors, in the approach's order: the order of `mitigation` has no effect.
    mitigation
        The reduced sets.

    Notes
    -----
    Several reduced sets go through all their combinations before one repeats, and after any number of rows each set
    has been used evenly: row r takes element ``(r + r // lcm(P, k)) mod k`` of a set of k, where P counts the
    combinations of the sets before it and r is counted modulo ``P k``. Without the shift, two sets of one size would
    always move together.
    """
    configurations = {}
    before = 1
    for name in mitigated:
        if name not in mitigation:
            configurations[name] = base + number
            continue
        indices = mitigation[name]
        size = len(indices)
        turn = number % (before * size)
        configurations[name] = MITIGATION_BASE + indices[(turn + turn // math.lcm(before, size)) % size]
        before *= size
    return configurations

"""The baseline strategies that the importance is compared with (Pecher et al. 2024, Tables 1 and 5).

Both spend N x M runs a factor, as the crossed design does, and have one row of N x M columns; N and M say only how the
runs are cut into steps. Both share the golden runs of the other designs: they estimate the same spread for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pandas as pd

from mlflow_l3d.analysis.importance.checks import BASELINE_CHECKS
from mlflow_l3d.analysis.importance.estimators import CROSSED
from mlflow_l3d.analysis.importance.estimators.missing_cells import Missing
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.importance.verdicts import StrategyResult, baseline_strategy
from mlflow_l3d.cells.factors import GOLDEN_BASE, INVESTIGATION_BASE, MITIGATION_BASE, RADIAL_BASE, RANDOM_BASE
from mlflow_l3d.designs.base import Sizes
from mlflow_l3d.designs.crossed import TableDesign
from mlflow_l3d.designs.layout import check_number
from mlflow_l3d.designs.words import baseline
from mlflow_l3d.errors import ParameterError


@dataclass(frozen=True)
class _Baseline(TableDesign):
    """One row of N x M columns."""

    baseline = True
    ablates = False
    model = CROSSED
    compares = "tables"
    factor_checks = BASELINE_CHECKS
    name: ClassVar[Literal["random", "fixed"]]

    def check_runs(self) -> None:
        """Raise ParameterError where configurations would repeat."""
        check_number("investigation_runs", self.investigation_runs, 1, MITIGATION_BASE)
        check_number("mitigation_runs", self.mitigation_runs, 1, MITIGATION_BASE)
        check_number("golden_runs", self.golden_runs, 0, RADIAL_BASE - GOLDEN_BASE)
        runs = self.investigation_runs * self.mitigation_runs
        if runs > MITIGATION_BASE:
            allowed = f"investigation_runs x mitigation_runs is {runs}, {MITIGATION_BASE} at most in a strategy"
            raise ParameterError("mitigation_runs", self.mitigation_runs, allowed, "Use fewer runs.")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table of one factor: one row."""
        return 1, self.mitigation_runs * self.investigation_runs

    def place(self, step: int, number: int) -> tuple[int, int]:
        """Return row and column of run `number` of a step."""
        return 0, step * self.investigation_runs + number

    def step_at(self, row: int, column: int) -> int:
        """Return the step of the cells at a place."""
        return column // self.investigation_runs

    @classmethod
    def tables(cls, cells: pd.DataFrame, metric: str, factors: Sequence[str], sizes: Sizes) -> Tables:
        """Return the tables of scores of a frame of cells: shape (1, N M) for every factor."""
        columns = None if sizes.rows is None or sizes.columns is None else sizes.rows * sizes.columns
        return super().tables(cells, metric, factors, replace(sizes, rows=1, columns=columns))

    @classmethod
    def first(cls, scores: Tables, steps: int, of: int) -> Tables:
        """Return the scores of the first `steps` of `of` steps."""
        tables = {name: table[:, : table.shape[1] * steps // of] for name, table in scores.tables.items()}
        return replace(super().first(scores, steps, of), tables=tables)

    @classmethod
    def final(cls, record: Importance, missing: Missing) -> Importance:
        """Return the record without any number of its one row: only `golden_std` and those of the scores are known."""
        return replace(record, contributed_std=math.nan)

    @classmethod
    def strategies(cls, importances: Mapping[str, Importance]) -> dict[str, StrategyResult]:
        """Return what the strategy says about every factor."""
        return {
            name: baseline_strategy(cls.name, record.table, record.golden_std, factor=name)
            for name, record in importances.items()
        }


@dataclass(frozen=True)
class RandomDesign(_Baseline):
    """Strategy `random`: every factor varies in each run.

    Runs are drawn as golden runs are, yet they are never golden runs: a spread divided by itself is 1 and tells
    nothing. Run j has the configurations of its own number in the tables of all factors, so that factors are compared
    on common draws; the investigated factor's own are the columns of the other designs.
    """

    name = "random"
    words = baseline(
        reading="Every factor varies in each run, the investigated one among them.",
        within="two runs of {factor}, which differ in every factor,",
        caution=", though every factor changes in each of them, so that it cannot single one out.",
    )

    def configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:
        """Return column `column` of the members; a draw of its own of all others."""
        return dict.fromkeys(members, INVESTIGATION_BASE + column) | self.mitigated(members, column, RANDOM_BASE)


@dataclass(frozen=True)
class FixedDesign(_Baseline):
    """Strategy `fixed`: only the investigated factor varies.

    The others stay where row 0 of the crossed design has them, so that its first N cells are that row's and are not
    computed again. That is right: row 0 is as good a draw of the others as any, and neither estimate uses the other;
    they are only not independent of each other.
    """

    name = "fixed"
    words = baseline(
        reading="Only the investigated factor varies; all others stand at one configuration.",
        within="two runs that differ in {factor} only",
        caution=", with all other factors at one configuration, so that another one may give another answer.",
    )

    def configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:
        """Return column `column` of the members; row 0 of all others."""
        return dict.fromkeys(members, INVESTIGATION_BASE + column) | self.mitigated(members, 0, MITIGATION_BASE)

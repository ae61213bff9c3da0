"""What a design is: its cells, what is computed from their scores, and what reports say about it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency import Comparable, Grouping
from mlflow_l3d.analysis.importance.checks import TABLE_CHECKS
from mlflow_l3d.analysis.importance.checks.evidence import FactorCheck
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators import NESTED, TableModel
from mlflow_l3d.analysis.importance.estimators.missing_cells import Missing
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import Tables, known_std
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.importance.verdicts import StrategyResult
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray
from mlflow_l3d.analysis.planning.assurance import Outlook, half_width_of
from mlflow_l3d.analysis.planning.runs_needed import RunsNeeded, runs_needed
from mlflow_l3d.designs.layout import Layout
from mlflow_l3d.designs.words import CROSSED, Words

FEWEST_PILOT_COLUMNS: Final = 10
"""Of a pilot whose columns are draws, where a plan is to keep its probability; its rows: `auto_rows` of the design."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of runs in the plan behind some cells; None means as many as are found, for every factor.

    Attributes
    ----------
    rows, columns, golden_runs
        M, N and L.
    pooled
        Whether the cells of all tables take the place of golden runs.
    """

    rows: int | None = None
    columns: int | None = None
    golden_runs: int | None = None
    pooled: bool = False


class Estimator(ABC):
    """What is computed from the tables of scores of a design.

    All of it belongs to the class: tables may be those of a stranger's cells, of which no layout is known.
    """

    baseline: ClassVar[bool] = False
    """Whether it is a strategy to compare with: it has no importance score, and no interval."""
    tables_are_golden: ClassVar[bool] = False
    """Whether the runs of the tables serve as golden runs, in sets of one per row; ``golden_runs`` has no effect."""
    ablates: ClassVar[bool] = True
    """Whether the study `ablation` may look at fewer of its runs."""
    model: ClassVar[TableModel] = NESTED
    """How the columns of the table of a factor belong together."""
    factor_checks: ClassVar[tuple[FactorCheck, ...]] = TABLE_CHECKS
    """What is checked of each factor."""
    compares: ClassVar[Grouping] = "rows"
    """Which runs are compared with each other for consistency."""
    planning: ClassVar[TableModel | None] = None
    """By what its precision is reckoned before a run; None if that is not known."""
    table_columns: ClassVar[int | None] = None
    """Columns of the table of one factor, if the design fixes them."""

    @classmethod
    @abstractmethod
    def tables(cls, cells: pd.DataFrame, metric: str, factors: Sequence[str], sizes: Sizes) -> Tables:
        """Return the tables of scores of a frame of cells, one row per run.

        Parameters
        ----------
        cells
            See :mod:`mlflow_l3d.analysis.importance.tables`.
        metric
            Column whose spread is investigated.
        factors
            The investigated factors in the order to report.
        sizes
            Of the plan.

        Raises
        ------
        ParameterError
            If the frame lacks a column, or a place in the plan is wrong or taken twice.
        """

    @classmethod
    def first(cls, scores: Tables, steps: int, of: int) -> Tables:
        """Return the scores of the first `steps` of `of` steps."""
        golden = scores.golden[: -(-len(scores.golden) * steps // of)]
        tables = {name: table[:steps] for name, table in scores.tables.items()}
        return replace(scores, tables=tables, golden=golden, base=scores.base[:steps])

    @classmethod
    def golden_scores(cls, scores: Tables) -> FloatArray:
        """Return the scores that stand for independent draws of every factor."""
        if scores.pooled:
            # Row by row, so that the first rows come first.
            return np.concatenate(list(scores.tables.values()), axis=1).reshape(-1)
        return scores.golden

    @classmethod
    def independent(cls, scores: Tables) -> FloatArray:
        """Return the scores of runs that redraw every factor and share nothing; empty if there are none."""
        return scores.base if cls.tables_are_golden else scores.golden

    @classmethod
    def run_spread(cls, records: Sequence[Importance]) -> tuple[FloatArray, float, float]:
        """Return the golden scores of records, the standard deviation of a run (ddof=1), and its degrees of freedom.

        All sentences name this standard deviation; ``golden_std`` has ddof=0, as published.
        """
        scores = max((record.golden[np.isfinite(record.golden)] for record in records), key=len)
        spread = known_std(scores, ddof=1) if len(scores) > 1 else math.nan, len(scores) - 1.0
        if cls.tables_are_golden or any(record.golden_pooled for record in records):
            spread = cls.model.dependent_spread(record.table for record in records) or spread
        return scores, records[0].golden_std if cls.tables_are_golden else spread[0], spread[1]

    @classmethod
    @abstractmethod
    def importances(
        cls, scores: Tables, *, chance: float | None = None, missing: Missing = "anova", level: float = LEVEL
    ) -> dict[str, Importance]:
        """Return the record of every factor.

        Parameters
        ----------
        scores
            The tables.
        chance
            Score of guessing, if a lower one is a collapse.
        missing
            ``reml``: crossed tables that lack cells are analysed by restricted maximum likelihood.
        level
            Confidence level of the intervals.
        """

    @classmethod
    def estimate(cls, scores: Tables, factor: str) -> Estimate | None:
        """Return the corrected importance of a factor; None if there is none."""
        return None

    @classmethod
    def compared(cls, tables: Mapping[str, FloatArray], factor: str) -> Estimate | None:
        """Return the corrected importance of a factor, to be compared with others.

        Parameters
        ----------
        tables
            Factor -> table of its record, the same rows for all; nan if a score is missing.
        factor
            One of them.
        """
        return cls.estimate(Tables(tables), factor)

    @classmethod
    def strategies(cls, importances: Mapping[str, Importance]) -> dict[str, StrategyResult]:
        """Return what a baseline strategy says about every factor; nothing for a design with importance scores."""
        return {}

    @classmethod
    def paths(cls, importances: Mapping[str, Importance]) -> dict[str, pd.DataFrame]:
        """Return how scores settled while rows were added (``importance_path``), for factors of which it is known."""
        return {}

    @classmethod
    def half_width(
        cls, pilot: VarianceComponents | Outlook, *, rows: int, columns: int, assurance: float | None = None
    ) -> float:
        """Return half the width that the interval will have; nan if that is not known.

        See :func:`mlflow_l3d.analysis.planning.assurance.half_width_of`.
        """
        if cls.planning is None:
            return math.nan
        columns = cls.table_columns or columns
        return half_width_of(pilot, cls.planning, rows=rows, columns=columns, assurance=assurance)

    @classmethod
    def needed(
        cls,
        half_width: float,
        pilot: VarianceComponents | Outlook,
        columns: int | None = None,
        assurance: float | None = None,
    ) -> RunsNeeded:
        """Return how many runs one factor needs, see :func:`mlflow_l3d.analysis.planning.runs_needed.runs_needed`.

        If the design fixes the columns, the cells are the rows.
        """
        assert cls.planning is not None, cls.__name__
        columns = cls.table_columns or columns
        size = runs_needed(half_width, pilot, cls.planning, columns=columns, assurance=assurance)
        return size if cls.table_columns is None else replace(size, cells=size.rows)

    @classmethod
    def comparable(cls, factors: Sequence[str]) -> Comparable:
        """Return which runs are compared with each other for consistency."""
        return Comparable(factors, cls.compares, shared_columns=cls.model.shared_columns)


@dataclass(frozen=True)
class Design(Layout, Estimator):
    """A design: a layout (its cells), an estimator (from tables to importances and checks) and the words of reports.

    A class says how cells are laid out and analysed, an object which cells one investigation has, with the
    attributes of :class:`mlflow_l3d.designs.layout.Layout`. Declare a class of your own in the entry-point group
    ``mlflow_l3d.designs``; see docs/how-to/write-a-design.md.
    """

    name: ClassVar[str]
    """What ``design=`` calls it; the name of its entry point."""
    words: ClassVar[Words] = CROSSED
    """What reports say about it."""

    @classmethod
    def promises(cls, pilot: VarianceComponents) -> bool:
        """Return whether a pilot is so large that plans keep their probability (docs/evidence/simulations.md)."""
        wide = not cls.model.shared_columns or pilot.columns >= FEWEST_PILOT_COLUMNS
        return cls.planning is not None and pilot.rows >= cls.auto_rows and wide

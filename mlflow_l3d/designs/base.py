"""What a design is: which cells there are, and what is computed from their scores."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.comparable import Comparable
from mlflow_l3d.analysis.importance.checks.evidence import FactorCheck
from mlflow_l3d.analysis.importance.checks.report import TABLE_CHECKS
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators.reml import Missing
from mlflow_l3d.analysis.importance.models import NESTED, TableModel
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.strategies import StrategyResult
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.jackknife import LEVEL
from mlflow_l3d.analysis.planning.assurance import Outlook, half_width_of
from mlflow_l3d.analysis.planning.runs_needed import RunsNeeded, runs_needed
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.designs.runs import PlannedRuns
from mlflow_l3d.designs.words import CROSSED, Words
from mlflow_l3d.plan.cells import Cell

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


@dataclass(frozen=True)
class Design(PlannedRuns):
    """A design: a class says how cells are laid out and analysed, an object which cells one investigation has.

    A class of your own stands in the entry-point group ``mlflow_l3d.designs``; see docs/writing-a-design.md. Attributes
    of an object are those of :class:`mlflow_l3d.designs.runs.PlannedRuns`.
    """

    name: ClassVar[str]
    """What ``design=`` calls it; the name of its entry point."""
    phases: ClassVar[tuple[str, ...]] = ("investigation",)
    """Phases of its cells beside ``golden``."""
    baseline: ClassVar[bool] = False
    """Whether it is a strategy to compare with: it has no importance score, and no interval."""
    words: ClassVar[Words] = CROSSED
    """What reports say about it."""
    pairs: ClassVar[bool] = False
    """Whether the table of a factor is pairs of runs, drawn as dots instead of colours."""
    own_golden: ClassVar[str] = ""
    """Which of its cells serve as golden runs, so that ``golden_runs`` has no part; empty where none do."""
    has_columns: ClassVar[bool] = True
    """Whether ``investigation_runs`` has a part."""
    mitigates: ClassVar[bool] = True
    """Whether the factors that are not investigated have configurations that may be restricted (``mitigation``)."""
    products: ClassVar[bool] = False
    """Whether the columns of joint factors may be the product of their configurations (``joint=product``)."""
    lists: ClassVar[bool] = False
    """Whether the columns of a factor are all levels of a list, as ``Approach.levels`` counts them."""
    repeats: ClassVar[bool] = False
    """Whether the factor `replicate` may be investigated: a cell differs from another one in it alone."""
    ablates: ClassVar[bool] = True
    """Whether the study `ablation` may look at fewer of its runs."""
    stops: ClassVar[tuple[str, ...]] = ()
    """Stopping rules that it allows."""
    votes_by: ClassVar[tuple[str, ...]] = ("golden", "factor", "row", "column", "index")
    """By what cells are sorted before votes are counted: golden runs come last."""
    model: ClassVar[TableModel] = NESTED
    """How the columns of the table of a factor belong together."""
    factor_checks: ClassVar[tuple[FactorCheck, ...]] = TABLE_CHECKS
    """What is checked of each factor."""
    compares: ClassVar[type[Comparable]] = Comparable
    """Which runs are compared with each other for consistency."""
    planning: ClassVar[TableModel | None] = None
    """By what its precision is reckoned before a run; None where that is not known."""
    table_columns: ClassVar[int | None] = None
    """Columns of the table of one factor, where the design fixes them."""
    rows_word: ClassVar[str] = "rows"
    """What `mitigation_runs` counts."""
    pilot_rows: ClassVar[int] = 3
    """Rows of a small investigation, before a plan."""
    auto_rows: ClassVar[int] = 20
    """What ``mitigation_runs=auto`` stands for."""

    @classmethod
    def size_words(cls, rows: int, columns: int, golden: str) -> str:
        """Return the numbers of runs in a few words; `golden` says how many golden runs there are."""
        return f"N={columns}, M={rows}, {golden}"

    @abstractmethod
    def empty(self, *, pooled: bool = False) -> Tables:
        """Return the tables of scores before the first cell is done, all nan."""

    def fill(self, scores: Tables, cell: Cell, score: float) -> None:
        """Write the score of a cell of this design into its tables."""
        if cell.phase == "golden":
            scores.golden[int(cell.index or 0)] = score
        else:
            scores.tables[str(cell.factor)][int(cell.row or 0), int(cell.column or 0)] = score

    @classmethod
    def recognises(cls, phases: Collection[str]) -> bool:
        """Return whether cells of these phases must be of this design: one of them is its own."""
        return not set(cls.phases).isdisjoint(set(phases) - {"investigation", "golden"})

    @classmethod
    def order(cls, cells: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
        """Return a frame of cells in the order in which votes are counted; base runs come before the first factor."""
        rank = cells["factor"].map({factor: place for place, factor in enumerate(factors)}).astype("float64")
        keys = {name: cells[name] for name in ("row", "column", "index")}
        keys["golden"] = cells["phase"].eq("golden")
        keys["factor"] = rank.mask(cells["phase"].eq("base"), -1).fillna(len(factors))
        ordered = pd.DataFrame(keys).sort_values(list(cls.votes_by), kind="stable")
        return cells.loc[ordered.index].reset_index(drop=True)

    @classmethod
    @abstractmethod
    def tables(cls, cells: pd.DataFrame, metric: str, factors: Sequence[str], sizes: Sizes) -> Tables:
        """Return the tables of scores of a frame of cells, one row a run.

        Parameters
        ----------
        cells
            See :mod:`mlflow_l3d.analysis.importance.frames`.
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
        """Return the scores of runs that draw every factor anew and share nothing; empty where there are none."""
        return scores.base if cls.own_golden else scores.golden

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
        """Return the corrected importance of a factor; None where there is none."""
        return None

    @classmethod
    def compared(cls, tables: Mapping[str, FloatArray], factor: str) -> Estimate | None:
        """Return the corrected importance of a factor, to be compared with others.

        Parameters
        ----------
        tables
            Factor -> table of its record, the same rows for all; nan where a score is missing.
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
        """Return half the width that the interval will have; nan where that is not known.

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
        """Return how many runs one factor needs, see :func:`mlflow_l3d.analysis.planning.runs_needed.runs_needed`."""
        assert cls.planning is not None, cls.name
        columns = cls.table_columns or columns
        return runs_needed(half_width, pilot, cls.planning, columns=columns, assurance=assurance)

    @classmethod
    def promises(cls, pilot: VarianceComponents) -> bool:
        """Return whether a pilot of this design is so large that plans keep their probability (docs/statistics.md)."""
        wide = not cls.model.shared_columns or pilot.columns >= FEWEST_PILOT_COLUMNS
        return cls.planning is not None and pilot.rows >= cls.auto_rows and wide

    @classmethod
    def together(cls, cells: Sequence[float]) -> float:
        """Return the cells that all factors need, from those that each needs."""
        return sum(cells)

    @classmethod
    def comparable(cls, factors: Sequence[str]) -> Comparable:
        """Return which runs are compared with each other for consistency."""
        return cls.compares(factors, shared_columns=cls.model.shared_columns)

"""Two-level fractional factorial design: the main effects of many factors, from few runs (Box and Hunter 1961).

A block of N = 4, 8, 16, ... runs screens up to N - 1 factors: each has two fresh configurations in a block, and run j
puts it at one of them by a column of the Hadamard matrix of order N (a regular fraction of resolution III; Montgomery
2017, chapter 8; Saltelli et al. 2008, section 2.6). In every column half of the runs stand at each configuration, and
all columns are orthogonal, so that the difference of the two halves is the effect of one factor.

What the design cannot tell: at resolution III a main effect is aliased with interactions of two others. Configurations
are random draws, so the contrast holds the factor's own effect, half of its interactions, and half of those that are
aliased with it. Confirm what it finds by a crossed, nested or radial design.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate, Variances, importance_of_variances, leave_out
from mlflow_l3d.analysis.importance.frames import placed_scores
from mlflow_l3d.analysis.importance.importance import importance
from mlflow_l3d.analysis.importance.models import NESTED
from mlflow_l3d.analysis.importance.reml import Missing
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import Tables, usable
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.jackknife import LEVEL
from mlflow_l3d.analysis.stability.comparable import GOLDEN, Comparable, Group
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.designs.base import Design, Sizes
from mlflow_l3d.designs.joint import JOINT, factor_members
from mlflow_l3d.designs.runs import check_number
from mlflow_l3d.designs.words import Words
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.plan.cells import Cell

BASE: Final = 600_000_000
"""Block ``i`` puts a factor at configuration ``BASE + 2 i`` or ``BASE + 2 i + 1``."""
MOST_BLOCKS: Final = 100_000_000


def signs(factors: int) -> FloatArray:
    """Return a regular two-level fraction of resolution III for K factors, shape (N, K), 0 or 1.

    N is the smallest power of two above K, 4 at least. Columns are orthogonal and balanced.
    """
    runs = max(4, 1 << factors.bit_length())
    masks = sorted(range(1, runs), key=lambda mask: (mask.bit_count() > 1, mask))[:factors]
    return np.array([[(run & mask).bit_count() % 2 for mask in masks] for run in range(runs)], dtype=np.float64)


class Blocks(Comparable):
    """All runs are compared with each other; the few pairs within a block share half of their configurations."""

    phases = ("block",)
    measures = False

    def groups(self, phase: str, factor: str | None, row: int | None) -> list[Group]:
        """Return the one group of all runs."""
        return [Group(GOLDEN, GOLDEN)]


@dataclass(frozen=True)
class FactorialDesign(Design):
    """R blocks of N runs, in each of which every investigated factor has two configurations of its own.

    `mitigation_runs` is R; factors that are not investigated have one configuration a block.
    """

    name = "factorial"
    phases = ("block",)
    compares = Blocks
    own_golden = "runs of all blocks"
    has_columns = False
    mitigates = False
    ablates = False
    auto_rows = 50
    words = Words(
        legend="importance = (contr - mitig) / gold, important if above 0; main effects alone. {pp}: {unit} "
        "of {metric}. std of the factor's main effect (contr), of all else (mitig), of every factor (gold), from "
        "blocks of two configurations a factor. CON, CCON: {meaning}. miss: cells without a score.",
        rows="The other rows hold the same runs, those at the first configuration of the factor before the others.",
        table="In a row, the left half of the runs has one configuration of {factor}, the right half another one; the "
        "halves agree in all other factors on average. Their difference is what the factor contributes.",
        compared="two runs",
        examples="runs of all blocks",
        reading=(
            (
                "Block",
                "A block is a row: runs that put every factor at one of two configurations, balanced against all other "
                "factors. Main effects are aliased with interactions of two other factors.",
            ),
            (
                "Contributed, mitigated, golden standard deviation",
                "Root of half the mean squared difference of the two halves (main effect of the factor); root of what "
                "is left of the total variance; root of the total variance, from runs of different blocks.",
            ),
        ),
        drawn="in each block every factor has two configurations of its own",
        first_row="The first row holds all runs.",
    )

    def check_runs(self) -> None:
        """Raise ParameterError without a factor, and where configurations would repeat."""
        if not self.factors:
            raise ParameterError("factor", "", "the factorial design needs a factor to screen", "Use factor=all.")
        members = [name for factor in self.factors for name in factor_members(factor, self.all_factors)]
        if len(set(members)) < len(members):
            allowed = "names a factor twice; in the factorial design all factors change in the same runs"
            raise ParameterError("factor", ",".join(self.factors), allowed)
        check_number("mitigation_runs", self.mitigation_runs, 1, MOST_BLOCKS)

    @classmethod
    def count(cls, factors: int, rows: int, columns: int, golden_runs: int) -> int:
        """Return the number of cells."""
        return rows * len(signs(factors))

    def cells(self) -> Iterator[Cell]:
        """Yield the runs block by block."""
        for row in range(self.mitigation_runs):
            for column, levels in enumerate(signs(len(self.factors))):
                numbers = dict.fromkeys(self.all_factors, BASE + 2 * row)
                for factor, level in zip(self.factors, levels, strict=True):
                    for member in factor_members(factor, self.all_factors):
                        numbers[member] += int(level)
                yield self.cell("block", numbers, row=row, column=column)

    def empty(self, *, pooled: bool = False) -> Tables:
        """Return the scores before the first cell is done: base (R, N); in the tables 0 or 1, the level of a factor."""
        levels, rows = signs(len(self.factors)), self.mitigation_runs
        tables = {name: np.tile(levels[:, at], (rows, 1)) for at, name in enumerate(self.factors)}
        return Tables(tables, base=np.full((rows, len(levels)), np.nan))

    def fill(self, scores: Tables, cell: Cell, score: float) -> None:
        """Write the score of a cell into the tables."""
        scores.base[int(cell.row or 0), int(cell.column or 0)] = score

    @classmethod
    def factors_in(cls, cells: pd.DataFrame) -> list[str]:
        """Return the factors that change within blocks; those that change together are joint."""
        own = cells[cells["phase"].eq("block")].sort_values(["row", "column"])
        alike: dict[bytes, list[str]] = {}
        for name in (str(name) for name in own if str(name).startswith("factor.")):
            levels = (pd.to_numeric(own[name]).to_numpy(dtype=np.float64) - BASE) % 2
            if levels.any():
                alike.setdefault(levels.tobytes(), []).append(name.removeprefix("factor."))
        return [JOINT.join(names) for names in alike.values()]

    @classmethod
    def tables(cls, cells: pd.DataFrame, metric: str, factors: Sequence[str], sizes: Sizes) -> Tables:
        """Return the scores, and the levels of every factor by the ``factor.*`` columns of the cells."""
        runs = len(signs(len(factors)))
        base = placed_scores(cells, metric, "block", {"row": sizes.rows, "column": runs}, where="the blocks")
        own = cells[cells["phase"].eq("block")]
        first = own.drop_duplicates("column").set_index(own.drop_duplicates("column")["column"].astype(int))
        tables = {}
        for name in factors:
            numbers = pd.to_numeric(first[f"factor.{name.split(JOINT)[0]}"]).reindex(range(runs), fill_value=BASE)
            tables[name] = np.tile((numbers.to_numpy(dtype=np.float64) - BASE) % 2, (len(base), 1))
        return Tables(tables, base=base)

    @classmethod
    def changed(cls, scores: Tables, change: Callable[[FloatArray], FloatArray]) -> Tables:
        """Return the tables with every score changed: levels are none."""
        return replace(scores, base=change(scores.base))

    @classmethod
    def golden_scores(cls, scores: Tables) -> FloatArray:
        """Return all runs; those of different blocks are independent draws of every factor."""
        return scores.base.reshape(-1)

    @classmethod
    def importances(
        cls, scores: Tables, *, chance: float | None = None, missing: Missing = "anova", level: float = LEVEL
    ) -> dict[str, Importance]:
        """Return the record of every factor; in its table the runs at its first configuration come first."""
        found = {}
        for name in scores.tables:
            table, golden, estimate = _halves(scores, name), cls.golden_scores(scores), cls.estimate(scores, name)
            record = importance(table, golden, factor=name, chance=chance, model=NESTED, level=level)
            own = others = total = math.nan
            if estimate is not None:
                record, known = record.estimated(estimate), estimate.components
                if known.total > 0:
                    own, others = math.sqrt(known.contributed), math.sqrt(max(0.0, known.mitigated))
                    total = math.sqrt(known.total)
            found[name] = replace(
                record,
                design=cls.name,
                importance=(own - others) / total,
                contributed_std=own,
                mitigated_std=others,
                golden_std=total,
                golden_std_ci_low=math.nan,
                golden_std_ci_high=math.nan,
                importance_ci_low=math.nan,
                importance_ci_high=math.nan,
                unevenness=math.nan,
                rows_used=int(np.isfinite(table).all(axis=1).sum()),
            )
        return found

    @classmethod
    def estimate(cls, scores: Tables, factor: str) -> Estimate | None:
        """Return the corrected importance of a factor's main effect, from its complete blocks.

        S is the mean over blocks of d^2 / 2, with d the contrast, by the mean over runs of the variance over blocks.
        Interval: jackknife over blocks of logit(S), R - 1 degrees of freedom; else chi-squared limits of the former.
        """
        table = _halves(scores, factor)
        table = table[np.isfinite(table).all(axis=1)]
        rows = len(table)
        if rows < 2:
            return None
        tau2, sigma2 = float(_half_squares(table).mean()), float(table.var(axis=0, ddof=1).mean())
        found = VarianceComponents(cls.name, "contrast", rows, 2, tau2, sigma2 - tau2, total=sigma2)
        if rows < 3 or not sigma2 > 0:
            return Estimate(found)
        jackknife = None
        if 0 < tau2 < sigma2:
            jackknife = leave_out(tau2, sigma2 - tau2, _without_each(table))

        def limits(level: float) -> tuple[float, float]:
            from scipy.special import chdtri

            tails = (1 - level) / 2, (1 + level) / 2
            ends = [min(1.0, tau2 * rows / float(chdtri(rows, tail)) / sigma2) for tail in tails]
            low, high = (importance_of_variances(end, 1 - end) for end in ends)
            return low, high

        return Estimate(found, jackknife, limits)

    @classmethod
    def compared(cls, tables: Mapping[str, FloatArray], factor: str) -> Estimate | None:
        """Return the corrected importance of a factor, to be compared with others."""
        table = tables[factor]
        levels = np.tile(np.repeat((0.0, 1.0), table.shape[1] // 2), (len(table), 1))
        return cls.estimate(Tables({factor: levels}, base=table), factor)


def _halves(scores: Tables, factor: str) -> FloatArray:
    """Return shape (R, N): the runs of each block, those at the first configuration of the factor before the others."""
    order = np.argsort(scores.tables[factor], axis=1, kind="stable")
    return usable(np.take_along_axis(scores.base, order, axis=1))


def _half_squares(table: FloatArray) -> FloatArray:
    half = table.shape[1] // 2
    squares: FloatArray = np.square(table[:, half:].mean(axis=1) - table[:, :half].mean(axis=1)) / 2
    return squares


def _without_each(table: FloatArray) -> Variances:
    """Return the variance of the main effect, and what is left of the total one, without each block in turn."""
    rows = len(table)
    halves = _half_squares(table)
    tau2 = (halves.sum() - halves) / (rows - 1)
    # Taking one of R scores away lowers the sum of squares by R / (R - 1) times its own.
    squares = np.square(table - table.mean(axis=0))
    sigma2 = ((squares.sum(axis=0) - rows / (rows - 1) * squares) / (rows - 2)).mean(axis=1)
    return tau2, sigma2 - tau2

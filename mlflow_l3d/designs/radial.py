"""The radial design: base runs, and the same runs again with one factor redrawn (Jansen 1999)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance import radial_importance
from mlflow_l3d.analysis.importance.checks import PAIR_CHECKS
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators import RADIAL
from mlflow_l3d.analysis.importance.estimators.missing_cells import Missing
from mlflow_l3d.analysis.importance.estimators.nested import radial_estimate
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import Tables, placed_scores, usable
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, with_interval
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import RADIAL_BASE, SWAP_BASE
from mlflow_l3d.designs.base import Design, Sizes
from mlflow_l3d.designs.crossed import factor_members
from mlflow_l3d.designs.layout import check_number
from mlflow_l3d.designs.words import Words
from mlflow_l3d.errors import ParameterError


@dataclass(frozen=True)
class RadialDesign(Design):
    """n base runs, and for every one of K factors n swaps: ``n (K + 1)`` cells for all factors at once.

    Base run i is an independent draw of every factor, and so is swap i of a factor; the two differ in that factor
    alone (Saltelli et al. 2010). Swap i of a factor takes the same new configuration in every table that it is a
    member of. `mitigation_runs` is n; `investigation_runs` and `golden_runs` are refused.
    """

    name = "radial"
    repeats = True
    compares = "pairs"
    factor_checks = PAIR_CHECKS
    words = Words(
        table="Each row is a pair of runs that differ in {factor} only. The difference within a row is what it "
        "contributes, the differences between rows are what all other factors do.",
        compared="two base runs",
        examples="base runs",
        reading=(
            ("Base run", "A base run draws every factor; each is repeated with one factor redrawn, once per factor."),
            (
                "Contributed, mitigated, golden standard deviation",
                "The published method's standard deviations without the bias of few columns. Contributed: root of half "
                "the mean squared difference of the two runs of a row (the factor with interactions). Mitigated: that "
                "of the expected score when all other factors change. Golden: that of base runs and of each set of "
                "runs with one factor redrawn (every factor).",
            ),
        ),
        drawn="it pools the base runs and, for each factor, the runs that redraw it: within each of these sets every "
        "factor changes from run to run",
        golden="trainings",
        row="base runs",
        size="{rows} base runs, each repeated once per factor, with this factor redrawn",
        draws_pairs=True,
    )
    phases = ("base", "swap")
    votes_by = ("golden", "row", "factor", "index")
    tables_are_golden = True
    has_columns = False
    mitigates = False
    stops = ("interval",)
    planning = RADIAL
    table_columns = 2
    pilot_rows = 9
    auto_rows = 100  # it needs more than a table has rows, and each costs K + 1 cells only

    @classmethod
    def count(cls, factors: int, rows: int, columns: int, golden_runs: int) -> int:
        """Return the number of cells."""
        return rows * (factors + 1)

    def check_runs(self) -> None:
        """Raise ParameterError without a factor, and where configurations would repeat."""
        if not self.factors:
            raise ParameterError("factor", "", "the radial design needs a factor to redraw", "Use factor=all.")
        check_number("mitigation_runs", self.mitigation_runs, 1, SWAP_BASE - RADIAL_BASE)

    def cells(self) -> Iterator[Cell]:
        """Yield every base run followed by its swaps."""
        for row in range(self.mitigation_runs):
            base = dict.fromkeys(self.all_factors, RADIAL_BASE + row)
            yield self.cell("base", base, row=row)
            for factor in self.factors:
                swapped = dict.fromkeys(factor_members(factor, self.all_factors), SWAP_BASE + row)
                yield self.cell("swap", base | swapped, factor=factor, row=row)

    def empty(self, *, pooled: bool = False) -> Tables:
        """Return the scores before the first cell is done, all nan."""
        rows = self.mitigation_runs
        return Tables({name: np.full((rows, 1), np.nan) for name in self.factors}, base=np.full(rows, np.nan))

    def fill(self, scores: Tables, cell: Cell, score: float) -> None:
        """Write the score of a cell into the tables."""
        row = int(cell.row or 0)
        (scores.base if cell.phase == "base" else scores.tables[str(cell.factor)][:, 0])[row] = score

    @classmethod
    def tables(cls, cells: pd.DataFrame, metric: str, factors: Sequence[str], sizes: Sizes) -> Tables:
        """Return base runs, shape (n,), and the swaps of every factor, shape (n, 1)."""
        size = {"row": sizes.rows}
        base = placed_scores(cells, metric, "base", size, where="the base runs")
        swaps = [
            placed_scores(cells, metric, "swap", size, factor=name, where=f"the swaps of {name}") for name in factors
        ]
        # Where the plan is not known, one set may lack its last runs.
        padded = pd.concat(map(pd.Series, (base, *swaps)), axis=1).to_numpy(dtype=np.float64)
        return Tables({name: padded[:, [at]] for at, name in enumerate(factors, start=1)}, base=padded[:, 0])

    @classmethod
    def golden_scores(cls, scores: Tables) -> FloatArray:
        """Return all base and swap runs, set by set: each set is independent draws of every factor."""
        return np.concatenate([scores.base, *(table[:, 0] for table in scores.tables.values())])

    @classmethod
    def importances(
        cls, scores: Tables, *, chance: float | None = None, missing: Missing = "anova", level: float = LEVEL
    ) -> dict[str, Importance]:
        """Return the record of every factor; see `radial_importance` of the analysis."""
        swaps = {name: table[:, 0] for name, table in scores.tables.items()}
        return radial_importance(scores.base, swaps, chance=chance, level=level)

    @classmethod
    def estimate(cls, scores: Tables, factor: str) -> Estimate | None:
        """Return the corrected importance of a factor, its total from all sets."""
        others = [table for name, table in scores.tables.items() if name != factor]
        return radial_estimate(usable(np.column_stack([scores.base, scores.tables[factor], *others])), 1)

    @classmethod
    def paths(cls, importances: Mapping[str, Importance]) -> dict[str, pd.DataFrame]:
        """Return how corrected importances settled while rows were added, in at most 50 steps."""
        first = next(iter(importances.values()), None)
        if first is None or len(first.table) < 2:
            return {}
        columns = with_interval("importance_corrected")
        paths: dict[str, list[tuple[float, ...]]] = {name: [] for name in importances}
        for rows in np.unique(np.linspace(2, len(first.table), 50).astype(int)).tolist():
            swaps = {name: record.table[:rows, 1] for name, record in importances.items()}
            for name, record in radial_importance(first.table[:rows, 0], swaps, level=first.level).items():
                paths[name].append((rows, *(getattr(record, column) for column in columns)))
        return {name: pd.DataFrame(path, columns=["rows", *columns]) for name, path in paths.items()}

    @classmethod
    def compared(cls, tables: Mapping[str, FloatArray], factor: str) -> Estimate | None:
        """Return the corrected importance of a factor, to be compared with others."""
        swaps = {name: table[:, 1:] for name, table in tables.items()}
        return cls.estimate(Tables(swaps, base=tables[factor][:, 0]), factor)

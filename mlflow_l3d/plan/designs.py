"""How cells are laid out: the published crossed design with its golden runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlflow_l3d.plan.cells import Cell, cell_key
from mlflow_l3d.plan.factors import GOLDEN_BASE, INVESTIGATION_BASE, MITIGATION_BASE, configuration_seed


@dataclass(frozen=True, slots=True)
class CrossedDesign:
    """The published design (Pecher et al. 2024, Algorithm 1): N columns under each of M rows, and L golden runs.

    Attributes
    ----------
    factors
        Investigated factors; each has a table of its own, all share the golden runs.
    all_factors
        Every factor of the approach; those not investigated are mitigated, row by row. A row puts them at the same
        configurations in every table, so that factors can be compared on shared rows.
    investigation_runs, mitigation_runs, golden_runs
        N, M and L.
    root_seed
        Where every seed comes from.
    context_key
        Identity of everything the cells share, see :func:`mlflow_l3d.plan.cells.cell_key`.
    """

    factors: Sequence[str]
    all_factors: Sequence[str]
    investigation_runs: int
    mitigation_runs: int
    golden_runs: int
    root_seed: int
    context_key: str

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.factors) * self.mitigation_runs * self.investigation_runs + self.golden_runs

    def cells(self) -> Iterator[Cell]:
        """Yield the cells row by row, each row followed by its share of the golden runs.

        Every prefix is then a smaller investigation of the same shape, so that metrics can be shown as they converge
        and an interrupted investigation is worth as much as possible.
        """
        golden_done = 0
        for row in range(self.mitigation_runs):
            for factor in self.factors:
                for column in range(self.investigation_runs):
                    yield self.investigation_cell(factor, row, column)
            golden_due = -(-self.golden_runs * (row + 1) // self.mitigation_runs)
            for index in range(golden_done, golden_due):
                yield self.golden_cell(index)
            golden_done = golden_due

    def investigation_cell(self, factor: str, row: int, column: int) -> Cell:
        """Return the cell at (`row`, `column`) of the table of `factor`."""
        configurations = {
            name: INVESTIGATION_BASE + column if name == factor else MITIGATION_BASE + row for name in self.all_factors
        }
        return self._cell("investigation", configurations, factor=factor, row=row, column=column)

    def golden_cell(self, index: int) -> Cell:
        """Return golden run `index`: an independent draw of every factor."""
        return self._cell("golden", dict.fromkeys(self.all_factors, GOLDEN_BASE + index), index=index)

    def _cell(
        self,
        phase: str,
        configurations: dict[str, int],
        *,
        factor: str | None = None,
        row: int | None = None,
        column: int | None = None,
        index: int | None = None,
    ) -> Cell:
        seeds = {name: configuration_seed(self.root_seed, name, number) for name, number in configurations.items()}
        return Cell(
            phase="golden" if phase == "golden" else "investigation",
            factor=factor,
            row=row,
            column=column,
            index=index,
            configurations=configurations,
            seeds=seeds,
            key=cell_key(self.context_key, seeds),
        )

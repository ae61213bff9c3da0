"""The radial design: base runs, and the same runs again with one factor drawn anew (Jansen 1999)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.plan.cells import Cell
from mlflow_l3d.plan.designs.base import check_number, make_cell
from mlflow_l3d.plan.designs.joint import check_factors, factor_members
from mlflow_l3d.plan.factors import RADIAL_BASE, SWAP_BASE


@dataclass(frozen=True, slots=True)
class RadialDesign:
    """n base runs, and for every one of K factors n swaps: ``n (K + 1)`` cells for all factors at once.

    Base run i is an independent draw of every factor, and so is swap i of a factor; the two differ in that factor
    alone (Saltelli et al. 2010). Swap i of a factor takes the same new configuration in every table that it is a
    member of.

    Attributes
    ----------
    factors
        The factors to draw anew; joint ones (``data_order+sample_choice``) are drawn anew together.
    all_factors
        Every factor of the approach.
    base_runs
        n.
    root_seed
        Where every seed comes from.
    context_key
        Identity of everything the cells share, see :func:`mlflow_l3d.plan.cells.cell_key`.
    """

    factors: Sequence[str]
    all_factors: Sequence[str]
    base_runs: int
    root_seed: int
    context_key: str

    def __post_init__(self) -> None:
        if not self.factors:
            raise ParameterError("factor", "", "the radial design needs a factor to draw anew", "Use factor=all.")
        check_factors(self.factors, self.all_factors)
        check_number("mitigation_runs", self.base_runs, 1, SWAP_BASE - RADIAL_BASE)

    def __len__(self) -> int:
        """Return the number of cells."""
        return self.base_runs * (len(self.factors) + 1)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the swaps of one factor."""
        return self.base_runs, 1

    @property
    def steps(self) -> int:
        """One step a base run."""
        return self.base_runs

    def cells(self) -> Iterator[Cell]:
        """Yield every base run followed by its swaps."""
        for row in range(self.base_runs):
            yield self.base_cell(row)
            for factor in self.factors:
                yield self.swap_cell(factor, row)

    def base_cell(self, row: int) -> Cell:
        """Return base run `row`."""
        configurations = dict.fromkeys(self.all_factors, RADIAL_BASE + row)
        return make_cell("base", configurations, self.root_seed, self.context_key, row=row)

    def swap_cell(self, factor: str, row: int) -> Cell:
        """Return base run `row` with `factor` alone drawn anew."""
        members = factor_members(factor, self.all_factors)
        configurations = {name: (SWAP_BASE if name in members else RADIAL_BASE) + row for name in self.all_factors}
        return make_cell("swap", configurations, self.root_seed, self.context_key, factor=factor, row=row)

    def step_of(self, cell: Cell) -> int:
        """Return the 0-based step that a cell of this design belongs to."""
        return int(cell.row or 0)

    def step_size(self, step: int) -> int:  # noqa: ARG002
        """Return how many cells a step has: the base run and one swap a factor."""
        return len(self.factors) + 1

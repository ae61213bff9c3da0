"""What every design offers, and what the designs with one M x N table a factor have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.plan.cells import Cell, Phase, cell_key
from mlflow_l3d.plan.designs.joint import check_factors, factor_members
from mlflow_l3d.plan.designs.mitigation import Mitigation, check_mitigation, mitigated_configurations
from mlflow_l3d.plan.factors import GOLDEN_BASE, configuration_seed


@runtime_checkable
class Design(Protocol):
    """A layout of cells.

    Cells come in *steps* (rows, but for the strategies): the cells of the first s steps are a smaller design of the
    same kind, so that metrics can be shown as they converge and an interrupted investigation is worth as much as
    possible. Cells may be computed in any order; a step is complete when `step_size` of its cells are.
    """

    @property
    def factors(self) -> Sequence[str]:
        """Investigated factors; joint ones are joined with ``+``."""
        ...

    @property
    def all_factors(self) -> Sequence[str]:
        """Every factor of the approach."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table of scores of one factor (radial: the swaps, one column)."""
        ...

    @property
    def steps(self) -> int:
        """Number of steps."""
        ...

    def __len__(self) -> int:
        """Return the number of cells."""
        ...

    def cells(self) -> Iterator[Cell]:
        """Yield the cells step by step, without holding them."""
        ...

    def step_of(self, cell: Cell) -> int:
        """Return the 0-based step that a cell of this design belongs to."""
        ...

    def step_size(self, step: int) -> int:
        """Return how many cells step `step` has."""
        ...


@dataclass(frozen=True, slots=True)
class TableDesign(ABC):
    """A design with M x N runs for every investigated factor, and L golden runs that all share.

    Attributes
    ----------
    factors
        Investigated factors; each has a table of its own. Joint factors are one, ``data_order+sample_choice``: their
        configurations vary together, the j-th of one with the j-th of the other.
    all_factors
        Every factor of the approach; those not investigated are mitigated.
    investigation_runs, mitigation_runs, golden_runs
        N, M and L.
    root_seed
        Where every seed comes from.
    context_key
        Identity of everything the cells share, see :func:`mlflow_l3d.plan.cells.cell_key`.
    mitigation
        Reduced sets of configurations, see :mod:`mlflow_l3d.plan.designs.mitigation`. They hold where a factor is
        mitigated; in golden runs every factor varies freely.
    """

    factors: Sequence[str]
    all_factors: Sequence[str]
    investigation_runs: int
    mitigation_runs: int
    golden_runs: int
    root_seed: int
    context_key: str
    mitigation: Mitigation = field(default_factory=dict, hash=False, kw_only=True)

    def __post_init__(self) -> None:
        check_factors(self.factors, self.all_factors)
        check_mitigation(self.mitigation, self.all_factors)
        self._check_runs()

    @abstractmethod
    def _check_runs(self) -> None:
        """Raise ParameterError if configurations or cells would repeat at this size."""

    @abstractmethod
    def _configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:
        """Return the configuration of every factor at a place in the table of `members`."""

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.factors) * self.mitigation_runs * self.investigation_runs + self.golden_runs

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table of one factor."""
        return self.mitigation_runs, self.investigation_runs

    @property
    def steps(self) -> int:
        """M: the cells come in as many steps."""
        return self.mitigation_runs

    def cells(self) -> Iterator[Cell]:
        """Yield the cells step by step, each step followed by its share of the golden runs."""
        for step in range(self.steps):
            for factor in self.factors:
                for number in range(self.investigation_runs):
                    yield self.investigation_cell(factor, *self._place(step, number))
            for index in range(self._golden_before(step), self._golden_before(step + 1)):
                yield self.golden_cell(index)

    def investigation_cell(self, factor: str, row: int, column: int) -> Cell:
        """Return the cell at (`row`, `column`) of the table of `factor`."""
        found = self._configurations(factor_members(factor, self.all_factors), row, column)
        configurations = {name: found[name] for name in self.all_factors}
        return make_cell(
            "investigation", configurations, self.root_seed, self.context_key, factor=factor, row=row, column=column
        )

    def golden_cell(self, index: int) -> Cell:
        """Return golden run `index`: an independent draw of every factor."""
        configurations = dict.fromkeys(self.all_factors, GOLDEN_BASE + index)
        return make_cell("golden", configurations, self.root_seed, self.context_key, index=index)

    def step_of(self, cell: Cell) -> int:
        """Return the 0-based step that a cell of this design belongs to."""
        if cell.phase == "golden":
            return int(cell.index or 0) * self.steps // self.golden_runs
        return self._step_at(int(cell.row or 0), int(cell.column or 0))

    def step_size(self, step: int) -> int:
        """Return how many cells step `step` has, golden runs included."""
        golden = self._golden_before(step + 1) - self._golden_before(step)
        return len(self.factors) * self.investigation_runs + golden

    def _place(self, step: int, number: int) -> tuple[int, int]:
        """Return row and column of run `number` of a step."""
        return step, number

    def _step_at(self, row: int, column: int) -> int:  # noqa: ARG002
        """Return the step of the cells at a place: the other direction of `_place`."""
        return row

    def _golden_before(self, step: int) -> int:
        """Return how many golden runs come before a step: rounded up, so that every step has its share."""
        return -(-self.golden_runs * step // self.mitigation_runs)

    def _mitigated(self, members: Sequence[str], number: int, base: int) -> dict[str, int]:
        """Return the configurations of all factors but `members` in row `number`."""
        mitigated = [name for name in self.all_factors if name not in members]
        return mitigated_configurations(number, base, mitigated, self.mitigation)


def make_cell(
    phase: Phase,
    configurations: Mapping[str, int],
    root_seed: int,
    context_key: str,
    *,
    factor: str | None = None,
    row: int | None = None,
    column: int | None = None,
    index: int | None = None,
) -> Cell:
    """Return a cell with the seeds and the key that belong to its configurations."""
    seeds = {name: configuration_seed(root_seed, name, number) for name, number in configurations.items()}
    return Cell(
        phase=phase,
        factor=factor,
        row=row,
        column=column,
        index=index,
        configurations=configurations,
        seeds=seeds,
        key=cell_key(context_key, seeds),
    )


def check_number(name: str, value: int, low: int, high: int) -> None:
    """Check that a number of runs is in ``[low, high]``.

    Raises
    ------
    ParameterError
        If it is not: configurations would be used twice.
    """
    if not low <= value <= high:
        raise ParameterError(name, value, f"must be a whole number from {low} to {high} in this design")

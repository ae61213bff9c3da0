"""Which cells a design has, in which order, and where their scores go; the cells of a study of seeds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import pandas as pd

from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.cells.cell import Cell, cell_key
from mlflow_l3d.cells.factors import (
    GOLDEN_BASE,
    MITIGATION_BASE,
    OF_NO_APPROACH,
    TASK_FACTORS,
    configuration_seed,
    stream_seed,
)
from mlflow_l3d.errors import ParameterError, unknown_name

Mitigation = Mapping[str, Sequence[int]]
"""Factor -> indices of its mitigation configurations."""


@dataclass(frozen=True)
class Layout(ABC):
    """The cells of one investigation, and the tables that their scores fill.

    Cells come in *steps* (rows, but for the baselines): the cells of the first s steps are a smaller design of the
    same kind, so that metrics can be shown as they converge and an interrupted investigation is worth as much as
    possible. Cells may be computed in any order; a step is complete when `step_size` of its cells are. A design is
    pure: it opens nothing and draws nothing, and the configurations of a cell depend on where the cell stands and not
    on the size of the design, so that a larger design holds the cells of the smaller one.

    Attributes
    ----------
    factors
        Investigated factors. Joint factors are one, ``data_order+sample_choice``: their configurations vary together,
        the j-th of one with the j-th of the other.
    all_factors
        Every factor of the approach; those not investigated are mitigated.
    investigation_runs, mitigation_runs, golden_runs
        N, M and L.
    root_seed
        Where every seed comes from.
    context_key
        Identity of everything the cells share, see :func:`mlflow_l3d.cells.cell.cell_key`.
    mitigation
        Reduced sets of configurations, see :func:`mlflow_l3d.designs.crossed.mitigated_configurations`. They hold where
        a factor is mitigated; in golden runs every factor varies freely.
    product
        Whether the columns of a joint factor are the cross product of its members' configurations.
    """

    phases: ClassVar[tuple[str, ...]] = ("investigation",)
    """Phases of its cells in addition to ``golden``."""
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
    stops: ClassVar[tuple[str, ...]] = ()
    """Stopping rules that it allows."""
    votes_by: ClassVar[tuple[str, ...]] = ("golden", "factor", "row", "column", "index")
    """By what cells are sorted before votes are counted: golden runs come last."""
    pilot_rows: ClassVar[int] = 3
    """Rows of a small investigation, before a plan."""
    auto_rows: ClassVar[int] = 20
    """What ``mitigation_runs=auto`` stands for."""

    factors: Sequence[str]
    all_factors: Sequence[str]
    investigation_runs: int
    mitigation_runs: int
    golden_runs: int
    root_seed: int
    context_key: str
    mitigation: Mitigation = field(default_factory=dict, hash=False, kw_only=True)
    product: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_mitigation(self.mitigation, self.all_factors)
        self.check_runs()

    @classmethod
    def count(cls, factors: int, rows: int, columns: int, golden_runs: int) -> int:
        """Return the number of cells."""
        return factors * rows * columns + golden_runs

    def __len__(self) -> int:
        """Return the number of cells."""
        return self.count(len(self.factors), self.mitigation_runs, self.investigation_runs, self.golden_runs)

    @property
    def steps(self) -> int:
        """M: the cells come in as many steps."""
        return self.mitigation_runs

    @property
    def distinct_rows(self) -> float:
        """The largest `mitigation_runs` at which no row repeats under the mitigation strategies; by default inf."""
        return math.inf

    @abstractmethod
    def check_runs(self) -> None:
        """Raise ParameterError if configurations or cells would repeat at this size."""

    @abstractmethod
    def cells(self) -> Iterator[Cell]:
        """Yield the cells step by step, without holding them."""

    def step_of(self, cell: Cell) -> int:
        """Return the 0-based step that a cell of this design belongs to: its row."""
        return int(cell.row or 0)

    def step_size(self, step: int) -> int:
        """Return how many cells step `step` has; by default all have the same number."""
        return len(self) // self.steps

    def cell(
        self,
        phase: str,
        configurations: Mapping[str, int],
        *,
        factor: str | None = None,
        row: int | None = None,
        column: int | None = None,
        index: int | None = None,
    ) -> Cell:
        """Return a cell with the seeds and the key that belong to its configurations, one for each factor.

        A cell has a configuration of `replicate` or `test_sample` in the table of that factor only, so that its key is
        the same whether that is investigated or not.
        """
        ordered = {
            name: configurations[name] for name in self.all_factors if name not in OF_NO_APPROACH or factor == name
        }
        seeds = {name: configuration_seed(self.root_seed, name, number) for name, number in ordered.items()}
        return Cell(phase, factor, row, column, index, ordered, seeds, cell_key(self.context_key, seeds))

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


def check_mitigation(mitigation: Mitigation, all_factors: Sequence[str]) -> None:
    """Check the names and the indices.

    Raises
    ------
    ParameterError
        For a factor that the approach does not have, an empty set, an index outside [0, 1000000), or one twice.
    """
    most = GOLDEN_BASE - MITIGATION_BASE
    for name, indices in mitigation.items():
        if name not in all_factors:
            raise unknown_name("mitigation", name, all_factors)
        if not indices or len(set(indices)) < len(indices) or min(indices) < 0 or max(indices) >= most:
            text = f"{name}: {list(indices)}"
            raise ParameterError("mitigation", text, f"must be different configurations from 0 to {most - 1}")


def check_number(name: str, value: int, low: int, high: int) -> None:
    """Check that a number of runs is in ``[low, high]``.

    Raises
    ------
    ParameterError
        If it is not: configurations would be used twice.
    """
    if not low <= value <= high:
        raise ParameterError(name, value, f"must be a whole number from {low} to {high} in this design")


SEED: Final = "seed"
"""Name of the factor of a study of seeds."""
PAPER_SEEDS: Final = tuple(range(42, 142, 10))
"""42, 52, ..., 132 (Zhou et al. 2025, section 4.2)."""


@dataclass(frozen=True, slots=True)
class SeedsDesign:
    """The random-seeds study (Zhou et al. 2025): one cell per seed, which governs all randomness in training.

    Attributes
    ----------
    seeds
        The user's own numbers; zero is a seed.
    all_factors
        Factors of the approach with an effect. Those of the task are not governed by the seed.
    context_key
        Identity of everything the cells share.
    split_seeds
        Seeds of the factors of the task, the same for all cells; none where the split is the task's own.
    repeated
        The seed that decides all factors of every cell, which is then the same cell again; None if each seed decides
        those of its own.
    """

    seeds: Sequence[int]
    all_factors: Sequence[str]
    context_key: str
    split_seeds: Mapping[str, int] = field(default_factory=dict)
    repeated: int | None = None

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.seeds)

    def cells(self) -> Iterator[Cell]:
        """Yield the cells in the order of the seeds."""
        for index, seed in enumerate(self.seeds):
            deciding = seed if self.repeated is None else self.repeated
            seeds = {SEED: seed, **self.split_seeds, **derived_seeds(deciding, self.all_factors)}
            yield Cell("golden", None, None, None, index, {SEED: index}, seeds, cell_key(self.context_key, seeds))


def derived_seeds(seed: int, factors: Sequence[str]) -> dict[str, int]:
    """Return the seed of each factor of training that one seed of the study decides; one of that name is that seed."""
    given = (*TASK_FACTORS, SEED)
    return {name: stream_seed(seed, "seed study", name) for name in factors if name not in given}

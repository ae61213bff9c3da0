"""The random-seeds study (Zhou et al. 2025): one run a seed, which governs every source of randomness in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mlflow_l3d.cells.cell import Cell, cell_key
from mlflow_l3d.cells.factors import TASK_FACTORS, stream_seed

SEED: Final = "seed"
"""Name of the factor."""
PAPER_SEEDS: Final = tuple(range(42, 142, 10))
"""42, 52, ..., 132 (section 4.2)."""


@dataclass(frozen=True, slots=True)
class SeedsDesign:
    """One cell a seed, on one split.

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
    """

    seeds: Sequence[int]
    all_factors: Sequence[str]
    context_key: str
    split_seeds: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.seeds)

    def cells(self) -> Iterator[Cell]:
        """Yield the cells in the order of the seeds."""
        for index, seed in enumerate(self.seeds):
            seeds = {SEED: seed, **self.split_seeds, **derived_seeds(seed, self.all_factors)}
            yield Cell(
                phase="golden",
                factor=None,
                row=None,
                column=None,
                index=index,
                configurations={SEED: index},
                seeds=seeds,
                key=cell_key(self.context_key, seeds),
            )


def derived_seeds(seed: int, factors: Sequence[str]) -> dict[str, int]:
    """Return the seed of each factor of training that one seed of the study decides; one of that name is that seed."""
    given = (*TASK_FACTORS, SEED)
    return {name: stream_seed(seed, "seed study", name) for name in factors if name not in given}

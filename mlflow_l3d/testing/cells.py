"""Cells to test with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlflow_l3d.plan.cells import Cell, cell_key
from mlflow_l3d.plan.designs import CrossedDesign
from mlflow_l3d.plan.factors import configuration_seed


def one_cell(factors: Sequence[str], configuration: int = 0, root_seed: int = 0) -> Cell:
    """Return the golden cell that puts every factor at `configuration`."""
    return _cell(dict.fromkeys(factors, configuration), root_seed)


def changed(cell: Cell, factor: str, configuration: int, root_seed: int = 0) -> Cell:
    """Return `cell` with `factor` alone, which it may lack so far, at another configuration."""
    return _cell({**cell.configurations, factor: configuration}, root_seed)


def design_cells(factors: Sequence[str], count: int, root_seed: int = 0) -> Iterator[Cell]:
    """Yield the first `count` cells of a crossed design that investigates the last factor in 5 columns."""
    design = CrossedDesign(
        factors=factors[-1:],
        all_factors=factors,
        investigation_runs=5,
        mitigation_runs=-(-count // 5),
        golden_runs=0,
        root_seed=root_seed,
        context_key="testing",
    )
    for _, cell in zip(range(count), design.cells(), strict=False):
        yield cell


def _cell(configurations: dict[str, int], root_seed: int) -> Cell:
    seeds = {name: configuration_seed(root_seed, name, index) for name, index in configurations.items()}
    return Cell("golden", None, None, None, 0, configurations, seeds, cell_key("testing", seeds))

"""Designs of every kind, to test what they have in common."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.crossed import joint_name

ALL = ("label_selection", "data_split", "data_order", "model_initialisation")
TABLES = ("crossed", "nested", "random", "fixed")
KINDS = (*TABLES, "radial")


def build(
    kind: str,
    factors: tuple[str, ...] = ("data_order",),
    n: int = 3,
    m: int = 4,
    golden: int = 6,
    root: int = 0,
    **more: Any,
) -> Any:
    """Return a design; the radial one takes M for its base runs, and neither N nor L."""
    return design_named(kind)(factors, ALL, n, m, golden, root, "context", **more)


# Three members at most, so that a factor is left to mitigate.
names = st.lists(st.sampled_from(ALL), min_size=1, max_size=3, unique=True).map(
    lambda members: joint_name(members, ALL)
)
factor_lists = st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)
sizes = st.fixed_dictionaries(
    {
        "factors": factor_lists,
        "n": st.integers(1, 5),
        "m": st.integers(1, 6),
        "golden": st.integers(0, 30),
        "root": st.integers(0, 2**40),
    }
)


def place(cell: Cell) -> tuple[object, ...]:
    """Return where a cell stands."""
    return cell.phase, cell.factor, cell.row, cell.column, cell.index


def table(design: Any, factor: str) -> dict[tuple[int | None, int | None], Cell]:
    """Return the cells of one factor by row and column."""
    return {(cell.row, cell.column): cell for cell in design.cells() if cell.factor == factor}


def differing(first: Cell, second: Cell) -> set[str]:
    """Return the factors that two cells have different seeds of, after checking that configurations say the same."""
    assert first.seeds.keys() == second.seeds.keys()
    by_seed = {name for name in first.seeds if first.seeds[name] != second.seeds[name]}
    assert by_seed == {name for name in ALL if first.configurations[name] != second.configurations[name]}
    return by_seed

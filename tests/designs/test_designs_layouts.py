"""Designs of every kind and the strategies: which configurations meet in which cell, and what follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from designs_helpers import ALL, build, differing, place, sizes, table
from hypothesis import given, settings

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import stream

WEIGHTS = dict(zip(ALL, (1.0, 2.0, 3.0, 0.5), strict=True))


def others(number: int, **own: int) -> dict[str, int]:
    return {**dict.fromkeys(ALL, number), **own}


def score(cell: Cell) -> float:
    """A response without interactions: one independent normal number a configuration, times the factor's weight."""
    return sum(weight * float(stream(cell.seeds[name]).standard_normal()) for name, weight in WEIGHTS.items())


def test_crossed_by_hand() -> None:
    """N=2, M=2, L=3: two golden runs after the first row, one after the second."""
    cells = list(build("crossed", n=2, m=2, golden=3).cells())
    assert [(cell.name, dict(cell.configurations)) for cell in cells] == [
        ("data_order 0, others 0", others(1_000_000, data_order=0)),
        ("data_order 1, others 0", others(1_000_000, data_order=1)),
        ("all redrawn 0", others(2_000_000)),
        ("all redrawn 1", others(2_000_001)),
        ("data_order 0, others 1", others(1_000_001, data_order=0)),
        ("data_order 1, others 1", others(1_000_001, data_order=1)),
        ("all redrawn 2", others(2_000_002)),
    ]
    assert (place(cells[1]), cells[2].index) == (("investigation", "data_order", 0, 1, None), 0)


def test_nested_by_hand() -> None:
    cells = list(build("nested", n=2, m=2, golden=0).cells())
    assert [(cell.name, dict(cell.configurations)) for cell in cells] == [
        ("data_order 0, others 0", others(1_000_000, data_order=1_000_000_000)),
        ("data_order 1, others 0", others(1_000_000, data_order=1_000_000_001)),
        ("data_order 0, others 1", others(1_000_001, data_order=1_000_001_000)),
        ("data_order 1, others 1", others(1_000_001, data_order=1_000_001_001)),
    ]


def test_radial_by_hand() -> None:
    base, swap, joint = 100_000_000, 200_000_000, "data_order+model_initialisation"
    cells = list(build("radial", ("data_split", joint), m=2).cells())
    assert [(c.name, c.phase, c.factor, c.row, c.column, c.index) for c in cells[3:]] == [
        ("all redrawn 1", "base", None, 1, None, None),
        ("data_split new, others 1", "swap", "data_split", 1, None, None),
        (f"da_or+mo_in new, others 1 ({joint})", "swap", joint, 1, None, None),
    ]
    new = {}, {"data_split": swap + 1}, {"data_order": swap + 1, "model_initialisation": swap + 1}
    assert [dict(cell.configurations) for cell in cells[3:]] == [others(base + 1, **each) for each in new]


def test_strategies_by_hand() -> None:
    """N=1, M=2: one row of two columns, a step each, with one of the two golden runs."""
    random, fixed = (list(build(kind, n=1, m=2, golden=2).cells()) for kind in ("random", "fixed"))
    for cells in (random, fixed):
        names = ["data_order 0, others 0", "all redrawn 0", "data_order 1, others 0", "all redrawn 1"]
        assert [cell.name for cell in cells] == names
        assert dict(cells[3].configurations) == others(2_000_001)
    for cells, bases in ((random, (300_000_000, 300_000_001)), (fixed, (1_000_000, 1_000_000))):
        expected = [others(base, data_order=column) for column, base in enumerate(bases)]
        assert [dict(cell.configurations) for cell in cells[::2]] == expected


@settings(max_examples=40, deadline=None)
@given(size=sizes)
def test_nested_rows_share_nothing(size: dict[str, Any]) -> None:
    design = build("nested", **size)
    for factor in design.factors:
        members = set(factor.split("+"))
        cells = table(design, factor)
        for (row, column), cell in cells.items():
            for (row2, column2), other in cells.items():
                if (row, column) != (row2, column2):
                    assert differing(cell, other) == (members if row == row2 else set(ALL))


@settings(max_examples=40, deadline=None)
@given(size=sizes)
def test_a_swap_differs_from_its_base_in_its_factor_alone(size: dict[str, Any]) -> None:
    design = build("radial", **size)
    cells = list(design.cells())
    bases = {cell.row: cell for cell in cells if cell.phase == "base"}
    swaps = [cell for cell in cells if cell.phase == "swap"]
    assert len(bases) == size["m"]
    for swap in swaps:
        assert differing(swap, bases[swap.row]) == set(str(swap.factor).split("+"))
    for rows in [list(bases.values()), *([s for s in swaps if s.factor == f] for f in design.factors)]:
        for position, cell in enumerate(rows):  # each set by itself: independent draws of every factor
            assert all(differing(cell, other) == set(ALL) for other in rows[:position])


@settings(max_examples=40, deadline=None)
@given(size=sizes)
def test_strategies_vary_what_they_say(size: dict[str, Any]) -> None:
    for kind in ("random", "fixed"):
        design = build(kind, **size)
        for factor in design.factors:
            row = list(table(design, factor).values())
            wanted = set(ALL) if kind == "random" else set(factor.split("+"))
            for position, cell in enumerate(row):
                assert all(differing(cell, other) == wanted for other in row[:position])


@settings(max_examples=30, deadline=None)
@given(size=sizes)
def test_tables_of_several_factors_share_the_draws_of_factors_mitigated_in_both(size: dict[str, Any]) -> None:
    for kind in ("crossed", "nested", "random", "fixed"):
        design = build(kind, **size)
        tables = {factor: table(design, factor) for factor in design.factors}
        for first, cells in tables.items():
            for second, others_ in tables.items():
                members = set(first.split("+")) ^ set(second.split("+"))
                for at, cell in cells.items():
                    assert differing(cell, others_[at]) <= members


@pytest.mark.slow
def test_spread_has_its_known_size_in_every_design() -> None:
    """Each variance within 4 standard errors of the sum of squared weights of the factors that vary."""
    joint = "label_selection+data_split"
    wanted = {"data_order": 9.0, joint: 5.0}
    total = sum(weight**2 for weight in WEIGHTS.values())
    runs = 400
    for factor, own in wanted.items():
        nested = build("nested", (factor,), n=5, m=runs // 4, golden=0, root=3)
        scores = np.array([score(cell) for cell in nested.cells()]).reshape(nested.shape)
        assert scores.var(axis=1, ddof=1).mean() == pytest.approx(own, rel=4 * np.sqrt(2 / runs))
        for kind, variance in (("random", total), ("fixed", own)):
            row = [score(cell) for cell in build(kind, (factor,), n=20, m=runs // 20, golden=0, root=3).cells()]
            assert np.var(row, ddof=1) == pytest.approx(variance, rel=4 * np.sqrt(2 / (runs - 1)))
    radial = build("radial", tuple(wanted), m=runs, root=3)
    sets = np.array([score(cell) for cell in radial.cells()]).reshape(runs, len(wanted) + 1)
    for at, own in enumerate(wanted.values(), start=1):
        change = ((sets[:, 0] - sets[:, at]) ** 2).mean() / 2
        assert change == pytest.approx(own, rel=4 * np.sqrt(2 / runs))
    assert sets.var(axis=0, ddof=1) == pytest.approx(total, rel=4 * np.sqrt(2 / (runs - 1)))

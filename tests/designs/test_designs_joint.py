"""Joint factors: their names, paired columns, and the cross product."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from designs_helpers import ALL, build, differing, sizes, table
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.designs.crossed import CrossedDesign, factor_members, joint_name, product_configurations
from mlflow_l3d.errors import ParameterError

JOINT = "data_order+model_initialisation"


@given(st.lists(st.sampled_from(ALL), min_size=1, unique=True))
def test_names_and_members_go_round(members: list[str]) -> None:
    name = joint_name(members, ALL)
    assert name == joint_name(reversed(members), ALL)
    assert set(factor_members(name, ALL)) == set(members)
    assert joint_name(factor_members(name, ALL), ALL) == name


def test_a_strangers_name_with_a_plus_is_one_factor() -> None:
    known = ("a", "b", "a+b")
    assert factor_members("a+b", known) == ("a+b",)
    cell = CrossedDesign(("a+b",), known, 2, 2, 0, 0, "c").investigation_cell("a+b", 1, 1)
    assert cell.configurations == {"a": 1_000_001, "b": 1_000_001, "a+b": 1}


@pytest.mark.parametrize("members", [["data_order", "data_order"], ["data_order", "data_split", "data_order"]])
def test_members_that_occur_twice_are_refused(members: list[str]) -> None:
    with pytest.raises(ParameterError, match=r"^factor="):
        joint_name(members, ALL)


@settings(max_examples=40, deadline=None)
@given(size=sizes)
def test_in_the_crossed_design_columns_vary_the_members_and_rows_all_others(size: dict[str, Any]) -> None:
    design = build("crossed", **size)
    for factor in design.factors:
        members = set(factor.split("+"))
        cells = table(design, factor)
        for (row, column), cell in cells.items():
            assert {cell.configurations[name] for name in members} == {column}
            along, down = cells[row, 0], cells[0, column]
            assert differing(cell, along) == (members if column else set())
            assert differing(cell, down) == (set(ALL) - members if row else set())


def test_nothing_left_to_mitigate() -> None:
    everything = "+".join(ALL)
    with pytest.raises(ParameterError, match=r"mitigation_runs=4: .* 1 combination\(s\), so rows would repeat. Use 1 "):
        build("crossed", (everything,))
    for kind in ("nested", "radial", "random", "fixed"):
        cells = list(build(kind, (everything,)).cells())
        assert len({cell.key for cell in cells}) == len(cells)


@given(members=st.integers(1, 4), side=st.integers(1, 5))
def test_the_product_is_whole_at_every_power(members: int, side: int) -> None:
    columns = [product_configurations(column, members) for column in range(side**members)]
    assert set(columns) == set(product(range(side), repeat=members))
    assert len(set(columns)) == len(columns)


def test_the_product_in_order() -> None:
    assert [product_configurations(column, 2) for column in range(9)] == [
        (0, 0),
        *((0, 1), (1, 0), (1, 1)),
        *((0, 2), (1, 2), (2, 0), (2, 1), (2, 2)),
    ]
    assert product_configurations(7, 1) == (7,)
    assert product_configurations(10**12 - 1, 3) == (9999, 9999, 9999)
    assert product_configurations(10**12, 3) == (0, 0, 10_000)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 12), more=st.integers(0, 9))
def test_crossed_columns_of_a_joint_factor_grow_without_changing(n: int, more: int) -> None:
    small = build("crossed", (JOINT, "data_split"), n=n, product=True)
    large = build("crossed", (JOINT, "data_split"), n=n + more, product=True)
    keys = [cell.key for cell in small.cells()]
    assert len(set(keys)) == len(keys) == len(small)
    assert set(keys) <= {cell.key for cell in large.cells()}
    alone = build("crossed", ("data_split",), n=n).cells()
    assert {c.key for c in small.cells() if c.factor == "data_split"} == {c.key for c in alone if c.factor}
    for cell in small.cells():
        if cell.factor == JOINT:
            pair = (cell.configurations["data_order"], cell.configurations["model_initialisation"])
            assert pair == product_configurations(int(cell.column or 0), 2)
            assert cell.configurations["data_split"] == 1_000_000 + int(cell.row or 0)

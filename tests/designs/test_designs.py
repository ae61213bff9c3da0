"""The crossed design: which configurations meet in which cell, and in which order cells come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.plan.factors import GOLDEN_BASE, MITIGATION_BASE

ALL = ("label_selection", "data_split", "data_order", "model_initialisation")


def design(factors: tuple[str, ...] = ("data_order",), n: int = 3, m: int = 4, golden: int = 6, root: int = 0):  # type: ignore[no-untyped-def]
    return CrossedDesign(
        factors=factors,
        all_factors=ALL,
        investigation_runs=n,
        mitigation_runs=m,
        golden_runs=golden,
        root_seed=root,
        context_key="context",
    )


designs = st.builds(
    design,
    factors=st.lists(st.sampled_from(ALL), min_size=1, max_size=4, unique=True).map(tuple),
    n=st.integers(2, 6),
    m=st.integers(2, 7),
    golden=st.integers(2, 40),
    root=st.integers(0, 2**40),
)


def test_by_hand() -> None:
    """N=2, M=2, L=3: two golden runs after the first row, one after the second."""
    places = [
        (c.phase, c.factor, c.row, c.column, c.index, dict(c.configurations))
        for c in design(n=2, m=2, golden=3).cells()
    ]

    def mitigated(row: int, column: int) -> dict[str, int]:
        return {**dict.fromkeys(ALL, 1_000_000 + row), "data_order": column}

    def golden(index: int) -> tuple[str, None, None, None, int, dict[str, int]]:
        return ("golden", None, None, None, index, dict.fromkeys(ALL, 2_000_000 + index))

    assert places == [
        ("investigation", "data_order", 0, 0, None, mitigated(0, 0)),
        ("investigation", "data_order", 0, 1, None, mitigated(0, 1)),
        golden(0),
        golden(1),
        ("investigation", "data_order", 1, 0, None, mitigated(1, 0)),
        ("investigation", "data_order", 1, 1, None, mitigated(1, 1)),
        golden(2),
    ]


@pytest.mark.slow
@given(designs)
def test_columns_rows_and_golden_runs_share_no_configuration(plan: CrossedDesign) -> None:
    used: dict[str, set[int]] = {"column": set(), "row": set(), "golden": set()}
    for cell in plan.cells():
        assert set(cell.configurations) == set(cell.seeds) == set(ALL)
        for factor, number in cell.configurations.items():
            kind = "golden" if cell.phase == "golden" else "column" if factor == cell.factor else "row"
            used[kind].add(number)
    assert used["column"] == set(range(plan.investigation_runs))
    assert used["row"] == {MITIGATION_BASE + row for row in range(plan.mitigation_runs)}
    assert used["golden"] == {GOLDEN_BASE + index for index in range(plan.golden_runs)}


def test_tables_of_several_factors_share_their_rows() -> None:
    plan = design(("data_order", "data_split"), n=3, m=3)
    table: dict[tuple[str, int], dict[str, int]] = {}
    for cell in plan.cells():
        if cell.phase == "investigation":
            mitigated = {name: seed for name, seed in cell.seeds.items() if name != cell.factor}
            assert table.setdefault((str(cell.factor), int(cell.row or 0)), mitigated) == mitigated  # over the columns
    for row in range(3):
        shared = {"label_selection", "model_initialisation"}
        first, second = table["data_order", row], table["data_split", row]
        assert {name: first[name] for name in shared} == {name: second[name] for name in shared}


def test_columns_are_the_same_in_every_row() -> None:
    seeds = {(c.row, c.column): c.seeds["data_order"] for c in design().cells() if c.phase == "investigation"}
    for column in range(3):
        assert len({seeds[row, column] for row in range(4)}) == 1
    assert len(set(seeds.values())) == 3


def test_golden_runs_are_shared_by_investigations_of_different_factors() -> None:
    def golden(plan: CrossedDesign) -> list[str]:
        return [cell.key for cell in plan.cells() if cell.phase == "golden"]

    assert golden(design(("data_order",))) == golden(design(("data_split",)))
    assert golden(design(root=0)) != golden(design(root=1))

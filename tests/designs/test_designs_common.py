"""What holds for designs of every kind: cells once each, prefixes, growth, seeds, steps."""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from designs_helpers import ALL, KINDS, TABLES, build, place, sizes
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.cells import factors
from mlflow_l3d.cells.cell import cell_key
from mlflow_l3d.cells.factors import configuration_seed
from mlflow_l3d.designs import Design
from mlflow_l3d.designs.baselines import RandomDesign
from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.designs.nested import NestedDesign
from mlflow_l3d.errors import ParameterError

kinds = st.sampled_from(KINDS)


@settings(max_examples=60, deadline=None)
@given(kind=kinds, size=sizes)
def test_every_cell_once(kind: str, size: dict[str, Any]) -> None:
    design = build(kind, **size)
    cells = list(design.cells())
    assert isinstance(design, Design)
    assert len(cells) == len(design)
    for identity in ("key", "name"):
        assert len({getattr(cell, identity) for cell in cells}) == len(cells)
    assert len({place(cell) for cell in cells}) == len(cells)
    if kind == "radial":
        assert len(cells) == size["m"] * (len(size["factors"]) + 1)
    else:
        rows, columns = design.shape
        assert rows * columns == size["n"] * size["m"]
        places = Counter((cell.factor, cell.row, cell.column) for cell in cells if cell.phase == "investigation")
        grid = [(f, i, j) for f in size["factors"] for i in range(rows) for j in range(columns)]
        assert places == Counter(grid)
        assert [cell.index for cell in cells if cell.phase == "golden"] == list(range(size["golden"]))


@settings(max_examples=40, deadline=None)
@given(kind=kinds, size=sizes)
def test_seeds_and_keys_are_those_of_the_configurations(kind: str, size: dict[str, Any]) -> None:
    for cell in build(kind, **size).cells():
        wanted = {name: configuration_seed(size["root"], name, k) for name, k in cell.configurations.items()}
        assert dict(cell.seeds) == wanted
        assert tuple(cell.configurations) == ALL
        assert cell.key == cell_key("context", wanted)


@settings(max_examples=60, deadline=None)
@given(kind=kinds, size=sizes)
def test_steps_count_their_cells_and_come_in_order(kind: str, size: dict[str, Any]) -> None:
    design = build(kind, **size)
    found = [design.step_of(cell) for cell in design.cells()]
    assert found == sorted(found)
    assert Counter(found) == Counter({step: design.step_size(step) for step in range(design.steps)})
    golden = Counter(design.step_of(cell) for cell in design.cells() if cell.phase == "golden")
    for step in range(design.steps):  # a share is rounded up, never down
        due = sum(golden[before] for before in range(step + 1))
        share = 0 if kind == "radial" else size["golden"] * (step + 1) / size["m"]
        assert share <= due < share + 1


@settings(max_examples=60, deadline=None)
@given(kind=kinds, size=sizes, data=st.data())
def test_the_first_steps_are_a_smaller_design_of_the_same_kind(kind: str, size: dict[str, Any], data: Any) -> None:
    design = build(kind, **size)
    steps = data.draw(st.integers(1, design.steps))
    prefix = [cell for cell in design.cells() if design.step_of(cell) < steps]
    golden = sum(cell.phase == "golden" for cell in prefix)
    smaller = list(build(kind, **{**size, "m": steps, "golden": golden}).cells())
    assert len(smaller) == len(prefix)
    assert {cell.key: place(cell) for cell in smaller} == {cell.key: place(cell) for cell in prefix}


@settings(max_examples=60, deadline=None)
@given(kind=kinds, size=sizes, more=st.tuples(*[st.integers(0, 3)] * 3))
def test_a_larger_design_holds_the_cells_of_the_smaller_one(
    kind: str, size: dict[str, Any], more: tuple[int, int, int]
) -> None:
    larger = {**size, "n": size["n"] + more[0], "m": size["m"] + more[1], "golden": size["golden"] + more[2]}
    places = {cell.key: place(cell) for cell in build(kind, **larger).cells()}
    assert all(places[cell.key] == place(cell) for cell in build(kind, **size).cells())


def test_ranges_of_configurations_are_disjoint_at_their_largest() -> None:
    """First and last of each range, by the largest designs that are allowed."""
    million = factors.MITIGATION_BASE
    ranges = [
        (factors.INVESTIGATION_BASE, million - 1),
        (factors.MITIGATION_BASE, factors.MITIGATION_BASE + million - 1),
        (factors.GOLDEN_BASE, factors.RADIAL_BASE - 1),
        (factors.RADIAL_BASE, factors.SWAP_BASE - 1),
        (factors.SWAP_BASE, factors.SWAP_BASE + (factors.SWAP_BASE - factors.RADIAL_BASE) - 1),
        (factors.RANDOM_BASE, factors.RANDOM_BASE + million - 1),
        (
            factors.NESTED_BASE,
            factors.NESTED_BASE + (million - 1) * factors.NESTED_COLUMNS + factors.NESTED_COLUMNS - 1,
        ),
    ]
    assert all(first <= last for first, last in ranges)
    assert all(last < first for (_, last), (first, _) in pairwise(ranges))
    assert ranges[-1][1] < 2**31
    nested = NestedDesign(("data_order",), ALL, 1000, million, 0, 0, "c")
    assert nested.investigation_cell("data_order", million - 1, 999).configurations["data_order"] == ranges[-1][1]
    strategy = RandomDesign(("data_order",), ALL, 1000, 1000, 0, 0, "c")
    last = strategy.investigation_cell("data_order", 0, million - 1).configurations
    assert (last["data_order"], last["data_split"]) == (ranges[0][1], ranges[5][1])


@settings(max_examples=30, deadline=None)
@given(size=sizes)
def test_kinds_share_cells_only_where_they_mean_to(size: dict[str, Any]) -> None:
    """Golden runs, and row 0 of the crossed design with the first columns of `fixed`; nothing else."""
    found = {kind: {cell.key: cell for cell in build(kind, **size).cells()} for kind in KINDS}
    for position, kind in enumerate(KINDS):
        for other in KINDS[:position]:
            common = [(cell, found[other][key]) for key, cell in found[kind].items() if key in found[other]]
            own = {(place(one), place(two)) for one, two in common if one.phase != "golden"}
            row = [("investigation", f, 0, j, None) for f in size["factors"] for j in range(size["n"])]
            assert own == ({(at, at) for at in row} if {kind, other} == {"crossed", "fixed"} else set())
            assert sum(one.phase == "golden" == two.phase for one, two in common) == len(common) - len(own)
            wanted = 0 if "radial" in {kind, other} else size["golden"]
            assert len(common) - len(own) == wanted


def test_the_crossed_design_is_what_it_always_was() -> None:
    """Finished cells on tracking servers carry these keys, in this order."""
    design = CrossedDesign(("data_order", "label_selection"), ALL, 3, 4, 6, 5, "context")
    text = "".join(cell.key for cell in design.cells())
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == "4f03eaa932bd450a3c8f0247f6db5095"


@pytest.mark.parametrize("kind", KINDS)
def test_cells_come_one_at_a_time_and_designs_are_values(kind: str) -> None:
    large = build(kind, n=1000, m=1000)
    first = next(large.cells())
    assert (first.row, large.step_of(first)) == (0, 0)
    assert pickle.loads(pickle.dumps(large)) == large
    assert hash(large) == hash(build(kind, n=1000, m=1000))
    assert large != build(kind, n=1000, m=1000, root=1)


@pytest.mark.parametrize(
    ("kind", "size", "text"),
    [
        ("nested", {"n": 1001}, "investigation_runs=1001: must be a whole number from 1 to 1000 "),
        ("nested", {"n": 0}, "investigation_runs=0"),
        ("nested", {"m": 1_000_001}, "mitigation_runs=1000001"),
        ("nested", {"golden": 98_000_001}, "golden_runs=98000001"),
        ("random", {"golden": -1}, "golden_runs=-1"),
        ("random", {"n": 1000, "m": 1001}, "investigation_runs x mitigation_runs is 1001000, 1000000 at most"),
        ("fixed", {"n": 1000, "m": 1001}, "mitigation_runs=1001"),
        ("radial", {"m": 0}, "mitigation_runs=0"),
        ("radial", {"m": 100_000_001}, "mitigation_runs=100000001"),
        ("radial", {"factors": ()}, "needs a factor to redraw"),
    ],
)
def test_sizes_at_which_configurations_would_repeat_are_refused(kind: str, size: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        build(kind, **size)


@pytest.mark.parametrize("kind", TABLES)
def test_without_a_factor_only_golden_runs_are_left(kind: str) -> None:
    names = [cell.name for cell in build(kind, factors=(), golden=3).cells()]
    assert names == ["all redrawn 0", "all redrawn 1", "all redrawn 2"]

"""Mitigation strategies: factors that keep to a small set of configurations."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from designs_helpers import ALL, TABLES, build
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.designs.crossed import mitigated_configurations
from mlflow_l3d.errors import ParameterError

index_sets = st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True)
reductions = st.dictionaries(st.sampled_from(ALL), index_sets, min_size=1, max_size=3)


def rows(count: int, mitigation: dict[str, list[int]]) -> list[dict[str, int]]:
    return [mitigated_configurations(row, 1_000_000, ALL, mitigation) for row in range(count)]


@settings(deadline=None)
@given(mitigation=reductions)
def test_all_combinations_come_before_one_repeats_and_sets_are_used_evenly(mitigation: dict[str, list[int]]) -> None:
    period = math.prod(len(indices) for indices in mitigation.values())
    found = [tuple(row[name] for name in mitigation) for row in rows(2 * period, mitigation)]
    assert len(set(found[:period])) == period
    assert found[period:] == found[:period]
    for position, indices in enumerate(mitigation.values()):
        size = len(indices)
        used = [row[position] - 1_000_000 for row in found]
        for count in range(1, 2 * period + 1):
            times = Counter(used[:count])
            assert {times[number] for number in indices} <= {count // size, -(-count // size)}


@settings(deadline=None)
@given(mitigation=reductions)
def test_the_order_of_the_mapping_has_no_effect_and_row_0_is_the_first_of_each_set(
    mitigation: dict[str, list[int]],
) -> None:
    assert rows(20, mitigation) == rows(20, dict(reversed(mitigation.items())))
    assert rows(1, mitigation)[0] == {name: 1_000_000 + mitigation.get(name, [0])[0] for name in ALL}


def test_by_hand() -> None:
    design = build("crossed", n=1, m=5, golden=0, mitigation={"data_split": [7], "label_selection": [0, 2]})
    others = [name for name in ALL if name != "data_order"]
    found = [tuple(cell.configurations[name] - 1_000_000 for name in others) for cell in design.cells()]
    assert found == [(0, 7, 0), (2, 7, 1), (0, 7, 2), (2, 7, 3), (0, 7, 4)]
    equal = [(row["data_split"], row["label_selection"]) for row in rows(4, {n: [0, 1] for n in ALL[:2]})]
    assert [(a - 1_000_000, b - 1_000_000) for a, b in equal] == [(0, 0), (1, 1), (1, 0), (0, 1)]


@settings(max_examples=40, deadline=None)
@given(mitigation=reductions, kind=st.sampled_from(sorted(TABLES)), factor=st.sampled_from(ALL))
def test_only_mitigated_factors_are_reduced(mitigation: dict[str, list[int]], kind: str, factor: str) -> None:
    free = set(ALL) - set(mitigation) - {factor}
    more: dict[str, Any] = {"factors": (factor,), "m": 5 if free else 1}
    plain, reduced = build(kind, **more), build(kind, **more, mitigation=mitigation)
    assert len({cell.key for cell in reduced.cells()}) == len(reduced)
    for one, two in zip(plain.cells(), reduced.cells(), strict=True):
        assert one.name == two.name
        if one.phase == "golden":
            assert one == two
            continue
        for name in ALL:
            if name in mitigation and name != factor:
                assert two.configurations[name] - 1_000_000 in mitigation[name]
            else:
                assert two.configurations[name] == one.configurations[name]


def test_rows_that_would_repeat_are_refused() -> None:
    mitigation = {"label_selection": [0, 1], "data_split": [0, 1, 2], "model_initialisation": [4]}
    design = build("crossed", m=6, mitigation=mitigation)
    assert len({cell.key for cell in design.cells()}) == len(design)
    with pytest.raises(ParameterError, match=r"mitigation_runs=7: .* for data_order have 6 combination\(s\)"):
        build("crossed", m=7, mitigation=mitigation)


@pytest.mark.parametrize(
    ("mitigation", "text"),
    [
        ({"data_oder": [0]}, "mitigation='data_oder': must be one of .* Did you mean 'data_order'"),
        ({"data_split": []}, r"mitigation=data_split: \[\]: must be different configurations from 0 to 999999"),
        ({"data_split": [1, 1]}, r"data_split: \[1, 1\]"),
        ({"data_split": [-1]}, r"data_split: \[-1\]"),
        ({"data_split": [1_000_000]}, r"data_split: \[1000000\]"),
    ],
)
@pytest.mark.parametrize("kind", TABLES)
def test_sets_that_are_none_are_refused(kind: str, mitigation: dict[str, list[int]], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        build(kind, mitigation=mitigation)

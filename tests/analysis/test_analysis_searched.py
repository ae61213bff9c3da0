"""L3D011: cells on the very split that hyperparameters were searched on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_l3d.analysis.importance.checks.evidence import Evidence, PlanFacts, on_searched_split
from mlflow_l3d.analysis.importance.checks.runs import searched_split
from mlflow_l3d.designs import Planned
from mlflow_l3d.designs.analyse import analyse

LARGE = 2**53 - 1
SEEDS = st.integers(0, 3)
SPLIT = st.fixed_dictionaries({"data_split": SEEDS, "label_selection": SEEDS})


@given(st.lists(st.tuples(SEEDS, SEEDS), max_size=12), st.lists(SPLIT, max_size=3))
def test_a_cell_is_found_where_all_its_seeds_are_those_of_one_split(
    seeds: list[tuple[int, int]], splits: list[dict[str, int]]
) -> None:
    cells = pd.DataFrame(seeds, columns=["seed.data_split", "seed.label_selection"], dtype="int64")
    wanted = [any((a, b) == (s["data_split"], s["label_selection"]) for s in splits) for a, b in seeds]
    assert on_searched_split(cells, splits).tolist() == wanted


@pytest.mark.parametrize("kind", ["int64", "Int64", "object"])
def test_large_seeds_missing_seeds_and_missing_columns(kind: str) -> None:
    values = [LARGE, LARGE - 1, LARGE] if kind == "int64" else [LARGE, LARGE - 1, None]
    cells = pd.DataFrame({"seed.data_split": pd.Series(values, dtype=kind)})
    wanted = [True, False, kind == "int64"]
    assert on_searched_split(cells, [{"data_split": LARGE}]).tolist() == wanted
    assert not on_searched_split(cells, [{"label_selection": 1}]).any()
    assert not on_searched_split(cells, []).any()
    assert on_searched_split(cells, [{}]).all()


def cells(rows: int = 3, columns: int = 2) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    table = [("investigation", "data_order", row, column, None) for row in range(rows) for column in range(columns)]
    places = [*table, *(("golden", None, None, None, index) for index in range(4))]
    frame = pd.DataFrame(places, columns=["phase", "factor", "row", "column", "index"])
    frame["seed.data_split"] = [10 + place[2] if place[2] is not None else 100 + place[4] for place in places]
    return frame.assign(accuracy=generator.uniform(0.6, 0.8, len(frame)))


def split_checks(splits):
    evidence = Evidence(importances={}, golden=np.empty(0), cells=cells(), plan=PlanFacts(searched_splits=splits))
    return list(searched_split(evidence))


def test_the_message_has_the_numbers_and_the_fix() -> None:
    (check,) = split_checks([{"data_split": 11}, {"data_split": 99}])
    assert (check.code, check.severity, check.factor) == ("L3D011", "warning", None)
    assert check.message.startswith("2 of 10 cells have the very split")
    assert check.message.endswith("Use another root_seed for the investigation or the search.")
    (check,) = split_checks([{"data_split": 102}])
    assert check.message.startswith("1 of 10 cells has the very split")
    (check,) = split_checks([{}])
    assert check.message.startswith("All 10 cells have the very split")
    assert "No factor of the split has an effect here" in check.message
    assert not split_checks([{"data_split": 99}])


def test_an_analysis_holds_the_check_and_nothing_else_changes() -> None:
    plain = analyse(cells(), metric="accuracy")
    found = analyse(cells(), Planned(searched_splits=[{"data_split": 11}]), metric="accuracy")
    (extra,) = set(found.checks) - set(plain.checks)
    assert extra.code == "L3D011"
    assert [check for check in found.checks if check != extra] == list(plain.checks)
    order = [(check.severity != "warning", check.code) for check in found.checks]
    assert order == sorted(order)
    assert found.metrics() == plain.metrics()

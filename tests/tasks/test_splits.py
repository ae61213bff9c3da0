"""Splits: what each factor decides, what it leaves alone, and that the draws are fair."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.settings import IntArray, Split, SplitSettings
from mlflow_l3d.tasks.splits import _outer, by_class, draw_split, merge, quotas

SEEDS = {"data_split": 11, "label_selection": 12}
FEWER = "Ask for fewer, or for auto, which takes what there is."


def labels_of(counts: list[int], seed: int = 0) -> IntArray:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def labelled(split: Split) -> IntArray:
    return np.sort(np.concatenate([split.train, split.validation]))


def outer_parts(
    labels: IntArray, classes: int, seeds: Mapping[str, int], settings: SplitSettings
) -> tuple[IntArray, IntArray]:
    """Return the two sides of the outer division, as sorted positions: what ``data_split`` decides alone."""
    sizes = quotas(np.bincount(labels, minlength=classes), settings)
    *_, train_part, test_part = _outer(by_class(labels, classes), sizes, seeds["data_split"], settings)
    return merge(train_part), merge(test_part)


def same(first: Split, second: Split) -> bool:
    return all(np.array_equal(getattr(first, part), getattr(second, part)) for part in ("train", "validation", "test"))


@st.composite
def situations(draw: st.DrawFn) -> tuple[IntArray, list[int], SplitSettings, dict[str, int]]:
    counts = draw(st.lists(st.integers(2, 60), min_size=2, max_size=5))
    choice = SplitSettings(
        test_selection=draw(st.sampled_from(["fixed", "label_selection"])),
        fixed_seed=draw(st.integers(0, 3)),
        train_fraction=draw(st.sampled_from([0.8, 0.5, 0.9])),
    )
    if draw(st.booleans()):
        most = quotas(np.array(counts), choice).test_part.min() if choice.test_selection != "fixed" else 1
        choice = replace(choice, test_size=draw(st.integers(1, max(1, int(most)) * len(counts))))
    if draw(st.booleans()):
        most = quotas(np.array(counts), choice).train_part.min()
        choice = replace(choice, num_labelled=draw(st.integers(1, int(most) * len(counts))))
    seeds = {"data_split": draw(st.integers(0, 2**53)), "label_selection": draw(st.integers(0, 2**53))}
    return labels_of(counts, draw(st.integers(0, 9))), counts, choice, seeds


@settings(max_examples=150, deadline=None)
@given(situations())
def test_every_split_keeps_the_rules(situation: tuple[IntArray, list[int], SplitSettings, dict[str, int]]) -> None:
    labels, counts, choice, seeds = situation
    classes = len(counts)
    split = draw_split(labels, classes, seeds, choice)
    parts = (split.train, split.validation, split.test)

    for part in parts:
        assert part.dtype == np.int64
        assert np.array_equal(part, np.unique(part))
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything)
    assert set(everything) <= set(range(len(labels)))

    def per_class(part: IntArray) -> IntArray:
        return np.bincount(labels[part], minlength=classes)

    sizes = quotas(np.array(counts), choice)
    assert np.array_equal(per_class(split.test), sizes.test)
    assert np.array_equal(per_class(labelled(split)), sizes.labelled)
    if choice.num_labelled is not None:
        assert set(per_class(labelled(split))) == {-(-choice.num_labelled // classes)}
    if choice.test_size is not None:
        assert set(per_class(split.test)) == {-(-choice.test_size // classes)}
    stratified = np.abs(per_class(split.train) - choice.train_fraction * per_class(labelled(split)))
    assert stratified.max() < 1

    train_part, test_part = outer_parts(labels, classes, seeds, choice)
    pool = per_class(train_part) + per_class(test_part)
    assert np.abs(per_class(train_part) - choice.train_fraction * pool).max() < 1
    assert set(labelled(split)) <= set(train_part)
    if choice.test_selection == "fixed":
        assert not set(split.test) & (set(train_part) | set(test_part))
        assert len(train_part) + len(test_part) + len(split.test) == len(labels)
    else:
        assert set(split.test) <= set(test_part)
        assert len(train_part) + len(test_part) == len(labels)

    backwards = MappingProxyType({"model_initialisation": 3, **dict(reversed(seeds.items()))})
    assert same(split, draw_split(labels.copy(), classes, backwards, choice))


def test_sizes_of_the_paper() -> None:
    sizes = quotas(np.array([4265, 4265]), SplitSettings())
    assert sizes.train_part.tolist() == [3412, 3412]
    assert sizes.test_part.tolist() == [853, 853]
    assert sizes.labelled.tolist() == sizes.test.tolist() == [500, 500]
    assert sizes.train.tolist() == [400, 400]


def test_a_small_class_gives_what_it_has() -> None:
    sizes = quotas(np.array([95, 2000]), SplitSettings())
    assert sizes.labelled.tolist() == [76, 500]
    assert sizes.test.tolist() == [19, 400]
    fixed = quotas(np.array([95, 2000]), SplitSettings(test_selection="fixed"))
    assert fixed.test.tolist() == [19, 400]
    assert fixed.train_part.tolist() == [61, 1280]


@pytest.mark.parametrize("selection", ["label_selection", "fixed"])
def test_label_selection_alone_leaves_the_divisions(selection: str) -> None:
    labels, choice = labels_of([300, 200]), SplitSettings(60, 20, selection)
    other_seeds = {**SEEDS, "label_selection": 99}
    first, second = (draw_split(labels, 2, seeds, choice) for seeds in (SEEDS, other_seeds))
    for ours, theirs in zip(*(outer_parts(labels, 2, seeds, choice) for seeds in (SEEDS, other_seeds)), strict=True):
        assert np.array_equal(ours, theirs)

    def validation_ranks(split: Split) -> list[list[int]]:
        chosen = [labelled(split)[labels[labelled(split)] == c] for c in range(2)]
        return [np.flatnonzero(np.isin(of_class, split.validation)).tolist() for of_class in chosen]

    assert validation_ranks(first) == validation_ranks(second)
    assert not np.array_equal(labelled(first), labelled(second))
    assert np.array_equal(first.test, second.test) == (selection == "fixed")


def positions_drawn(labels: IntArray, choice: SplitSettings, seeds: Mapping[str, int]) -> list[list[int]]:
    """Where the labelled and the test examples stand within their class's part."""
    split = draw_split(labels, 3, seeds, choice)
    parts = outer_parts(labels, 3, seeds, choice)
    return [
        np.flatnonzero(np.isin(part[labels[part] == c], chosen)).tolist()
        for part, chosen in zip(parts, (labelled(split), split.test), strict=True)
        for c in range(3)
    ]


def test_data_split_alone_leaves_the_selected_positions() -> None:
    labels, choice = labels_of([100, 157, 230]), SplitSettings(45, 30)
    other_seeds = {**SEEDS, "data_split": 99}
    assert positions_drawn(labels, choice, SEEDS) == positions_drawn(labels, choice, other_seeds)
    assert positions_drawn(labels, choice, SEEDS) != positions_drawn(labels, choice, {**SEEDS, "label_selection": 99})
    assert not same(draw_split(labels, 3, SEEDS, choice), draw_split(labels, 3, other_seeds, choice))


def test_data_split_decides_the_validation_part_even_where_everything_is_labelled() -> None:
    labels, choice = labels_of([50, 50]), SplitSettings(test_selection="fixed")
    splits = [draw_split(labels, 2, {**SEEDS, "data_split": seed}, choice) for seed in range(5)]
    assert len({tuple(split.validation) for split in splits}) == 5


def test_a_fixed_test_set_depends_on_its_own_seed_only() -> None:
    labels, choice = labels_of([120, 80]), SplitSettings(20, 10, "fixed")
    tests, used = set(), set()
    for seed in range(30):
        split = draw_split(labels, 2, {"data_split": seed, "label_selection": 100 + seed}, choice)
        tests.add(tuple(split.test))
        used |= set(labelled(split))
    assert len(tests) == 1
    assert not used & set(*tests)
    assert not np.array_equal(draw_split(labels, 2, SEEDS, replace(choice, fixed_seed=1)).test, next(iter(tests)))


def test_more_labelled_examples_contain_the_fewer() -> None:
    labels = labels_of([300, 300])
    few, many = (draw_split(labels, 2, SEEDS, SplitSettings(size, size // 2)) for size in (40, 160))
    assert set(labelled(few)) < set(labelled(many))
    assert set(few.test) < set(many.test)


def test_every_example_is_drawn_equally_often() -> None:
    labels, choice, draws = labels_of([40, 60]), SplitSettings(16, 8), 1500
    counts = np.zeros((3, len(labels)))
    for seed in range(draws):
        split = draw_split(labels, 2, {"data_split": seed, "label_selection": seed}, choice)
        for row, part in enumerate((split.train, split.validation, split.test)):
            counts[row, part] += 1
    for row, per_class in enumerate((6, 2, 4)):
        expected = per_class / np.array([40, 60])[labels]
        z = (counts[row] / draws - expected) / np.sqrt(expected * (1 - expected) / draws)
        assert np.abs(z).max() < 5


def test_zero_is_a_seed() -> None:
    labels, choice = labels_of([60, 60]), SplitSettings(20, 10)
    splits = [draw_split(labels, 2, {"data_split": 0, "label_selection": seed}, choice) for seed in (0, 0, 1)]
    assert same(splits[0], splits[1])
    assert not same(splits[0], splits[2])


def test_the_draws_are_those_of_earlier_versions() -> None:
    """A change here makes finished cells wrong: their keys would stay the same."""
    digest = hashlib.sha256()
    for selection in ("label_selection", "fixed"):
        split = draw_split(np.arange(300) % 3, 3, SEEDS, SplitSettings(60, 30, selection, fixed_seed=5))
        for part in (split.train, split.validation, split.test):
            digest.update(part.astype("<i8").tobytes())
    assert digest.hexdigest()[:16] == "a1615329ef9e73f9"


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        (
            SplitSettings(num_labelled=200),
            f"num_labelled=200: class '1' has 40 training examples, so at most 80 are allowed. {FEWER}",
        ),
        (
            SplitSettings(test_size=21),
            f"test_size=21: class '1' has 10 test examples, so at most 20 are allowed. {FEWER}",
        ),
        (SplitSettings(num_labelled=0), "num_labelled=0: must be at least 1, or auto."),
        (
            SplitSettings(test_selection="Fixed"),
            "test_selection='Fixed': must be one of fixed, label_selection. Did you mean 'fixed'?",
        ),
        (SplitSettings(train_fraction=1.0), "train_fraction=1.0: must lie between 0 and 1, both excluded."),
    ],
)
def test_settings_that_are_not_allowed(choice: SplitSettings, line: str) -> None:
    assert refusal(draw_split, labels_of([500, 50]), 2, SEEDS, choice) == line


def test_the_largest_allowed_number_is_allowed() -> None:
    split = draw_split(labels_of([500, 50]), 2, SEEDS, SplitSettings(num_labelled=80, test_size=20))
    assert (len(labelled(split)), len(split.test)) == (80, 20)


def test_missing_seed_and_missing_examples() -> None:
    with pytest.raises(L3DError, match="label_selection is missing"):
        draw_split(labels_of([20, 20]), 2, {"data_split": 1}, SplitSettings())
    with pytest.raises(L3DError, match="class '2' has 0 examples"):
        draw_split(labels_of([20, 20]), 3, SEEDS, SplitSettings())


@settings(max_examples=60, deadline=None)
@given(situations())
def test_on_validation_no_test_example_is_in_sight(situation) -> None:
    labels, counts, choice, seeds = situation
    whole = draw_split(labels, len(counts), seeds, choice)
    on_validation = replace(choice, evaluated="validation")
    if not len(whole.validation):
        with pytest.raises(ParameterError, match="leaves no validation example to be scored on"):
            draw_split(labels, len(counts), seeds, on_validation)
        return
    split = draw_split(labels, len(counts), seeds, on_validation)
    assert np.array_equal(split.train, whole.train)
    assert np.array_equal(split.validation, whole.validation)
    assert np.array_equal(split.test, whole.validation)
    assert not set(whole.test) & {*split.train, *split.validation, *split.test}


def test_what_is_evaluated_is_checked_and_named() -> None:
    with pytest.raises(ParameterError, match=r"evaluated='validated': must be one of .* Did you mean 'validation'\?"):
        quotas(np.array([20, 20]), SplitSettings(evaluated="validated"))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"num_labelled=2: .* Ask for 4 at least\."):
        quotas(np.array([20, 20]), SplitSettings(num_labelled=2, evaluated="validation"))


def test_identity_is_what_it_was_before_one_could_choose() -> None:
    before = {"num_labelled": 20, "test_size": None, "test_selection": "fixed", "fixed_seed": 7, "train_fraction": 0.8}
    choice = SplitSettings(num_labelled=20, test_selection="fixed", fixed_seed=7)
    assert choice.identity() == before
    assert replace(choice, evaluated="validation").identity() == {**before, "evaluated": "validation"}

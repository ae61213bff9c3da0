"""Seeds: stable for ever, independent, and zero is one of them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.cells import factors
from mlflow_l3d.cells.factors import configuration_seed, stream, stream_seed, stream_sequence

FACTORS = (*factors.TASK_FACTORS, "data_order", "sample_choice", "model_initialisation", "model_randomness", "seed")

PINNED = {
    (0, "data_order", 0): 8694996793691139,
    (0, "data_order", 1): 1689353620020141,
    (0, "label_selection", 0): 5322787906735694,
    (1, "data_order", 0): 1226925487643930,
    (12345678901234567890, "seed", 2_000_003): 104150990349789,
}
"""Finished cells on tracking servers carry keys made of these: a change makes every one of them useless."""

roots = st.integers(0, 2**64)
indices = st.integers(0, 3_000_000)
names = st.sampled_from(sorted(FACTORS))


@pytest.mark.parametrize(("place", "seed"), PINNED.items())
def test_seeds_are_what_they_always_were(place: tuple[int, str, int], seed: int) -> None:
    assert configuration_seed(*place) == seed


def test_streams_are_what_they_always_were() -> None:
    seed = PINNED[(0, "data_order", 0)]
    assert stream_seed(seed, "batches") == 6346101050404545
    assert stream(seed, "batches").integers(0, 1000, 5).tolist() == [323, 123, 49, 493, 770]
    assert stream_seed(0) == 7711540714544783
    assert stream_seed(0, "a", "b") == 4445468042923988


def test_seed_is_numpys_own_sequence_of_factor_and_configuration() -> None:
    words = np.random.SeedSequence(7, spawn_key=(zlib.crc32(b"data_split"), 11)).generate_state(1, np.uint64)
    assert configuration_seed(7, "data_split", 11) == int(words[0]) >> 11


@given(root=roots, factor=names, configuration=indices)
def test_seed_is_exact_as_a_float_and_depends_on_nothing_else(root: int, factor: str, configuration: int) -> None:
    seed = configuration_seed(root, factor, configuration)
    assert 0 <= seed < 2**53
    assert int(float(seed)) == seed
    assert configuration_seed(root, factor, configuration) == seed


@given(first=st.tuples(roots, names, indices), second=st.tuples(roots, names, indices))
def test_another_place_has_another_seed(first: tuple[int, str, int], second: tuple[int, str, int]) -> None:
    assert (first == second) == (configuration_seed(*first) == configuration_seed(*second))


def test_no_two_configurations_of_a_large_investigation_share_a_seed() -> None:
    bases = factors.INVESTIGATION_BASE, factors.MITIGATION_BASE, factors.GOLDEN_BASE
    wanted = [base + number for base in bases for number in range(300)]
    seeds = {configuration_seed(0, factor, number) for factor in FACTORS for number in wanted}
    assert len(seeds) == len(FACTORS) * len(wanted)


def test_zero_is_a_seed_like_any_other() -> None:
    assert configuration_seed(0, "data_order", 0) != configuration_seed(1, "data_order", 0)
    assert np.array_equal(stream(0, "a").random(8), stream(0, "a").random(8))
    assert not np.array_equal(stream(0, "a").random(8), stream(1, "a").random(8))
    # A seed that is taken for "none" would draw from the operating system, and so never twice the same.
    assert stream_seed(0, "a") == stream_seed(0, "a")


@pytest.mark.parametrize("by", ["factor", "configuration", "root"])
def test_streams_of_neighbours_are_uncorrelated(by: str) -> None:
    """Neighbouring places must not give related numbers: 4,000 pairs, correlation within 4 standard errors of 0."""
    count = 4000
    numbers = np.empty((2, count))
    for number in range(count):
        for kind in range(2):
            root = number + (kind if by == "root" else 0)
            factor = "data_split" if by == "factor" and kind else "data_order"
            seed = configuration_seed(root, factor, kind if by == "configuration" else 0)
            numbers[kind, number] = stream(seed, "draw").random()
    assert abs(np.corrcoef(numbers)[0, 1]) < 4 / np.sqrt(count)
    assert np.abs(numbers.mean(axis=1) - 0.5).max() < 4 / np.sqrt(12 * count)


@given(seed=st.integers(0, 2**53 - 1), words=st.lists(st.text(min_size=1, max_size=8), max_size=3))
def test_stream_and_its_seed_come_from_one_sequence(seed: int, words: list[str]) -> None:
    state = stream_sequence(seed, *words).generate_state(1, np.uint64)
    assert stream_seed(seed, *words) == int(state[0]) >> 11
    assert stream_seed(seed, *words) < 2**53
    assert stream_seed(seed, *words, "more") != stream_seed(seed, *words)


def test_purposes_are_independent_of_how_much_another_one_draws() -> None:
    first = stream(5, "outer")
    first.random(1000)
    assert np.array_equal(stream(5, "inner").random(3), stream(5, "inner").random(3))
    assert not np.array_equal(stream(5, "inner").random(3), stream(5, "outer").random(3))
    assert not np.array_equal(stream(5, "a", "b").random(3), stream(5, "b", "a").random(3))


@pytest.mark.parametrize(("root", "configuration"), [(-1, 0), (0, -1)])
def test_negative_numbers_are_refused(root: int, configuration: int) -> None:
    with pytest.raises(ValueError, match=f"got {root} and {configuration}$"):
        configuration_seed(root, "data_order", configuration)


@settings(max_examples=20)
@given(factor=st.text(min_size=1, max_size=20))
def test_a_strangers_factor_has_seeds_too(factor: str) -> None:
    assert 0 <= configuration_seed(0, factor, 3) < 2**53

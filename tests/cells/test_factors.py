"""Seeds: stable for ever, independent, and zero is one of them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_l3d.cells import factors
from mlflow_l3d.cells.factors import configuration_seed, stream, stream_seed

FACTORS = (*factors.TASK_FACTORS, "data_order", "sample_choice", "model_initialisation", "model_randomness", "seed")

PINNED = {
    (0, "data_order", 0): 8694996793691139,
    (0, "data_order", 1): 1689353620020141,
    (0, "label_selection", 0): 5322787906735694,
    (1, "data_order", 0): 1226925487643930,
    (12345678901234567890, "seed", 2_000_003): 104150990349789,
}
"""Finished cells on tracking servers carry keys made of these: a change makes every one of them useless."""

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


@given(root=st.integers(0, 2**64), factor=names | st.text(min_size=1), configuration=st.integers(0, 3_000_000))
def test_seed_is_numpys_own_sequence_of_factor_and_configuration(root: int, factor: str, configuration: int) -> None:
    sequence = np.random.SeedSequence(root, spawn_key=(zlib.crc32(factor.encode()), configuration))
    seed = configuration_seed(root, factor, configuration)
    assert seed == int(sequence.generate_state(1, np.uint64)[0]) >> 11
    assert int(float(seed)) == seed


def test_no_two_configurations_of_a_large_investigation_share_a_seed() -> None:
    bases = factors.INVESTIGATION_BASE, factors.MITIGATION_BASE, factors.GOLDEN_BASE
    wanted = [base + number for base in bases for number in range(300)]
    seeds = {configuration_seed(0, factor, number) for factor in FACTORS for number in wanted}
    assert len(seeds) == len(FACTORS) * len(wanted)


@given(seed=st.integers(0, 2**53 - 1), words=st.lists(st.text(min_size=1, max_size=8), max_size=3))
def test_stream_and_its_seed_are_numpys_own_sequence_of_seed_and_purpose(seed: int, words: list[str]) -> None:
    sequence = np.random.SeedSequence(seed, spawn_key=tuple(zlib.crc32(word.encode()) for word in words))
    assert stream_seed(seed, *words) == int(sequence.generate_state(1, np.uint64)[0]) >> 11
    assert stream(seed, *words).random() == np.random.default_rng(sequence).random()


@pytest.mark.parametrize(("root", "configuration"), [(-1, 0), (0, -1)])
def test_negative_numbers_are_refused(root: int, configuration: int) -> None:
    with pytest.raises(ValueError, match=f"got {root} and {configuration}$"):
        configuration_seed(root, "data_order", configuration)

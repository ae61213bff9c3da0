"""Numbers of numpy's generators, computed from their places: the same ones, wherever a stream is entered."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches import device_draws
from mlflow_l3d.approaches.stacked import stack


def generators(seeds):
    return [np.random.default_rng(seed) for seed in seeds]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4),
    st.integers(0, 5000),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.floats(0.0, 0.99),
    st.integers(1, 200),
)
def test_factors_of_dropout_are_numpys(seeds, first, shape, probability, words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_draws, "WORDS", words)
        found = device_draws.dropout_factors(generators(seeds), first, tuple(shape), probability, "cpu").numpy()
    for own, generator in zip(found, generators(seeds), strict=True):
        generator.random(first, dtype=np.float32)
        expected = stack.dropout_factors(generator, tuple(shape), probability)
        assert own.dtype == expected.dtype
        assert np.array_equal(own, expected)


def test_a_long_stream_is_numpys():
    (found,) = device_draws.dropout_factors(generators([7]), 0, (300_001,), 0.25, "cpu").numpy()
    assert np.array_equal(found, stack.dropout_factors(np.random.default_rng(7), (300_001,), 0.25))


def test_words_are_those_that_numpy_draws():
    streams = generators(range(3))
    states = device_draws._states(streams, "cpu")
    found = device_draws._words(states, 5, 70).numpy().view(np.uint64)
    for own, generator in zip(found, streams, strict=True):
        assert np.array_equal(own, generator.bit_generator.random_raw(70)[5:])


def test_what_is_no_fresh_generator_of_numpy_is_refused():
    used = np.random.default_rng(0)
    used.random(1, dtype=np.float32)
    for wrong in (used, np.random.Generator(np.random.Philox(0))):
        with pytest.raises(ValueError, match="is no PCG64 at its beginning"):
            device_draws.dropout_factors([wrong], 0, (3,), 0.1, "cpu")


@pytest.mark.parametrize(
    "numbers", [(0, 1), (2**64 - 1, 2**64 - 1), (2**63, 3), (0x123456789ABCDEF0, 0xFEDCBA9876543210)]
)
def test_products_and_sums_carry(numbers):
    whole = [(number << 64) + other for number, other in (numbers, numbers[::-1])]
    wide = [tuple(torch.tensor([device_draws._signed(half)]) for half in (number >> 64, number)) for number in whole]
    for found, expected in (
        (device_draws._times(*wide), whole[0] * whole[1]),
        (device_draws._plus(*wide), whole[0] + whole[1]),
    ):
        assert [half.item() % 2**64 for half in found] == [(expected >> 64) % 2**64, expected % 2**64]

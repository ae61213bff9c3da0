"""Randomness factors, their configurations, and the seeds that belong to them.

A *factor* is one source of randomness (Pecher et al. 2024, section 3). A *configuration* of a factor is an
index with its own seed. The seed of a configuration depends on nothing but the root seed, the name of the factor
and the index, so that a cell can be repeated alone, anywhere, in any order.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Final

import numpy as np

INVESTIGATION_BASE: Final = 0
"""Columns of the investigated factor use configurations 0, 1, 2, ..."""
MITIGATION_BASE: Final = 1_000_000
"""Row ``i`` puts every factor that is not investigated at configuration ``MITIGATION_BASE + i``."""
GOLDEN_BASE: Final = 2_000_000
"""Golden run ``l`` puts every factor at configuration ``GOLDEN_BASE + l``."""
RADIAL_BASE: Final = 100_000_000
"""Base run ``i`` of the radial design puts every factor at configuration ``RADIAL_BASE + i``."""
SWAP_BASE: Final = 200_000_000
"""Swap ``i`` of a factor, in the radial design, puts that factor at configuration ``SWAP_BASE + i``."""
RANDOM_BASE: Final = 300_000_000
"""Run ``j`` of the strategy `random` puts every factor but the investigated at configuration ``RANDOM_BASE + j``."""
SEARCH_BASE: Final = 400_000_000
"""Configuration ``j`` of a hyperparameter search puts every factor at configuration ``SEARCH_BASE + j``."""
HELD_OUT_BASE: Final = 500_000_000
"""Configuration ``j`` on which a found setting is compared with the default: ``HELD_OUT_BASE + j``."""
NESTED_BASE: Final = 1_000_000_000
"""Row ``i``, column ``j`` of the nested design: configuration ``NESTED_BASE + i * NESTED_COLUMNS + j``."""
NESTED_COLUMNS: Final = 1_000
"""The most columns of the nested design. With at most 1,000,000 rows every configuration fits 31 bits."""


TASK_FACTORS: Final = ("label_selection", "data_split")
"""Factors that the task draws from, whatever the approach."""
REPLICATE: Final = "replicate"
"""The factor of which nothing is drawn: its configurations are the same cell again."""
TEST_SAMPLE: Final = "test_sample"
"""The factor that draws half of the evaluated examples; cells that differ in it alone are trained once."""
OF_NO_APPROACH: Final = (REPLICATE, TEST_SAMPLE)
"""Factors that are investigated on request, whatever the approach; cells of other tables have none of them."""


def _word(text: str) -> int:
    """Return a stable 32-bit number for a name (Python's own hash changes from process to process)."""
    return zlib.crc32(text.encode("utf-8"))


# All columns of a row share what their row decides, and a study walks through its cells several times.
@lru_cache(maxsize=2**14)
def configuration_seed(root_seed: int, factor: str, configuration: int) -> int:
    """Return the seed of one configuration of one factor.

    Parameters
    ----------
    root_seed
        Non-negative; zero is a seed like any other.
    factor
        Name of the factor.
    configuration
        Non-negative index of the configuration.

    Returns
    -------
    int
        In ``[0, 2**53)``: exact in JSON, JavaScript and a float column.

    Notes
    -----
    ``numpy.random.SeedSequence(root_seed, spawn_key=(crc32(factor), configuration))``, so factors are independent
    streams and so are the configurations of a factor.
    """
    if root_seed < 0 or configuration < 0:
        raise ValueError(f"root_seed and configuration must not be negative, got {root_seed} and {configuration}")
    sequence = np.random.SeedSequence(root_seed, spawn_key=(_word(factor), configuration))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(11))


def stream(seed: int, *purpose: str) -> np.random.Generator:
    """Return the generator of one purpose of one factor.

    A factor that decides several things (the outer and the inner split, say) draws each from a stream of its
    own, so that a change in how much one of them draws leaves the others as they were.

    Parameters
    ----------
    seed
        The seed of the factor's configuration, from :func:`configuration_seed`.
    *purpose
        Words that name the draws.
    """
    return np.random.default_rng(stream_sequence(seed, *purpose))


def stream_seed(seed: int, *purpose: str) -> int:
    """Return an integer seed in ``[0, 2**53)`` for a generator of another library, such as ``torch.Generator``."""
    return int(stream_sequence(seed, *purpose).generate_state(1, np.uint64)[0] >> np.uint64(11))


def stream_sequence(seed: int, *purpose: str) -> np.random.SeedSequence:
    """Return the seed sequence behind :func:`stream`."""
    return np.random.SeedSequence(seed, spawn_key=tuple(_word(word) for word in purpose))

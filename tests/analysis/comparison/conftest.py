"""What tests of comparisons share."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng():
    """Return a generator, the same in every test."""
    return np.random.default_rng(5)

"""What tests of the analysis share."""

import pytest


@pytest.fixture
def rng():
    """Return a generator, the same in every test."""
    import numpy as np  # not before tests/conftest.py has set the number of threads

    return np.random.default_rng(5)

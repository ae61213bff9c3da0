"""The decorator of tests that are run with several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def luck(runs: int = 100, rate: float = 0.8) -> pytest.MarkDecorator:
    """Return ``pytest.mark.luck``: with ``pytest --l3d``, a test runs with several seeds.

    Parameters
    ----------
    runs
        The most runs in a suite; so few that a test without score could not fail are an error. In a suite of 100 cases
        6 runs show that a case that never passes does not pass in 80 %, and about 40 that one that passes every second
        time does not; 20 show this only of one that passes in 20 % or less.
    rate
        Share of runs that must pass if the test gives no score.

    Notes
    -----
    The docstring of the fixture `luck` (``pytest --fixtures -v``) lists what is not guaranteed. In a file of tests::

        @mlflow_l3d.testing.luck(runs=20)
        def test_quality(luck):
            luck.score(train(seed=luck.seed)).at_least(0.80)
    """
    import pytest

    return pytest.mark.luck(runs=runs, rate=rate)

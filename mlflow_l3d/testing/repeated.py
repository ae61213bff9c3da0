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
        The most runs in a suite. In a suite of 100 cases it takes about 40 runs to show that a case that passes every
        second time does not pass in 80 %; 20 runs show this only of one that passes in 20 % or less.
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

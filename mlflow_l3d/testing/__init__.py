"""The public conformance suite: checks that an approach, executor or design keeps its contract.

    from mlflow_l3d.testing import check_approach

    def test_my_approach(tmp_path):
        check_approach(MyApproach(), my_task, cache=tmp_path)

A check that fails raises AssertionError with one sentence that names the broken rule of the contract.

Names are loaded at their first use: workers of `check_executor` need one module, and the others load pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

    from mlflow_l3d.testing.approaches import check_approach
    from mlflow_l3d.testing.cells import Trouble, changed, design_cells, differences, one_cell
    from mlflow_l3d.testing.designs import check_design
    from mlflow_l3d.testing.executors import bench_job, check_executor

__all__ = [
    "Trouble",
    "bench_job",
    "changed",
    "check_approach",
    "check_design",
    "check_executor",
    "design_cells",
    "differences",
    "luck",
    "one_cell",
]
_NAMES: Final = {
    "approaches": ("check_approach",),
    "cells": ("Trouble", "changed", "design_cells", "differences", "one_cell"),
    "designs": ("check_design",),
    "executors": ("bench_job", "check_executor"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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

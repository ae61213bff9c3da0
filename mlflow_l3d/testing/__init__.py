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
    from mlflow_l3d.testing.approaches import check_approach
    from mlflow_l3d.testing.cells import changed, design_cells, differences, one_cell
    from mlflow_l3d.testing.designs import check_design
    from mlflow_l3d.testing.executors import bench_job, check_executor
    from mlflow_l3d.testing.repeated import luck
    from mlflow_l3d.testing.trouble import Trouble

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
    "cells": ("changed", "design_cells", "differences", "one_cell"),
    "designs": ("check_design",),
    "executors": ("bench_job", "check_executor"),
    "repeated": ("luck",),
    "trouble": ("Trouble",),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

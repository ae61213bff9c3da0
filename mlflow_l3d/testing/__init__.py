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
    from mlflow_l3d.testing.approaches import check_approach as check_approach
    from mlflow_l3d.testing.cells import changed as changed
    from mlflow_l3d.testing.cells import design_cells as design_cells
    from mlflow_l3d.testing.cells import differences as differences
    from mlflow_l3d.testing.cells import one_cell as one_cell
    from mlflow_l3d.testing.designs import check_design as check_design
    from mlflow_l3d.testing.executors import bench_job as bench_job
    from mlflow_l3d.testing.executors import check_executor as check_executor
    from mlflow_l3d.testing.repeated import luck as luck
    from mlflow_l3d.testing.trouble import Trouble as Trouble

_MODULES: Final = ("repeated", "cells", "trouble", "executors", "approaches", "designs")
"""Those that load little first: a name is in the first that has it."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module in () if name.startswith("_") or name in _MODULES else _MODULES:
        if hasattr(loaded := import_module(f"{__name__}.{module}"), name):
            return getattr(loaded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

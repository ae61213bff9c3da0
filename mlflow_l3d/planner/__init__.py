"""Before an investigation: its cells, their cost, and how many it needs. Names are loaded where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow_l3d.planner.entry import plan, plan_investigation
    from mlflow_l3d.planner.result import Plan

__all__ = ["Plan", "plan", "plan_investigation"]

_HOMES = {
    "Plan": "mlflow_l3d.planner.result",
    "plan": "mlflow_l3d.planner.entry",
    "plan_investigation": "mlflow_l3d.planner.entry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

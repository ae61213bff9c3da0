"""Before an investigation: its cells, their cost, and how many it needs. Names are loaded where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow_l3d.studies.planning.result import Plan
    from mlflow_l3d.studies.planning.run import plan, plan_investigation

__all__ = ["Plan", "plan", "plan_investigation"]

_HOMES = {
    "Plan": "mlflow_l3d.studies.planning.result",
    "plan": "mlflow_l3d.studies.planning.run",
    "plan_investigation": "mlflow_l3d.studies.planning.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

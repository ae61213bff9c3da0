"""Evaluations of GenAI apps: which luck a score has, and whether one version of an app is better than another.

Names are loaded where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mlflow_l3d.studies.genai.annotations import annotate
    from mlflow_l3d.studies.genai.run import investigate

__all__ = ["annotate", "investigate"]

MODULES: Final = {
    "investigate": "mlflow_l3d.studies.genai.run",
    "annotate": "mlflow_l3d.studies.genai.annotations",
}
"""Name -> module, in the order of the documentation."""


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__

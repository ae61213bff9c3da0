"""Evaluations of GenAI apps: which luck a score has, and whether one version of an app is better than another.

Names are loaded where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mlflow_l3d.studies.genai.annotations import annotate
    from mlflow_l3d.studies.genai.run import investigate
    from mlflow_l3d.studies.judged.run import compare_evaluations as compare

__all__ = ["annotate", "compare", "investigate"]

TARGETS: Final = {
    "investigate": "mlflow_l3d.studies.genai.run:investigate",
    "compare": "mlflow_l3d.studies.judged.run:compare_evaluations",
    "annotate": "mlflow_l3d.studies.genai.annotations:annotate",
}
"""Name -> ``module:function``, in the order of the documentation."""


def __getattr__(name: str) -> Any:
    if name not in TARGETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, function = TARGETS[name].partition(":")
    return getattr(import_module(module), function)


def __dir__() -> list[str]:
    return __all__

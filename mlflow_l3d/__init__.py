"""mlflow-l3d: how much of a score is luck, and which kind of luck.

The package is almost empty on purpose: MLflow imports plug-ins while it starts. Names are loaded where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_l3d.version import __version__

if TYPE_CHECKING:
    from mlflow_l3d.studies.ablation.run import ablate
    from mlflow_l3d.studies.investigation.evaluate import evaluate
    from mlflow_l3d.studies.investigation.run import Investigation, investigate
    from mlflow_l3d.studies.planning import plan_investigation
    from mlflow_l3d.studies.seeds.evaluate import evaluate_seeds
    from mlflow_l3d.studies.seeds.run import seeds
    from mlflow_l3d.studies.strategies.run import compare_strategies

__all__ = [
    "Investigation",
    "__version__",
    "ablate",
    "compare_strategies",
    "evaluate",
    "evaluate_seeds",
    "investigate",
    "plan_investigation",
    "seeds",
]

_HOMES = {
    "Investigation": "mlflow_l3d.studies.investigation.run",
    "ablate": "mlflow_l3d.studies.ablation.run",
    "compare_strategies": "mlflow_l3d.studies.strategies.run",
    "evaluate": "mlflow_l3d.studies.investigation.evaluate",
    "evaluate_seeds": "mlflow_l3d.studies.seeds.evaluate",
    "investigate": "mlflow_l3d.studies.investigation.run",
    "plan_investigation": "mlflow_l3d.studies.planning",
    "seeds": "mlflow_l3d.studies.seeds.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

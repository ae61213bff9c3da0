"""mlflow-l3d: how much of a score is luck, and which kind of luck.

The package is almost empty on purpose: MLflow imports plug-ins while it starts. Names are loaded where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow_l3d.ablation_study import ablate
    from mlflow_l3d.comparison import compare_strategies
    from mlflow_l3d.evaluation import evaluate
    from mlflow_l3d.investigation import Investigation, investigate
    from mlflow_l3d.planner import plan_investigation
    from mlflow_l3d.seeds_entry import seeds
    from mlflow_l3d.seeds_evaluation import evaluate_seeds

__version__ = "0.1.0"
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
    "Investigation": "mlflow_l3d.investigation",
    "ablate": "mlflow_l3d.ablation_study",
    "compare_strategies": "mlflow_l3d.comparison",
    "evaluate": "mlflow_l3d.evaluation",
    "evaluate_seeds": "mlflow_l3d.seeds_evaluation",
    "investigate": "mlflow_l3d.investigation",
    "plan_investigation": "mlflow_l3d.planner",
    "seeds": "mlflow_l3d.seeds_entry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

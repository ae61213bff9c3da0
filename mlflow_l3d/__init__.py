"""mlflow-l3d: how much of a score is luck, and which kind of luck.

The package is almost empty on purpose: MLflow imports plug-ins while it starts. Names are loaded where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_l3d.version import __version__

# From here to __all__: written by .ci/write.py from the table of verbs, for type checkers.
if TYPE_CHECKING:
    from mlflow_l3d.approaches.callable import Callable
    from mlflow_l3d.approaches.training import training
    from mlflow_l3d.studies.ablation.run import ablate
    from mlflow_l3d.studies.comparison.run import compare
    from mlflow_l3d.studies.evaluation.delete import delete
    from mlflow_l3d.studies.evaluation.run import evaluate
    from mlflow_l3d.studies.gate.run import gate
    from mlflow_l3d.studies.importing.run import import_runs
    from mlflow_l3d.studies.investigation.run import Investigation, investigate
    from mlflow_l3d.studies.names import list_names
    from mlflow_l3d.studies.planning.run import plan_investigation
    from mlflow_l3d.studies.search.run import search
    from mlflow_l3d.studies.seeds.run import seeds
    from mlflow_l3d.studies.strategies.run import compare_strategies
    from mlflow_l3d.studies.sweep.run import sweep
    from mlflow_l3d.testing.skeleton import new

__all__ = [
    "Callable",
    "Investigation",
    "__version__",
    "ablate",
    "compare",
    "compare_strategies",
    "delete",
    "evaluate",
    "gate",
    "import_runs",
    "investigate",
    "list_names",
    "new",
    "plan_investigation",
    "search",
    "seeds",
    "sweep",
    "training",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    from mlflow_l3d.parameters.verbs import PUBLIC

    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__

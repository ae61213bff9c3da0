"""What is public: the names that `import mlflow_l3d` gives, and where they are loaded from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from mlflow_l3d.parameters.verbs import verbs

FIXED: Final[Mapping[str, Mapping[str, str]]] = {
    "Your own training": {
        "FunctionApproach": "mlflow_l3d.approaches.functions.approach",
        "training": "mlflow_l3d.approaches.functions.training",
        "Estimator": "mlflow_l3d.approaches.functions.estimator",
        "Approach": "mlflow_l3d.approaches.base",
        "Hyperparameter": "mlflow_l3d.approaches.hyperparameters",
        "make_task": "mlflow_l3d.tasks.identity",
    },
    "Statistics, without MLflow": {
        "importance": "mlflow_l3d.analysis.importance.importance",
        "radial_importance": "mlflow_l3d.analysis.importance.importance",
        "consistency": "mlflow_l3d.analysis.consistency.runs",
        "seeds_study": "mlflow_l3d.studies.seeds.numbers.study",
    },
    "Errors": {"L3DError": "mlflow_l3d.errors", "ParameterError": "mlflow_l3d.errors"},
}
"""Heading -> name -> module, of all but the studies."""


@cache
def public_names() -> Mapping[str, Mapping[str, str]]:
    """Return heading -> name -> module: also the functions of the studies, and the classes of what they return."""
    results = [target.partition(":") for verb in verbs().values() for target in verb.returns]
    return {
        "Studies": {verb.function: verb.module for verb in verbs().values()},
        "What they return": {name: module for module, _, name in results},
        **FIXED,
    }


def module_of(name: str) -> str:
    """Return the module that a public name is loaded from."""
    fixed = {each: module for names in FIXED.values() for each, module in names.items()}
    return fixed.get(name) or next(names[name] for names in public_names().values() if name in names)

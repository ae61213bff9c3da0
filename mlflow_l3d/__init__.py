"""mlflow-l3d: how much of a score is luck, and which kind of luck.

The package is almost empty on purpose: MLflow imports plug-ins while it starts. Names are loaded where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_l3d.version import __version__

# From here to __all__: written by .ci/write.py from the verbs of the studies, for type checkers.
if TYPE_CHECKING:
    from mlflow_l3d.analysis.consistency.runs import consistency
    from mlflow_l3d.analysis.importance.importance import importance, radial_importance
    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.approaches.functions.approach import FunctionApproach
    from mlflow_l3d.approaches.functions.estimator import Estimator, training
    from mlflow_l3d.approaches.functions.of_seeds import SeedFunction
    from mlflow_l3d.approaches.hyperparameters import Hyperparameter
    from mlflow_l3d.errors import L3DError, ParameterError
    from mlflow_l3d.parameters.cures import cured
    from mlflow_l3d.studies.ablation.run import Ablation, ablation
    from mlflow_l3d.studies.comparison.results import ComparedRuns
    from mlflow_l3d.studies.comparison.run import compare
    from mlflow_l3d.studies.cure.results import Cure
    from mlflow_l3d.studies.cure.run import cure, plan_cure
    from mlflow_l3d.studies.dry_run import StudyPlan
    from mlflow_l3d.studies.evaluation.deletion import Deletion, delete
    from mlflow_l3d.studies.evaluation.run import evaluate, load
    from mlflow_l3d.studies.evaluation.view import Viewed, view
    from mlflow_l3d.studies.gate.conduct import Gate
    from mlflow_l3d.studies.gate.run import GatePlan, gate, plan_gate
    from mlflow_l3d.studies.genai.results import GenaiInvestigation
    from mlflow_l3d.studies.groups.run import GroupsEvaluation
    from mlflow_l3d.studies.helpers import Names, names
    from mlflow_l3d.studies.importing.run import FilesEvaluation
    from mlflow_l3d.studies.investigation.results import Evaluation
    from mlflow_l3d.studies.investigation.run import Investigation, investigate, self_test
    from mlflow_l3d.studies.judged.results import JudgedComparison, JudgedEvaluation
    from mlflow_l3d.studies.planning.result import Plan
    from mlflow_l3d.studies.planning.run import plan
    from mlflow_l3d.studies.referee.door import Referee, referee
    from mlflow_l3d.studies.referee.numbers.judge import Judgement
    from mlflow_l3d.studies.referee.results import RefereeSession
    from mlflow_l3d.studies.referee.trials import RefereedStudy
    from mlflow_l3d.studies.search.engine import plan_search
    from mlflow_l3d.studies.search.run import HyperparameterSearch, search
    from mlflow_l3d.studies.seeds.numbers.study import seeds_study
    from mlflow_l3d.studies.seeds.results import SeedsEvaluation
    from mlflow_l3d.studies.seeds.run import SeedsRun, plan_replicate, plan_seeds, replicate, seeds, self_test_seeds
    from mlflow_l3d.studies.self_test import SelfTest
    from mlflow_l3d.studies.strategies.run import ComparedStrategies, plan_strategies, strategies
    from mlflow_l3d.studies.sweep.engine import SweepPlan
    from mlflow_l3d.studies.sweep.results import SweepEvaluation
    from mlflow_l3d.studies.sweep.run import Sweep, plan_sweep, sweep
    from mlflow_l3d.tasks.identity import make_task
    from mlflow_l3d.testing.skeleton import new

__all__ = [
    "Ablation",
    "Approach",
    "ComparedRuns",
    "ComparedStrategies",
    "Cure",
    "Deletion",
    "Estimator",
    "Evaluation",
    "FilesEvaluation",
    "FunctionApproach",
    "Gate",
    "GatePlan",
    "GenaiInvestigation",
    "GroupsEvaluation",
    "Hyperparameter",
    "HyperparameterSearch",
    "Investigation",
    "JudgedComparison",
    "JudgedEvaluation",
    "Judgement",
    "L3DError",
    "Names",
    "ParameterError",
    "Plan",
    "Referee",
    "RefereeSession",
    "RefereedStudy",
    "SeedFunction",
    "SeedsEvaluation",
    "SeedsRun",
    "SelfTest",
    "StudyPlan",
    "Sweep",
    "SweepEvaluation",
    "SweepPlan",
    "Viewed",
    "__version__",
    "ablation",
    "compare",
    "consistency",
    "cure",
    "cured",
    "delete",
    "evaluate",
    "gate",
    "importance",
    "investigate",
    "load",
    "make_task",
    "names",
    "new",
    "plan",
    "plan_cure",
    "plan_gate",
    "plan_replicate",
    "plan_search",
    "plan_seeds",
    "plan_strategies",
    "plan_sweep",
    "radial_importance",
    "referee",
    "replicate",
    "search",
    "seeds",
    "seeds_study",
    "self_test",
    "self_test_seeds",
    "strategies",
    "sweep",
    "training",
    "view",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "genai":
        return import_module("mlflow_l3d.genai")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mlflow_l3d.parameters.verbs import module_of

    return getattr(import_module(module_of(name)), name)


def __dir__() -> list[str]:
    return __all__

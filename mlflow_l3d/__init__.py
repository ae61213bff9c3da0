"""mlflow-l3d: how much of a score is luck, and which kind of luck.

The package is almost empty on purpose: MLflow imports plug-ins while it starts. Names are loaded where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_l3d.version import __version__ as __version__

# Written by .ci/write.py from the verbs of the studies, for type checkers.
if TYPE_CHECKING:
    from mlflow_l3d.analysis.consistency.runs import consistency as consistency
    from mlflow_l3d.analysis.importance import importance as importance
    from mlflow_l3d.analysis.importance import radial_importance as radial_importance
    from mlflow_l3d.approaches.base import Approach as Approach
    from mlflow_l3d.approaches.functions.approach import FunctionApproach as FunctionApproach
    from mlflow_l3d.approaches.functions.estimator import Estimator as Estimator
    from mlflow_l3d.approaches.functions.estimator import training as training
    from mlflow_l3d.approaches.functions.of_seeds import SeedFunction as SeedFunction
    from mlflow_l3d.approaches.hyperparameters import Hyperparameter as Hyperparameter
    from mlflow_l3d.errors import L3DError as L3DError
    from mlflow_l3d.errors import ParameterError as ParameterError
    from mlflow_l3d.parameters.cures import cured as cured
    from mlflow_l3d.studies.ablation.run import Ablation as Ablation
    from mlflow_l3d.studies.ablation.run import ablation as ablation
    from mlflow_l3d.studies.comparison.results import ComparedRuns as ComparedRuns
    from mlflow_l3d.studies.comparison.run import compare as compare
    from mlflow_l3d.studies.cure.run import Cure as Cure
    from mlflow_l3d.studies.cure.run import cure as cure
    from mlflow_l3d.studies.cure.run import plan_cure as plan_cure
    from mlflow_l3d.studies.dry_run import StudyPlan as StudyPlan
    from mlflow_l3d.studies.evaluation.finished import Deletion as Deletion
    from mlflow_l3d.studies.evaluation.finished import delete as delete
    from mlflow_l3d.studies.evaluation.finished import load as load
    from mlflow_l3d.studies.evaluation.run import evaluate as evaluate
    from mlflow_l3d.studies.evaluation.view import Viewed as Viewed
    from mlflow_l3d.studies.evaluation.view import view as view
    from mlflow_l3d.studies.gate.record import Gate as Gate
    from mlflow_l3d.studies.gate.run import GatePlan as GatePlan
    from mlflow_l3d.studies.gate.run import gate as gate
    from mlflow_l3d.studies.gate.run import plan_gate as plan_gate
    from mlflow_l3d.studies.genai.results import GenaiInvestigation as GenaiInvestigation
    from mlflow_l3d.studies.groups.run import GroupsEvaluation as GroupsEvaluation
    from mlflow_l3d.studies.helpers import Names as Names
    from mlflow_l3d.studies.helpers import names as names
    from mlflow_l3d.studies.helpers import new as new
    from mlflow_l3d.studies.importing.run import FilesEvaluation as FilesEvaluation
    from mlflow_l3d.studies.investigation.results import Evaluation as Evaluation
    from mlflow_l3d.studies.investigation.results import Investigation as Investigation
    from mlflow_l3d.studies.investigation.run import investigate as investigate
    from mlflow_l3d.studies.investigation.run import self_test as self_test
    from mlflow_l3d.studies.judged.results import JudgedComparison as JudgedComparison
    from mlflow_l3d.studies.judged.results import JudgedEvaluation as JudgedEvaluation
    from mlflow_l3d.studies.planning.result import Plan as Plan
    from mlflow_l3d.studies.planning.run import plan as plan
    from mlflow_l3d.studies.referee.door import Referee as Referee
    from mlflow_l3d.studies.referee.door import referee as referee
    from mlflow_l3d.studies.referee.numbers import Judgement as Judgement
    from mlflow_l3d.studies.referee.record import RefereeSession as RefereeSession
    from mlflow_l3d.studies.referee.trials import RefereedStudy as RefereedStudy
    from mlflow_l3d.studies.search.engine import plan_search as plan_search
    from mlflow_l3d.studies.search.run import HyperparameterSearch as HyperparameterSearch
    from mlflow_l3d.studies.search.run import search as search
    from mlflow_l3d.studies.seeds.numbers import seeds_study as seeds_study
    from mlflow_l3d.studies.seeds.results import SeedsEvaluation as SeedsEvaluation
    from mlflow_l3d.studies.seeds.run import SeedsRun as SeedsRun
    from mlflow_l3d.studies.seeds.run import plan_replicate as plan_replicate
    from mlflow_l3d.studies.seeds.run import plan_seeds as plan_seeds
    from mlflow_l3d.studies.seeds.run import replicate as replicate
    from mlflow_l3d.studies.seeds.run import seeds as seeds
    from mlflow_l3d.studies.seeds.run import self_test_seeds as self_test_seeds
    from mlflow_l3d.studies.self_test import SelfTest as SelfTest
    from mlflow_l3d.studies.strategies.run import ComparedStrategies as ComparedStrategies
    from mlflow_l3d.studies.strategies.run import plan_strategies as plan_strategies
    from mlflow_l3d.studies.strategies.run import strategies as strategies
    from mlflow_l3d.studies.sweep.engine import SweepPlan as SweepPlan
    from mlflow_l3d.studies.sweep.results import SweepEvaluation as SweepEvaluation
    from mlflow_l3d.studies.sweep.run import Sweep as Sweep
    from mlflow_l3d.studies.sweep.run import plan_sweep as plan_sweep
    from mlflow_l3d.studies.sweep.run import sweep as sweep
    from mlflow_l3d.tasks.identity import make_task as make_task


def __getattr__(name: str) -> Any:
    from importlib import import_module
    from importlib.util import find_spec

    if name == "__all__":
        return __dir__()
    if not name.startswith("_"):
        if find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        from mlflow_l3d.parameters.verbs import module_of

        if module := module_of(name):
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from mlflow_l3d.parameters.verbs import public_names

    return sorted({"__version__", *(name for names in public_names().values() for name in names)})

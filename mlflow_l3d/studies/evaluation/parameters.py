"""The parameters of `evaluate` and `delete`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.declaration import Auto, Parameters, declared
from mlflow_l3d.parameters.shared import PARENT
from mlflow_l3d.parameters.verbs import Verb


class EvaluateOptions(TypedDict, total=False):
    """Of `evaluate`."""

    parent_run_id: Annotated[
        str,
        replace(PARENT, help=f"{PARENT.help}; a sweep; several investigations or seeds studies, separated by commas"),
    ]
    where: Annotated[str, Of("none", "MLflow filter that finds the cells; none uses the parent's children")]
    metric: Annotated[str, Of("auto", "metric whose spread is investigated; auto is the parent's metric, or f1_macro")]
    design: Annotated[
        str | Auto,
        Of("auto", "how cells are laid out; auto is the parent's design, or inferred from the cells", registered=True),
    ]
    missing: Annotated[
        Literal["auto", "anova", "reml"],
        Of("auto", "estimation method if cells are missing; auto is the parent's, or anova"),
    ]
    agreement: Annotated[
        str,
        Of("auto", "how predictions of two runs are compared: auto, regression, or a scoring function (rougeL, ...)"),
    ]


class _Deleted(TypedDict, total=False):
    parent_run_id: Annotated[
        str, replace(PARENT, default="none", help="(required) parent run to delete together with its children")
    ]


EVALUATE: Final[Parameters] = declared(EvaluateOptions)
"""Of `evaluate`."""
DELETE: Final[Parameters] = declared(_Deleted)
"""Of `delete`."""

EVALUATE_VERB = Verb(
    "evaluate",
    EVALUATE,
    "mlflow_l3d.studies.evaluation.run:evaluate",
    "score runs that exist already",
    is_study=False,
    question="What do runs show that exist already?",
    examples=("evaluate", "evaluate --metric accuracy", "evaluate --parent-run-id RUN_ID,RUN_ID"),
    order=100,
    returns=(
        "mlflow_l3d.studies.genai.results:GenaiInvestigation",
        "mlflow_l3d.studies.investigation.results:Evaluation",
        "mlflow_l3d.studies.seeds.results:SeedsEvaluation",
        "mlflow_l3d.studies.sweep.results:SweepEvaluation",
    ),
)

DELETE_VERB = Verb(
    "delete",
    DELETE,
    "mlflow_l3d.studies.evaluation.deletion:delete",
    "delete a parent run with its children",
    is_study=False,
    in_project=False,
    asks=True,
    examples=("delete --parent-run-id RUN_ID",),
    order=130,
    returns=("mlflow_l3d.studies.evaluation.deletion:Deletion",),
)

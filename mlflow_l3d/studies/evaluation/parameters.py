"""The parameters of `evaluate` and `delete`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal, TypedDict

from mlflow_l3d.parameters import Auto, Of, Parameters, declared
from mlflow_l3d.parameters.shared import PARENT, Names, Settings
from mlflow_l3d.parameters.verbs import Verb


class _Source(TypedDict, total=False):
    source: Annotated[
        str, Of("latest", "run ids, latest, experiment:NAME, a filter of MLflow, or files of another tool")
    ]


class _Metric(TypedDict, total=False):
    metric: Annotated[
        str, Of("auto", "metric that is reported (of runs also NAME:lower); auto is the parent's, or the likely one")
    ]


class GroupOptions(TypedDict, total=False):
    """Of runs of other code, and of files of other tools."""

    group_by: Annotated[
        Names, Of("auto", "what makes groups: params.NAME, tags.NAME; auto is all parameters but seeds")
    ]
    seed: Annotated[Names, Of("auto", "parameters that are seeds; auto is those with the name of one")]
    only: Annotated[Settings, Of("none", "parameters that runs must have: name=value pairs separated by commas")]


class RunOptions(TypedDict, total=False):
    """Of runs of other code."""

    step: Annotated[int | Literal["last", "best"], Of("last", "value to use if a metric has several steps")]
    tag: Annotated[bool, Of("false", "also tag each run with the difference that luck causes")]


class FileOptions(TypedDict, total=False):
    """Of files of other tools."""

    from_: Annotated[
        Literal["auto", "lm-eval", "inspect", "promptfoo", "tau-bench", "csv", "huggingface-trainer"],
        Of("auto", "tool that wrote the files (in Python `from_`); auto recognises it"),
    ]
    task: Annotated[str, Of("auto", "task to read; several are variants with the same examples")]
    task_kind: Annotated[
        Literal["auto", "classification", "regression", "multiple_choice", "generation", "tagging", "ranking"],
        Of("auto", "csv: kind of labels and predictions; auto infers it"),
    ]
    classes: Annotated[str | Sequence[str], Of("auto", "csv: all classes, separated by |; auto is those that occur")]
    columns: Annotated[Settings, Of("none", "csv: roles of columns, as example_id=id,prediction=answer,settings=seed")]


class ParentOptions(TypedDict, total=False):
    """Of the parent run of cells."""

    where: Annotated[str, Of("none", "MLflow filter that finds the cells; none uses the parent's children")]
    design: Annotated[
        str | Auto,
        Of("auto", "how cells are laid out; auto is the parent's design, or that of the cells", registered=True),
    ]
    missing: Annotated[
        Literal["auto", "anova", "reml"],
        Of("auto", "estimation method if cells are missing; auto is the parent's, or anova"),
    ]
    agreement: Annotated[str, Of("auto", "how predictions are compared: regression, or a function such as rougeL")]


class EvaluateOptions(_Metric, GroupOptions, RunOptions, FileOptions, ParentOptions, total=False):
    """Of `evaluate`."""


class _Deleted(TypedDict, total=False):
    parent_run_id: Annotated[
        str, replace(PARENT, default="none", help="(required) parent run to delete together with its children")
    ]


OPTIONS: Final[Parameters] = declared(EvaluateOptions)
"""Of `evaluate`, without the source."""
OF_GROUPS, OF_RUNS, OF_FILES, OF_PARENT = (
    tuple(declared(group)) for group in (GroupOptions, RunOptions, FileOptions, ParentOptions)
)
"""Names of the options of each kind of source."""
DELETE: Final[Parameters] = declared(_Deleted)
"""Of `delete`."""

EVALUATE_VERB = Verb(
    "evaluate",
    declared(_Source, EvaluateOptions),
    "mlflow_l3d.studies.evaluation.run:evaluate",
    "score results that exist already: runs, experiments, files of other tools",
    is_study=False,
    question="How much of a score is luck in results that I have?",
    examples=(
        "evaluate RUN_ID,RUN_ID",
        "evaluate experiment:tuning --metric f1 --group-by params.rate",
        "evaluate \"params.model = 'a'\"",
        "evaluate results.csv",
        "evaluate logs --from lm-eval --task trec",
    ),
    usual="source metric group_by seed only from_ task",
    groups={
        "experiments, runs of other code, and files": OF_GROUPS,
        "experiments, and runs of other code": OF_RUNS,
        "files of other tools": OF_FILES,
        "parent runs of cells": OF_PARENT,
    },
    order=100,
    returns=(
        "mlflow_l3d.studies.genai.results:GenaiInvestigation",
        "mlflow_l3d.studies.investigation.results:Evaluation",
        "mlflow_l3d.studies.seeds.results:SeedsEvaluation",
        "mlflow_l3d.studies.sweep.results:SweepEvaluation",
        "mlflow_l3d.studies.importing.run:FilesEvaluation",
        "mlflow_l3d.studies.groups.run:GroupsEvaluation",
        "mlflow_l3d.studies.judged.results:JudgedEvaluation",
    ),
)

DELETE_VERB = Verb(
    "delete",
    DELETE,
    "mlflow_l3d.studies.evaluation.finished:delete",
    "delete a parent run with its children",
    is_study=False,
    in_project=False,
    asks=True,
    examples=("delete RUN_ID",),
    order=130,
    returns=("mlflow_l3d.studies.evaluation.finished:Deletion",),
)

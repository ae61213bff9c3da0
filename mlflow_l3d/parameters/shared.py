"""Parameters that several verbs have, in groups: each item is declared once, with the type that Python takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypedDict, get_type_hints

from mlflow_l3d.parameters import Auto, Of, declared

MOST_RUNS: Final = 1_000_000
"""Beyond, columns would use the configurations of rows, and rows those of golden runs."""
Names = str | Sequence[str]
Settings = str | Mapping[str, Any]
Metric = str | Callable[..., float]
SEED: Final = Of("0", "number from which all seeds are derived")
TASK: Final = Of(
    "auto", "labelled data: a .csv, .parquet or .jsonl file, a data set folder, hf:NAME[/CONFIG], or the name of a task"
)
ReferenceSize = Annotated[int, Of("0", "examples that all runs predict and none trains on", low=0)]
PARENT: Final = Of("latest", "parent run; `latest` is the latest investigation of the experiment")


class Task(TypedDict, total=False):
    """What is trained on; in Python it may be an object."""

    task: Annotated[str, TASK]


class Approach(TypedDict, total=False):
    """What is trained; in Python it may be an object."""

    approach: Annotated[
        str,
        Of(
            "finetuning",
            "what is trained: fine-tuning, in-context learning, a command, ...; `mlflow-l3d names` lists all",
            registered=True,
        ),
    ]


class OwnParameters(TypedDict, total=False):
    """Those that only one approach takes."""

    command: Annotated[str, Of("", "program and its arguments, with {factor} in place of a seed", approach="command")]
    uri: Annotated[str, Of("", "folder of an MLflow project, or address of a git repository", approach="project")]
    entry_point: Annotated[str, Of("main", "entry point of the project, or a script", approach="project")]
    project_parameters: Annotated[
        Settings,
        Of(
            "",
            "name=value pairs or JSON, with {factor} in place of a seed: seed={data_order},epochs=3",
            approach="project",
        ),
    ]


OWN_PARAMETERS: Final[Mapping[str, Of]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(OwnParameters, include_extras=True).items()
}
"""Name -> declaration of those."""


class Trained(OwnParameters, total=False):
    """What else says what is trained."""

    model: Annotated[
        str,
        Of(
            "auto",
            "model: hub id, short name (bert-base), folder, or package:NAME; auto is the default of the approach",
        ),
    ]
    cure: Annotated[
        Settings,
        Of("none", 'remedy against luck, a JSON file or JSON: {"kind": "vote", "over": ["data_order"], "members": 5}'),
    ]


class Runs(TypedDict, total=False):
    """What is investigated, with how many runs."""

    factor: Annotated[
        Names,
        Of(
            "auto",
            "factors to investigate: names separated by commas, or `all`; auto is data_order, or all if the approach "
            "lacks it or brings its data; a+b varies a and b together; replicate (also all,replicate) repeats the "
            "same training, test_sample (also all,test_sample) draws the test examples",
        ),
    ]
    investigation_runs: Annotated[
        int, Of("10", "N: columns, the configurations of the investigated factor", low=2, high=MOST_RUNS)
    ]
    mitigation_runs: Annotated[
        int | Auto,
        Of(
            "auto",
            "M: rows, the configurations of all other factors; auto is 20, of design=radial 100 base runs, or at most "
            "320 with a stopping rule",
            low=2,
            high=MOST_RUNS,
        ),
    ]
    golden_runs: Annotated[
        int | Auto | Literal["pooled"],
        Of(
            "auto",
            "L: runs in which every factor is redrawn; auto is N x M; pooled uses all other runs instead",
            low=2,
            high=10 * MOST_RUNS,
        ),
    ]
    mitigation: Annotated[
        Names,
        Of("none", "mitigated factors that have only some configurations: data_order:0, or name=sample_choice:0+3+7"),
    ]
    missing: Annotated[Literal["anova", "reml"], Of("anova", "estimation method if cells are missing")]
    root_seed: Annotated[int, SEED]
    metric: Annotated[
        Metric, Of("auto", "metric whose spread is investigated; auto is f1_macro, or pearson if labels are numbers")
    ]
    hyperparameters: Annotated[
        Settings,
        Of(
            "default",
            "name=value pairs separated by commas, alone or after one of: default; latest (the last finished "
            "search) or the run id of a search; paper (the authors' values, also for model, design, mitigation_runs "
            "and metric if these are auto); a JSON file",
        ),
    ]


class Layout(TypedDict, total=False):
    """How cells are laid out, and when to stop."""

    design: Annotated[
        str | Auto,
        Of(
            "auto",
            "how cells are laid out; auto: crossed (as published) for one factor, radial (fewer trainings) for "
            "several, unless another parameter needs a table",
            registered=True,
        ),
    ]
    joint: Annotated[
        Literal["paired", "product"],
        Of("paired", "columns of a+b: i-th with i-th (paired), or every combination (product)"),
    ]
    stop: Annotated[
        Literal["none", "interval", "epsilon"],
        Of("none", "rule that stops early: at a narrow interval, or when more rows change nothing"),
    ]
    half_width: Annotated[
        float, Of("0.1", "stop=interval, plan: half-width of the interval of the corrected importance to reach", high=1)
    ]
    epsilon: Annotated[
        float,
        Of(
            "0.01",
            "stop=epsilon: stop if one more row changes the standard deviations (percentage points, or the metric's "
            "unit) and the importance by less",
        ),
    ]


class SelfTest(TypedDict, total=False):
    """Trial runs before the cells."""

    self_test: Annotated[
        Literal["auto", "run", "only", "skip"],
        Of(
            "auto",
            "trial runs first: stop if a seed changes nothing or a repeated run differs; auto does this for code of "
            "your own",
        ),
    ]


class Sizes(TypedDict, total=False):
    """How much data is used."""

    num_labelled: Annotated[
        int | Auto, Of("auto", "labelled training examples; auto is 1000, fewer of small data", low=2)
    ]
    test_size: Annotated[int | Auto, Of("auto", "test examples; auto is 1000, fewer of small data", low=2)]
    test_selection: Annotated[
        Literal["label_selection", "fixed"],
        Of("label_selection", "fixed: the same test examples for all cells; else label_selection draws them"),
    ]
    reference_size: ReferenceSize


class Columns(TypedDict, total=False):
    """How a file or data set is read."""

    text_column: Annotated[Names, Of("auto", "text column; two for sentence pairs, separated by a comma")]
    label_column: Annotated[str, Of("label", "label column")]
    task_kind: Annotated[
        str,
        Of(
            "auto",
            "classification, regression, multiple_choice, generation, tagging or ranking; auto infers it from the data",
        ),
    ]
    choice_columns: Annotated[
        Names, Of("auto", "columns with the choices of a multiple-choice file, separated by commas")
    ]


class Shown(TypedDict, total=False):
    """What the report shows."""

    show_texts: Annotated[bool, Of("false", "true: the report shows texts of examples, not only their ids and votes")]


class Place(TypedDict, total=False):
    """Where and how cells run: one for all cells of a study."""

    device: Annotated[str, Of("auto", "cpu, cuda, cuda:N or mps; auto uses an accelerator if there is one")]
    deterministic: Annotated[
        bool,
        Of("true", "true: a repeated cell gives identical results on the same device; false may be faster on a GPU"),
    ]
    executor: Annotated[
        str, Of("processes", "where cells run: in worker processes, in this one, on Slurm or Ray, ...", registered=True)
    ]
    workers: Annotated[int | Auto, Of("auto", "number of workers; auto is one per core or GPU", low=1, high=10_000)]
    cell_timeout: Annotated[
        float | Literal["auto", "none"] | None,
        Of("auto", "time limit per cell in seconds; auto is 20 times the median of finished cells, at least 600"),
    ]
    executor_options: Annotated[
        Settings, Of("none", 'options of the executor: name=value,name=value or JSON: {"num_gpus": 0.5}')
    ]
    store_scores: Annotated[bool, Of("true", "whether predictions have class scores")]


class _DryRun(TypedDict, total=False):
    dry_run: Annotated[
        bool, Of("false", "show what would be trained, what is done and how long it takes; train nothing")
    ]


DRY_RUN: Final = declared(_DryRun)
"""Of every verb that trains, on the command line and in MLproject; Python has a function for each."""
PLACE: Final = tuple(Place.__annotations__)
"""Where and how cells run: one for all cells of a study."""

GROUP_OF: Final[Mapping[str, str]] = {
    name: group
    for group, names in {
        "what is studied": "factor task approach model hyperparameters metric source parent_run_id runs",
        "cells and when to stop": "design investigation_runs mitigation_runs golden_runs joint mitigation stop "
        "half_width epsilon self_test missing root_seed",
        "data": "num_labelled test_size test_selection text_column label_column task_kind choice_columns "
        "validation_fraction reference_size",
        "where it runs": "device deterministic executor workers cell_timeout executor_options store_scores dry_run",
    }.items()
    for name in names.split()
} | dict.fromkeys(OWN_PARAMETERS, "what is studied")
"""Parameter -> the group that `--help` shows it in; the others are those that a verb has of its own."""

"""Parameters that several verbs have, in groups: each item is declared once, with the type that Python takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.approaches.own_parameters import OwnParameters
from mlflow_l3d.parameters.declaration import Auto, declared

MOST_RUNS: Final = 1_000_000
"""Beyond, columns would use the configurations of rows, and rows those of golden runs."""
Names = str | Sequence[str]
Settings = str | Mapping[str, Any]
Metric = str | Callable[..., float]
SEED: Final = Of("0", "the number that every seed is derived from")
TASK: Final = Of("auto", "name of a task, .csv, .parquet or .jsonl file, data set folder, or hf:NAME[/CONFIG]")
PARENT: Final = Of("latest", "the parent run; `latest` is the experiment's latest investigation")


class Task(TypedDict, total=False):
    """What is trained on; in Python it may be an object."""

    task: Annotated[str, TASK]


class Approach(TypedDict, total=False):
    """What is trained; in Python it may be an object."""

    approach: Annotated[str, Of("finetuning", "what is trained", registered=True)]


class Trained(OwnParameters, total=False):
    """What else says what is trained."""

    model: Annotated[
        str, Of("auto", "hub id, short name (bert-base), folder, or package:NAME; auto is the approach's own default")
    ]


class Runs(TypedDict, total=False):
    """What is investigated, with how many runs."""

    factor: Annotated[
        Names,
        Of(
            "auto",
            "randomness factors to investigate: names separated by commas, or `all`; auto is data_order, and all where "
            "the approach has none of that name; a+b is a and b jointly; replicate "
            "(also all,replicate) trains the same cell again, test_sample (also all,test_sample) draws the test "
            "examples",
        ),
    ]
    investigation_runs: Annotated[int, Of("10", "N: configurations of the factor, the columns", low=2, high=MOST_RUNS)]
    mitigation_runs: Annotated[
        int | Auto,
        Of(
            "auto",
            "M: configurations of all other factors, the rows; auto is 20, design=radial: 100 base runs, and 320 "
            "at most where stop= may end it",
            low=2,
            high=MOST_RUNS,
        ),
    ]
    golden_runs: Annotated[
        int | Auto | Literal["pooled"],
        Of(
            "auto",
            "L: runs in which every factor varies; auto is N x M, pooled takes all other runs in their place",
            low=2,
            high=10 * MOST_RUNS,
        ),
    ]
    mitigation: Annotated[
        Names, Of("none", "reduced sets of mitigated factors: data_order:0, or name=sample_choice:0+3+7")
    ]
    missing: Annotated[Literal["anova", "reml"], Of("anova", "how a table that lacks cells is estimated")]
    root_seed: Annotated[int, SEED]
    metric: Annotated[
        Metric, Of("auto", "the metric whose spread is investigated; auto is f1_macro; of scores pearson")
    ]
    hyperparameters: Annotated[
        Settings,
        Of(
            "default",
            "`default`, `latest` (finished search) or a search's run id, `paper` (the authors' values, also of model, "
            "design, mitigation_runs and metric where these are auto), or a JSON file; "
            "name=value pairs, separated by commas, stand alone or after one of these and override it",
        ),
    ]


class Layout(TypedDict, total=False):
    """How cells are laid out, and when to stop."""

    design: Annotated[
        str | Auto,
        Of(
            "auto",
            "how cells are laid out; auto is crossed, the published way, for one factor; for several it is radial, "
            "which needs fewer trainings, or crossed if something that only tables have is asked for, see "
            "docs/designs.md",
            registered=True,
        ),
    ]
    joint: Annotated[Literal["paired", "product"], Of("paired", "columns of a+b: i-th with i-th, or every combination")]
    stop: Annotated[Literal["none", "interval", "epsilon"], Of("none", "the rule that stops early")]
    half_width: Annotated[
        float, Of("0.1", "stop=interval, plan: wanted half-width of the corrected score's interval", high=1)
    ]
    epsilon: Annotated[
        float, Of("0.01", "stop=epsilon: largest change by a row (percentage points, score) that counts as none")
    ]


class SelfTest(TypedDict, total=False):
    """Trial runs before the cells."""

    self_test: Annotated[
        Literal["auto", "run", "only", "skip"],
        Of(
            "auto",
            "try before the cells what each seed does, and stop where one does nothing or results do not repeat; auto "
            "does so for functions, commands and projects",
        ),
    ]


class Sizes(TypedDict, total=False):
    """How much data is used."""

    num_labelled: Annotated[
        int | Auto,
        Of("auto", "training examples that count as labelled; auto is 1000, fewer where data is small", low=2),
    ]
    test_size: Annotated[
        int | Auto, Of("auto", "test examples that are evaluated; auto is 1000, fewer where data is small", low=2)
    ]
    test_selection: Annotated[
        Literal["label_selection", "fixed"],
        Of("label_selection", "whether the factor label_selection draws test examples, too"),
    ]


class Columns(TypedDict, total=False):
    """How a file or data set is read."""

    text_column: Annotated[
        Names, Of("auto", "text column of a file or data set; two for sentence pairs, separated by a comma")
    ]
    label_column: Annotated[str, Of("label", "label column of a file or data set")]
    task_kind: Annotated[
        str,
        Of(
            "auto", "classification, regression, multiple_choice, generation, tagging or ranking; auto goes by the data"
        ),
    ]
    choice_columns: Annotated[Names, Of("auto", "columns of a multiple-choice file, separated by commas")]


class Shown(TypedDict, total=False):
    """What the report shows."""

    show_texts: Annotated[
        bool, Of("false", "whether the report shows texts of examples; else it names them by their ids, and votes")
    ]


class Place(TypedDict, total=False):
    """Where and how cells run: one for all cells of a study."""

    device: Annotated[str, Of("auto", "cpu, cuda, cuda:N, mps; auto takes an accelerator where there is one")]
    deterministic: Annotated[
        bool, Of("true", "false lets a GPU compute as it likes, which may be faster and never twice the same")
    ]
    executor: Annotated[str, Of("processes", "where cells run", registered=True)]
    workers: Annotated[int | Auto, Of("auto", "worker processes; auto is one a core (one a GPU)", low=1, high=10_000)]
    cell_timeout: Annotated[
        float | Literal["auto", "none"] | None,
        Of(
            "auto",
            "seconds that a cell may take; auto is 20 times the median of those that are done, 600 s or more; none",
        ),
    ]
    executor_options: Annotated[
        Settings,
        Of("none", 'what only this executor takes: name=value pairs separated by commas, or JSON: {"num_gpus": 0.5}'),
    ]


class _DryRun(TypedDict, total=False):
    dry_run: Annotated[
        bool, Of("false", "say what would be trained, what is done and how long it takes; train nothing")
    ]


DRY_RUN: Final = declared(_DryRun)
"""Of every verb that trains, on the command line and in MLproject; Python has a function for each."""
PLACE: Final = tuple(Place.__annotations__)
"""Where and how cells run: one for all cells of a study."""

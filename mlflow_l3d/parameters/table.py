"""The parameters of every verb, once: the command line, MLproject, Python and docs/parameters.md read them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.declaration import Auto, No, Parameters, declared
from mlflow_l3d.parameters.shared import (
    MOST_RUNS,
    PARENT,
    SEED,
    TASK,
    Approach,
    Columns,
    Layout,
    Metric,
    Place,
    Runs,
    SelfTest,
    Settings,
    Sizes,
    Task,
    Trained,
)

MOST_TRIALS: Final = 100_000
PLACE: Final = tuple(Place.__annotations__)
"""Where and how cells run: one for all cells of a study."""


class InvestigateOptions(Runs, Layout, SelfTest, Trained, Sizes, Columns, Place, total=False):
    """Of `investigate`, in addition to task and approach."""


class StrategiesOptions(Runs, SelfTest, Trained, Sizes, Columns, Place, total=False):
    """Of `strategies`, in addition to task and approach: those of `investigate` that all three strategies share."""


class _Search(TypedDict, total=False):
    metric: Annotated[Metric, Of("f1_macro", "what a trial is scored by, on the validation part")]
    hyperparameters: Annotated[
        Settings, Of("default", "what holds for all trials, and the first trial itself; forms as in main")
    ]
    space: Annotated[
        Settings,
        Of(
            "auto",
            "what is searched: auto, name=low..high, name=a|b|c or a name, separated by commas, or JSON (a file)",
        ),
    ]
    coarse_trials: Annotated[
        int | Auto, Of("auto", "trials of level 1; auto is the grid, and 40 at most", low=2, high=MOST_TRIALS)
    ]
    fine_trials: Annotated[
        int, Of("20", "trials of level 2, around the best of level 1; 0 leaves level 2 out", high=MOST_TRIALS)
    ]
    search_seeds: Annotated[
        int, Of("1", "configurations that a trial is trained on and averaged over", low=1, high=1000)
    ]
    coarse_sampler: Annotated[
        str, Of("auto", "level 1: auto (grid; a random part of it if it is large), or one of Optuna's")
    ]
    fine_sampler: Annotated[str, Of("auto", "level 2: auto (tpe), random, grid, or another sampler of Optuna's")]
    pruner: Annotated[
        str, Of("auto", "what ends poor trials early: auto (median), none, or another pruner of Optuna's")
    ]
    held_out_runs: Annotated[
        int,
        Of(
            "10",
            "configurations not searched on, on which the found setting and the given one are compared; 0 for none",
            high=100_000,
        ),
    ]
    root_seed: Annotated[
        int, replace(SEED, help="the number that the search's configurations and samplers are derived from")
    ]


class SearchOptions(_Search, Trained, Sizes, Columns, Place, total=False):
    """Of `search`, in addition to task and approach."""


class _SeedsTask(TypedDict, total=False):
    task: Annotated[
        str,
        replace(
            TASK,
            help="a task of GLUE or SuperGLUE by name, or a file with a column split: its own parts are used; another "
            "task is split once, as main splits it first",
        ),
    ]


class _Seeds(TypedDict, total=False):
    seeds: Annotated[
        int | str | Sequence[int],
        Of("10", "how many (42, 52, 62, ... as the papers'), or the seeds themselves, separated by commas"),
    ]
    metric: Annotated[
        Metric, Of("auto", "the metric in the headline; auto is the task's own (mcc for cola, pearson for stsb)")
    ]
    hyperparameters: Annotated[
        Settings,
        Of(
            "auto",
            "as in main; auto trains the whole model where the approach can (trainable=full; the packaged encoder with "
            "learning_rate=2e-4), and may be followed by name=value pairs",
        ),
    ]
    validation_fraction: Annotated[
        float,
        Of(
            "0",
            "share of the train part that is held out, for early stopping and the best epoch; 0: the last epoch counts",
            high=1,
            closed=True,
        ),
    ]
    num_labelled: Annotated[
        int | Auto, Of("auto", "training examples, drawn once from the task's train part; auto is all of them", low=2)
    ]
    test_size: Annotated[
        int | Auto, Of("auto", "evaluated examples, drawn once from its validation part; auto is all of them", low=2)
    ]
    root_seed: Annotated[int, replace(SEED, help="the number that these draws are derived from; the seeds are not")]


class SeedsOptions(_Seeds, SelfTest, Trained, Columns, Place, total=False):
    """Of `seeds`, in addition to task and approach."""


class EvaluateOptions(TypedDict, total=False):
    """Of `evaluate`."""

    parent_run_id: Annotated[
        str,
        replace(
            PARENT, help=f"{PARENT.help}; a sweep; several investigations or studies of seeds, separated by commas"
        ),
    ]
    where: Annotated[str, Of("none", "an MLflow filter that finds the cells, in place of the parent's children")]
    metric: Annotated[str, Of("auto", "the metric whose spread is investigated; auto is the parent's own, or f1_macro")]
    design: Annotated[str, Of("auto", "how cells are laid out; auto is the parent's own, or what their phases say")]
    missing: Annotated[Literal["auto", "anova", "reml"], Of("auto", "as in main; auto is the parent's own, or anova")]
    agreement: Annotated[
        str, Of("auto", "how predictions are compared: auto, regression, or a scoring function (rougeL, ...)")
    ]


class CompareOptions(TypedDict, total=False):
    """Of `compare`."""

    runs: Annotated[
        object,
        Of(
            "none",
            "parents, separated by commas; or a JSON list of objects with the parameters of main, which are then run",
        ),
    ]
    metric: Annotated[str, Of("auto", "what systems are scored by; auto is the parents' own")]
    smallest_effect: Annotated[
        float | No,
        Of(
            "none",
            "differences up to this (percentage points, or an error's unit) count for nothing: systems within it are "
            "called equivalent",
        ),
    ]
    level: Annotated[float, Of("0.95", "confidence level of intervals and claims", high=1)]
    self_check: Annotated[
        int,
        Of(
            "0",
            "A/A: how many comparisons of each system with itself, which say how often a claim is false; 0 for none",
            high=100_000,
        ),
    ]
    root_seed: Annotated[int, replace(SEED, help="the number that the halves of an A/A comparison are derived from")]


class PlanOptions(TypedDict, total=False):
    """Of `plan`, in addition to those of `investigate`."""

    pilot: Annotated[
        str,
        Of(
            "auto",
            "where cost and variances come from: auto (past runs of the same kind), a parent run's id, run, or none",
        ),
    ]
    assurance: Annotated[float, Of("0.8", "probability that the interval becomes as narrow as half_width", high=1)]
    budget: Annotated[
        object,
        Of(
            "none",
            "what may be spent on the mean score: 2h, 90m (of one worker), 500 cells or 10000 requests; "
            "says how many cells and test examples that is best for",
        ),
    ]


class SweepOptions(TypedDict, total=False):
    """Of `sweep`, in addition to those of `investigate`, which may be lists."""

    over: Annotated[
        str | Mapping[str, Any],
        Of("none", 'hyperparameters and their values as JSON: {"shots": [2, 4, 8], "prompt_format": ["A", "B"]}'),
    ]
    file: Annotated[str, Of("none", "a YAML or JSON file with the same, and with sets, exclusions and overrides")]
    budget: Annotated[
        object, Of("none", "the most that is computed: 2h, 90m, or 5000 cells; what is given again goes on")
    ]
    dry_run: Annotated[bool, Of("false", "say what there is to do, and start no run")]


class _Gate(TypedDict, total=False):
    baseline: Annotated[
        str, Of("latest", "the parent run to compare with; `latest` is the experiment's latest investigation")
    ]
    candidate: Annotated[
        Any,
        Of(
            "none",
            "what is compared with it: an investigation, or name=value of `main` where it differs from the baseline, "
            "separated by semicolons, or JSON of these",
        ),
    ]
    smallest_effect: Annotated[
        float, Of("1.0", "the smallest difference that matters (percentage points, score): a smaller one is equivalent")
    ]
    alpha: Annotated[float, Of("0.05", "probability of a false claim, over all looks", high=0.5)]
    power: Annotated[float, Of("0.8", "most_runs=auto: probability of the right answer that is planned for", high=1)]
    most_runs: Annotated[
        int | Auto,
        Of(
            "auto",
            "the budget: golden runs of either side; auto is what power takes, and 200 at most",
            low=5,
            high=MOST_RUNS,
        ),
    ]
    looks: Annotated[int, Of("5", "how often the runs so far are looked at, at most", low=1, high=50)]
    spending: Annotated[
        Literal["pocock", "obrien_fleming"], Of("pocock", "how alpha is spent over the looks: evenly, or late")
    ]
    examples: Annotated[
        Literal["fixed", "random"],
        Of("fixed", "what the answer is about: these test data, or new examples, too (random)"),
    ]
    metric: Annotated[str, Of("auto", "what is compared; auto is the baseline's own")]
    dry_run: Annotated[bool, Of("false", "say looks, bounds, power and cost, and start no run")]


class GateOptions(_Gate, Place, total=False):
    """Of `gate`."""


class AblationOptions(TypedDict, total=False):
    """Of `ablation`."""

    parent_run_id: Annotated[str, PARENT]
    metric: Annotated[str, Of("auto", "the metric whose spread is investigated; auto is the parent's own")]
    rows: Annotated[object, Of("auto", "numbers of rows (mitigation runs) to look at, separated by commas")]
    columns: Annotated[object, Of("auto", "numbers of columns (investigation runs) to look at, separated by commas")]
    test_sizes: Annotated[
        object, Of("auto", "numbers of test examples to look at, separated by commas; all is all of them")
    ]
    repeats: Annotated[int, Of("10", "how many random choices for each setting", low=1, high=10_000)]
    root_seed: Annotated[int, replace(SEED, help="the number that these choices are derived from")]


class ImportOptions(TypedDict, total=False):
    """Of `import`."""

    from_: Annotated[
        Literal["auto", "lm-eval", "inspect", "promptfoo", "csv", "huggingface-trainer"],
        Of("auto", "the tool that wrote the files (in Python `from_`); auto goes by the files"),
    ]
    task: Annotated[
        str, Of("auto", "the task that is imported; several, separated by commas, are variants with the same examples")
    ]
    metric: Annotated[
        str,
        Of(
            "auto",
            "what runs are scored by; auto is the first that the tool has; of inspect also a scorer, or scorer.key",
        ),
    ]
    task_kind: Annotated[
        Literal["auto", "classification", "regression", "multiple_choice", "generation", "tagging", "ranking"],
        Of("auto", "csv: what labels and predictions are; auto goes by them and says what it takes them for"),
    ]
    classes: Annotated[str, Of("auto", "csv: names of all classes, separated by |; auto takes those that occur")]
    only: Annotated[str, Of("none", "only runs with these settings: name=value pairs, separated by commas")]
    columns: Annotated[
        str, Of("none", "csv: which column is what, as example_id=id, prediction=answer, settings=seed+shots")
    ]


class _Imported(TypedDict):
    path: Annotated[str, Of("", "a file, or a folder that is searched for files")]


class _Deleted(TypedDict, total=False):
    parent_run_id: Annotated[
        str, replace(PARENT, default="none", help="the parent run that is deleted together with its children")
    ]


class _New(TypedDict):
    kind: Annotated[str, Of("", "what is written: approach")]
    name: Annotated[str, Of("", "what it is to be called: small letters, digits and underscores")]


MAIN: Final[Parameters] = declared(Task, Approach, InvestigateOptions)
"""Of the entry point `main`."""
SEARCH: Final[Parameters] = declared(Task, Approach, SearchOptions)
SEEDS: Final[Parameters] = declared(_SeedsTask, Approach, SeedsOptions)
EVALUATE: Final[Parameters] = declared(EvaluateOptions)
COMPARE: Final[Parameters] = declared(CompareOptions)
PLAN: Final[Parameters] = declared(Task, Approach, InvestigateOptions, PlanOptions)
SWEEP: Final[Parameters] = declared(Task, Approach, InvestigateOptions, SweepOptions)
"""Of the entry point `sweep`: those of `main`, which may be lists."""
GATE: Final[Parameters] = declared(GateOptions)
STRATEGIES: Final[Parameters] = declared(Task, Approach, StrategiesOptions)
ABLATION: Final[Parameters] = declared(AblationOptions)
IMPORT: Final[Parameters] = declared(ImportOptions)
IMPORTED: Final[Parameters] = declared(_Imported)
DELETE: Final[Parameters] = declared(_Deleted)
NEW: Final[Parameters] = declared(_New)

"""The parameters of `main`, once: the command line, MLproject and Python all read them from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an entry point: its default as typed, and one line of help."""

    default: str
    help: str


MAIN: Final[Mapping[str, Parameter]] = {
    "factor": Parameter(
        "data_order",
        "randomness factors to investigate: names separated by commas, or `all`; a+b investigates a and b jointly",
    ),
    "task": Parameter(
        "auto", "name of a task, a .csv, .parquet or .jsonl file, a data set folder, or hf:NAME[/CONFIG]"
    ),
    "approach": Parameter("finetuning", "what is trained: an entry point of the group mlflow_l3d.approaches"),
    "model": Parameter("auto", "hub id, folder, or package:NAME; auto is the approach's own default"),
    "design": Parameter(
        "crossed", "how cells are laid out: crossed (published), nested, radial, or a baseline: random, fixed"
    ),
    "investigation_runs": Parameter("10", "N: configurations of the investigated factor, the columns"),
    "mitigation_runs": Parameter(
        "auto", "M: configurations of all other factors, the rows; auto is 20, and 320 at most where stop= may end it"
    ),
    "golden_runs": Parameter(
        "auto", "L: runs in which every factor varies; auto is N x M, pooled takes all other runs in their place"
    ),
    "joint": Parameter("paired", "columns of a+b: paired (i-th with i-th) or product (every combination)"),
    "mitigation": Parameter(
        "none", "reduced sets of configurations of mitigated factors: data_order:0, or name=sample_choice:0+3+7"
    ),
    "stop": Parameter("none", "when to stop early: none, interval or epsilon"),
    "half_width": Parameter("0.1", "stop=interval, plan: wanted half-width of the interval of the corrected score"),
    "epsilon": Parameter(
        "0.01", "stop=epsilon: largest change by a row (percentage points, score) that counts as none"
    ),
    "missing": Parameter("drop", "rows with missing cells: drop leaves them out, reml estimates from every cell"),
    "root_seed": Parameter("0", "the number that every seed is derived from"),
    "metric": Parameter("f1_macro", "the metric whose spread is investigated"),
    "hyperparameters": Parameter(
        "default",
        "`default`, `latest` (finished search) or a search's run id, `paper` (the authors' values), or a JSON file; "
        "name=value pairs, separated by commas, stand alone or after one of these and override it",
    ),
    "num_labelled": Parameter(
        "auto", "training examples that count as labelled; auto is 1000, fewer where data is small"
    ),
    "test_size": Parameter("auto", "test examples that are evaluated; auto is 1000, fewer where data is small"),
    "test_selection": Parameter(
        "label_selection", "`label_selection` (the factor draws test examples, too) or `fixed`"
    ),
    "text_column": Parameter("auto", "text column of a file or data set; two for sentence pairs, separated by a comma"),
    "label_column": Parameter("label", "label column of a file or data set"),
    "device": Parameter("auto", "cpu, cuda, cuda:N, mps; auto takes an accelerator where there is one"),
    "executor": Parameter("processes", "where cells run: an entry point of the group mlflow_l3d.executors"),
    "workers": Parameter("auto", "worker processes; auto is one a core (one a GPU)"),
}
"""Parameters of the entry point `main`, in the order in which people read them."""

SEARCH: Final[Mapping[str, Parameter]] = {
    "task": MAIN["task"],
    "approach": MAIN["approach"],
    "model": MAIN["model"],
    "metric": Parameter("f1_macro", "what a trial is scored by, on the validation part"),
    "hyperparameters": Parameter(
        "default", "what holds for all trials, and the first trial itself; forms as in main, e.g. trainable=full"
    ),
    "space": Parameter(
        "auto",
        "what is searched: auto, name=low..high, name=a|b|c or a name alone, separated by commas, JSON, or a JSON file",
    ),
    "coarse_trials": Parameter("auto", "trials of level 1; auto is the grid of coarse values, and 40 at most"),
    "fine_trials": Parameter("20", "trials of level 2, around the best of level 1; 0 leaves level 2 out"),
    "search_seeds": Parameter("1", "configurations that each trial is trained on and averaged over; it costs as much"),
    "coarse_sampler": Parameter("auto", "level 1: auto (grid where it fits, else qmc), or any sampler of Optuna"),
    "fine_sampler": Parameter("auto", "level 2: auto (tpe), or any sampler of Optuna"),
    "pruner": Parameter("auto", "what ends poor trials early: auto (median), none, or any pruner of Optuna"),
    "storage": Parameter(
        "auto", "where Optuna keeps the studies: auto (a journal in the cache), a URL, or a .log file"
    ),
    "held_out_runs": Parameter(
        "10", "configurations not searched on, on which the found setting and the given one are compared; 0 for none"
    ),
    "root_seed": Parameter("0", "the number that the search's configurations and samplers are derived from"),
    **{
        name: MAIN[name]
        for name in (
            "num_labelled",
            "test_size",
            "test_selection",
            "text_column",
            "label_column",
            "device",
            "executor",
            "workers",
        )
    },
}
"""Parameters of the entry point `search`."""

SEEDS: Final[Mapping[str, Parameter]] = {
    "task": Parameter(
        "auto",
        "a task of GLUE or SuperGLUE by name, or a file with a column split: its own parts are used; another task is "
        "split once, as main splits it first",
    ),
    "approach": MAIN["approach"],
    "model": MAIN["model"],
    "seeds": Parameter("10", "how many (42, 52, 62, ... as the papers'), or the seeds themselves, separated by commas"),
    "metric": Parameter("auto", "the metric in the headline; auto is the task's own (mcc for cola, pearson for stsb)"),
    "hyperparameters": Parameter(
        "auto",
        "as in main; auto trains the whole model where the approach can (trainable=full; the packaged encoder with "
        "learning_rate=2e-4), and may be followed by name=value pairs",
    ),
    "validation_fraction": Parameter(
        "0", "share of the train part that is held out, for early stopping and the best epoch; 0: the last epoch counts"
    ),
    "num_labelled": Parameter("auto", "training examples, drawn once from the task's train part; auto is all of them"),
    "test_size": Parameter("auto", "evaluated examples, drawn once from its validation part; auto is all of them"),
    "root_seed": Parameter("0", "the number that these draws are derived from; the seeds are not"),
    "task_kind": Parameter("auto", "classification, regression or multiple_choice; auto goes by the data"),
    "choice_columns": Parameter("auto", "columns of a multiple-choice file, separated by commas"),
    **{name: MAIN[name] for name in ("text_column", "label_column", "device", "executor", "workers")},
}
"""Parameters of the entry point `seeds`."""

EVALUATE: Final[Mapping[str, Parameter]] = {
    "parent_run_id": Parameter(
        "latest",
        "the parent run; `latest` is the experiment's latest investigation; several seed studies, separated by commas",
    ),
    "where": Parameter("none", "an MLflow filter that finds the cells, in place of the parent's children"),
    "metric": Parameter("auto", "the metric whose spread is investigated; auto is the parent's own, or f1_macro"),
    "design": Parameter(
        "auto", "how cells are laid out; auto is the parent's own, or what the phases of the cells say"
    ),
    "missing": Parameter("auto", "drop or reml, as in main; auto is the parent's own, or drop"),
    "agreement": Parameter(
        "auto", "how predictions are compared: auto, regression, or a scoring function such as rougeL or squad_f1"
    ),
}
"""Parameters of the entry point `evaluate`."""

PLAN: Final[Mapping[str, Parameter]] = {
    **MAIN,
    "pilot": Parameter(
        "auto", "where cost and variances come from: auto (past runs of the same kind), a parent run's id, run, or none"
    ),
}
"""Parameters of the entry point `plan`: those of `main`, and the pilot."""

STRATEGIES: Final[Mapping[str, Parameter]] = {
    name: parameter
    for name, parameter in MAIN.items()
    if name not in {"design", "stop", "half_width", "epsilon", "joint"}
}
"""Parameters of the entry point `strategies`: those of `main` that all three strategies share."""

ABLATION: Final[Mapping[str, Parameter]] = {
    "parent_run_id": Parameter("latest", "the parent run; `latest` is the experiment's latest investigation"),
    "metric": Parameter("auto", "the metric whose spread is investigated; auto is the parent's own"),
    "rows": Parameter("auto", "numbers of rows (mitigation runs) to look at, separated by commas"),
    "columns": Parameter("auto", "numbers of columns (investigation runs) to look at, separated by commas"),
    "test_sizes": Parameter("auto", "numbers of test examples to look at, separated by commas; all is all of them"),
    "repeats": Parameter("10", "how many random choices of rows, columns and examples for each setting"),
    "root_seed": Parameter("0", "the number that these choices are derived from"),
}
"""Parameters of the entry point `ablation`."""

DELETE: Final[Mapping[str, Parameter]] = {
    "parent_run_id": Parameter("none", "the parent run that is deleted together with its children"),
}
"""Parameters of `mlflow-l3d delete`."""

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
    "hyperparameters": Parameter("default", "`default`, a JSON file, or inline name=value pairs separated by commas"),
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

EVALUATE: Final[Mapping[str, Parameter]] = {
    "parent_run_id": Parameter("latest", "the parent run; `latest` is the experiment's latest investigation"),
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

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
        "data_order", "randomness factors to investigate: one name, several separated by commas, or `all`"
    ),
    "task": Parameter(
        "auto", "name of a task, a .csv, .parquet or .jsonl file, a data set folder, or hf:NAME[/CONFIG]"
    ),
    "approach": Parameter("finetuning", "what is trained: an entry point of the group mlflow_l3d.approaches"),
    "model": Parameter("auto", "hub id, folder, or package:NAME; auto is the approach's own default"),
    "design": Parameter("crossed", "how cells are laid out"),
    "investigation_runs": Parameter("10", "N: configurations of the investigated factor, the columns"),
    "mitigation_runs": Parameter("20", "M: configurations of all other factors, the rows"),
    "golden_runs": Parameter("auto", "L: runs in which every factor varies; auto is N x M"),
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
}
"""Parameters of the entry point `evaluate`."""

DELETE: Final[Mapping[str, Parameter]] = {
    "parent_run_id": Parameter("none", "the parent run that is deleted together with its children"),
}
"""Parameters of `mlflow-l3d delete`."""

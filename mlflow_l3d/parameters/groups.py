"""The groups in which `--help` shows parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.approaches.own_parameters import OWN_PARAMETERS

GROUP_OF: Final[Mapping[str, str]] = {
    name: group
    for group, names in {
        "what is studied": "factor task approach model hyperparameters metric parent_run_id runs where",
        "cells and when to stop": "design investigation_runs mitigation_runs golden_runs joint mitigation stop "
        "half_width epsilon self_test missing root_seed",
        "data": "num_labelled test_size test_selection text_column label_column task_kind choice_columns "
        "validation_fraction",
        "where it runs": "device deterministic executor workers cell_timeout executor_options",
    }.items()
    for name in names.split()
} | dict.fromkeys(OWN_PARAMETERS, "what is studied")
"""Parameter -> the group that `--help` shows it in; the others are those that a verb has of its own."""

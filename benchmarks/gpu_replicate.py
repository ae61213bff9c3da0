"""What deterministic algorithms cost on a GPU, and how far results move without them.

The packaged encoder is trained on 400 passages of boolq. `L3D_DATA` names the folder with the data set.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _common import machine, table

RECIPES: dict[str, dict[str, Any]] = {
    "whole model, float32": {"trainable": "full", "epochs": 3, "max_length": 256, "dtype": "float32"},
    "whole model, bfloat16": {"trainable": "full", "epochs": 3, "max_length": 256, "dtype": "bfloat16"},
    "head": {"trainable": "head", "epochs": 20, "max_length": 256},
}


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--labels", type=int, default=400)
    options = parser.parse_args()
    if "L3D_DATA" not in os.environ:
        parser.error("L3D_DATA must name the folder with the data sets")
    print(f"# The same cell {options.runs} times on {options.device}\n\n{machine()}\n", flush=True)
    task = _task(options.labels)
    rows = []
    for name, recipe in RECIPES.items():
        # cuBLAS keeps its workspace once it is asked for one, so the side without comes first.
        sides = {
            "not deterministic": lambda recipe=recipe: _trained(task, recipe, options, deterministic=False),
            "deterministic": lambda recipe=recipe: _trained(task, recipe, options, deterministic=True),
        }
        first: Any = None
        for side, run in sides.items():
            try:
                found = run()
            except Exception as error:  # noqa: BLE001 - the other sides are still worth their time
                print(f"{name}, {side}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
                continue
            first = found[0] if side == "deterministic" or first is None else first
            scores = [100 * float(np.mean(own.predictions == own.labels)) for own in found]
            moved = [int(np.sum(own.predictions != first.predictions)) for own in found]
            furthest = max(float(np.abs(own.scores - first.scores).max()) for own in found)
            alike = len({own.scores.tobytes() for own in found})
            seconds = statistics.median(own.duration_seconds for own in found[1:])
            rows.append([name, side, f"{seconds:.2f}", alike, max(moved), f"{furthest:.1e}", f"{np.ptp(scores):.2f}"])
            print(rows[-1], flush=True)
    headers = ["training", "side", "seconds a run", "different results", "predictions that differ, of 280"]
    print(table([*headers, "scores differ by", "range of accuracy, points"], rows))


def _task(labels: int) -> Any:
    import pandas as pd

    from mlflow_l3d.tasks.base import Task
    from mlflow_l3d.tasks.settings import SplitSettings

    whole = pd.read_parquet(Path(os.environ["L3D_DATA"]) / "boolq.parquet")
    some = whole[whole["split"] == "train"].iloc[:3000]
    settings = SplitSettings(num_labelled=labels, test_size=280)
    names = tuple(str(name) for name in sorted(some["label"].unique()))
    texts = (tuple(some["passage"]), tuple(some["question"]))
    return Task("boolq", texts, some["label"].to_numpy(np.int64), names, np.arange(len(some)), settings, "benchmark")


def _trained(task: Any, recipe: dict[str, Any], options: Any, *, deterministic: bool = True) -> Any:
    """Return the outcomes of one cell, trained so often."""
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.finetuning import Finetuning
    from mlflow_l3d.cells.cell import Cell
    from mlflow_l3d.cells.factors import configuration_seed
    from mlflow_l3d.execution.base import Job
    from mlflow_l3d.execution.inline import InlineExecutor

    approach = Finetuning()
    seeds = {factor: configuration_seed(7, factor, 0) for factor in approach.factors}
    cells = [Cell("golden", None, None, None, run, {}, seeds, f"run {run}") for run in range(options.runs)]
    complete = approach.complete(resolve_hyperparameters(approach, recipe))
    with tempfile.TemporaryDirectory() as cache:
        model = approach.default_model
        job = Job(approach, task, complete, model, options.device, Path(cache), deterministic)
        outcomes = list(InlineExecutor(job=job).run(cells))
    if wrong := [own.error for own in outcomes if own.error]:
        raise RuntimeError(wrong[0])
    return outcomes


if __name__ == "__main__":
    main()

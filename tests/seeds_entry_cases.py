"""An approach whose predictions are known, and small tasks with parts of their own; run as a script it is a study."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.settings import Split

FACTORS = ("model_initialisation", "data_order")


def _parts(size: int) -> npt.NDArray[np.int64]:
    """40 of 100 for training, 50 for validation, the rest for the test part, which is never looked at."""
    return np.repeat([0, 1, 2], [size * 4 // 10, size // 2, size - size * 4 // 10 - size // 2]).astype(np.int64)


def class_task(name: str = "toy", size: int = 100) -> Task:
    texts = [f"one text of the toy, {at}" for at in range(size)]
    return make_task(name, [texts], np.arange(size) % 2, ("no", "yes"), parts=_parts(size))


def number_task(size: int = 80) -> Task:
    texts = [[f"text {at}" for at in range(size)] for _ in range(2)]
    return make_task("numbers", texts, np.linspace(0.0, 5.0, size)[::-1].copy(), kind="regression", parts=_parts(size))


def choice_task(size: int = 60) -> Task:
    columns = [[f"choice {at} of {column}" for at in range(size)] for column in range(2)]
    premises = [[f"premise {at}" for at in range(size)]]
    return make_task(
        "choices", premises, np.arange(size) % 2, kind="multiple_choice", choices=columns, parts=_parts(size)
    )


def right(task: Task) -> npt.NDArray[Any]:
    """Return the labels of the evaluated examples."""
    return task.labels[task.parts == 1]


def guessed(task: Task, seed: int) -> npt.NDArray[Any]:
    """Return what is predicted for the evaluated examples: one in five is wrong, drawn from the seed."""
    labels = right(task)
    generator = stream(seed, "guess")
    if task.kind == "regression":
        return labels + generator.normal(0.0, 0.5, len(labels))
    return np.where(generator.random(len(labels)) < 0.2, 1 - labels, labels)


def predict(
    task: Task, split: Split, seeds: Mapping[str, int], hyperparameters: Mapping[str, Value]
) -> npt.NDArray[Any]:
    """Predict, and leave a trace; the seeds in the file `broken` fail."""
    del hyperparameters
    folder = Path(os.environ["L3D_CACHE"])
    with (folder / "trainings").open("a") as trace:
        trace.write("1\n")
    seed = seeds["model_initialisation"]
    if (folder / "broken").is_file() and str(seed) in (folder / "broken").read_text().split():
        msg = "this seed is broken"
        raise RuntimeError(msg)
    time.sleep(float(os.environ.get("SECONDS_A_SEED", "0")))
    found = guessed(task, seed)
    if task.settings.test_size is not None:
        found = np.zeros(len(split.test), dtype=np.int64)
    return found


def trainings(cache: Path) -> int:
    """Return how many trainings there were."""
    return len((cache / "trainings").read_text().split())


def by_class() -> FunctionApproach:
    return FunctionApproach(predict, name="guess", version="1", factors=FACTORS)


def by_number() -> FunctionApproach:
    return FunctionApproach(predict, name="guess", version="1", factors=FACTORS, task_kinds=["regression"])


def by_choice() -> FunctionApproach:
    return FunctionApproach(predict, name="guess", version="1", factors=FACTORS, task_kinds=["multiple_choice"])


if __name__ == "__main__":
    from mlflow_l3d.studies.seeds.run import seeds

    os.environ["SECONDS_A_SEED"] = "0.3"
    seeds(approach=by_class(), task=class_task(), seeds=sys.argv[1], executor="inline")

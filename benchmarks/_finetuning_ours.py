"""Our side of the fine-tuning benchmark: all seeds, in worker processes with one thread each."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _common import answer, settings_of_child
from _finetuning_cases import MODEL, cell, load, recipe


def main() -> None:
    """Train the cells of all seeds, or one cell whose first weights and order the baseline is given."""
    settings = settings_of_child()
    answer(settings, _one(settings) if settings.get("save") else _all(settings))


def _all(settings: Mapping[str, Any]) -> dict[str, Any]:
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.finetuning import Finetuning
    from mlflow_l3d.execution.base import Job
    from mlflow_l3d.execution.processes import ProcessExecutor

    approach = Finetuning()
    task, cache = load(settings), Path("cache")
    hyperparameters = approach.complete(resolve_hyperparameters(approach, recipe(settings)))
    job = Job(approach, task, hyperparameters, MODEL, "cpu", cache)
    seconds, predictions = {}, {}
    for outcome in ProcessExecutor(job=job, workers=settings["workers"]).run(map(cell, settings["seeds"])):
        if outcome.predictions is None:
            raise SystemExit(outcome.traceback)
        seconds[outcome.key] = outcome.duration_seconds
        predictions[outcome.key] = outcome.predictions.tolist()
    wall = time.perf_counter() - settings["spawned"]
    own, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime
    labels = task.labels[task.parts == 1].tolist()
    return {"wall": wall, "cpu": cpu, "cells": seconds, "predictions": predictions, "labels": labels}


def _one(settings: Mapping[str, Any]) -> dict[str, Any]:
    import numpy as np

    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.finetuning import Finetuning
    from mlflow_l3d.approaches.finetuning.training import batch_order
    from mlflow_l3d.approaches.numerics import one_thread

    approach, task = Finetuning(), load(settings)
    hyperparameters = approach.complete(resolve_hyperparameters(approach, recipe(settings)))
    session: Any = approach.prepare(task, hyperparameters, model=MODEL, device="cpu", cache=Path("cache"))
    chosen = cell(settings["seeds"][0])
    split = task.split(chosen.seeds)
    session._start(chosen.seeds["model_initialisation"])
    session.model.save_pretrained(settings["save"])
    with one_thread():
        (logits,) = session.train([session.draw(chosen)])
    orders = [
        np.flatnonzero(task.parts == 0).tolist().index(int(row))
        for epoch in range(settings["epochs"])
        for row in split.train[batch_order(chosen.seeds["data_order"], epoch, len(split.train))]
    ]
    return {"logits": logits.tolist(), "orders": [orders]}


if __name__ == "__main__":
    main()

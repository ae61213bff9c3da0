"""What people do today: MLflow's fluent calls in line with the training, in a process of their own."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from _common import answer, settings_of_child, tree_cpu_seconds


def main() -> None:
    """Train and log this process's share of the cells."""
    settings = settings_of_child()
    began = time.perf_counter()
    import mlflow

    mlflow_imported = time.perf_counter()
    import _work
    from _probe import Clock

    from mlflow_l3d.execution.base import Job
    from mlflow_l3d.execution.outcomes import run_cell
    from mlflow_l3d.studies.investigation.request import specify

    arguments = _work.investigation(settings)
    task, approach = arguments.pop("task"), arguments.pop("approach")
    request = specify(arguments, approach=approach, task=task)
    job = Job(approach, request.setup.task, request.setup.hyperparameters, "", "cpu", Path("cache"))
    cells = list(islice(request.design().cells(), settings["share"], None, settings["shares"]))
    clocks = {name: Clock() for name in ("start and end", "tags", "params", "metrics", "table")}
    training = Clock()
    start_run, set_tags = clocks["start and end"].around(mlflow.start_run), clocks["tags"].around(mlflow.set_tags)
    log_params, log_metrics = clocks["params"].around(mlflow.log_params), clocks["metrics"].around(mlflow.log_metrics)
    end_run, log_table = clocks["start and end"].around(mlflow.end_run), clocks["table"].around(mlflow.log_table)
    train = training.around(run_cell)

    own_start = time.perf_counter()
    mlflow.set_experiment(settings["experiment"])
    with (
        mlflow.start_run(run_name="parent") as parent,
        closing(approach.prepare(request.setup.task, request.setup.hyperparameters, **_NOTHING)) as session,
    ):
        opened = time.perf_counter() - own_start
        _line_up(settings)
        server_cpu = tree_cpu_seconds(settings.get("server"))
        cpu, start = time.process_time(), time.perf_counter()
        for cell in cells:
            start_run(run_name=cell.name, nested=True)
            set_tags(_tags(cell))
            log_params(_params(cell, request))
            outcome = train(session, cell, job)
            log_metrics({**outcome.metrics, "duration_seconds": outcome.duration_seconds})
            log_table(
                {"example_id": outcome.example_ids, "label": outcome.labels, "prediction": outcome.predictions},
                "predictions.json",
            )
            end_run()
        end, cpu = time.perf_counter(), time.process_time() - cpu
        server_cpu = tree_cpu_seconds(settings.get("server")) - server_cpu
    _check(mlflow.MlflowClient(), parent, len(cells))
    answer(
        settings,
        {
            "begin": start,
            "end": end,
            "start": {
                "interpreter": began - settings["spawned"],
                "imports": mlflow_imported - began,
                "experiment and parent": opened,
            },
            "training": training.wall,
            "logging_cpu": cpu - training.cpu,
            "server_cpu": server_cpu,
            "parts": {name: clock.wall / len(cells) for name, clock in clocks.items()},
            "cells": len(cells),
        },
    )


_NOTHING: dict[str, Any] = {"model": "", "device": "cpu", "cache": Path("cache")}


def _tags(cell: Any) -> dict[str, str]:
    place = {"l3d.row": cell.row, "l3d.column": cell.column, "l3d.factor": cell.factor, "l3d.index": cell.index}
    return {
        "l3d.role": "cell",
        "l3d.schema": "1",
        "l3d.phase": cell.phase,
        "l3d.cell_key": cell.key,
        "l3d.context_key": "0" * 32,
        **{name: str(value) for name, value in place.items() if value is not None},
    }


def _params(cell: Any, request: Any) -> dict[str, object]:
    return {
        **{f"factor.{name}": number for name, number in cell.configurations.items()},
        **{f"seed.{name}": seed for name, seed in cell.seeds.items()},
        "task": request.setup.task.name,
        "approach": request.setup.approach.name,
        "model": "none",
        **request.setup.hyperparameters,
    }


def _line_up(settings: dict[str, Any]) -> None:
    """Wait until the other process, where there is one, is as far as this one."""
    Path(f"ready-{settings['share']}").touch()
    while not all(Path(f"ready-{share}").exists() for share in range(settings["shares"])):
        time.sleep(0.005)


def _check(client: Any, parent: Any, cells: int) -> None:
    """Fail where the baseline did not log what it should have: a quick baseline must not be an empty one."""
    condition = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}' and attributes.status = 'FINISHED'"
    found = len(client.search_runs([parent.info.experiment_id], condition, max_results=10_000))
    if found != cells:
        msg = f"the baseline logged {found} of {cells} cells"
        raise SystemExit(msg)


if __name__ == "__main__":
    main()

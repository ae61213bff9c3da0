"""One process of sweep_reading.py: it makes parents, reads points, evaluates the sweep, or reads children."""

from __future__ import annotations

import sys
import time
from typing import Any

from _common import FOLDER, answer, settings_of_child

ROWS, COLUMNS, GOLDEN, FACTORS = 10, 10, 100, ("data_order", "sample_choice", "label_selection")
CELLS = ROWS * COLUMNS * len(FACTORS) + GOLDEN
"""Cells of one point."""


def make(parents: int) -> dict[str, Any]:
    """Write parents with what an investigation leaves on them that is read."""
    sys.path.insert(0, str(FOLDER.parent / "tests"))
    from mlflow import MlflowClient
    from sweep_cases import drawn_point

    from mlflow_l3d.report.source import About
    from mlflow_l3d.studies.files import temporary_folder, write_result
    from mlflow_l3d.studies.investigation.results import Evaluation
    from mlflow_l3d.tracking import names
    from mlflow_l3d.tracking.parent import log_params

    client = MlflowClient()
    top = client.create_run("0", tags={names.ROLE: "sweep"}).info.run_id
    places = [{"shots": shots, "prompt_format": form} for shots in range(1, parents // 5 + 1) for form in "ABCDE"]
    made = []
    shares = dict.fromkeys(FACTORS, (0.5, 0.3, 0.2))
    for at, choices in enumerate(places):
        point = drawn_point(choices, shares, rows=ROWS, columns=COLUMNS, golden=GOLDEN, seed=at)
        tags = {names.ROLE: "investigation", names.PARENT_RUN_ID: top, names.INVESTIGATION_KEY: f"key{at}"}
        run_id = client.create_run("0", tags=tags).info.run_id
        own = {f"choice.{name}": str(value) for name, value in choices.items()}
        log_params(
            client, run_id, {**own, "task": "sst2", **{f"hyperparameter.h{n}": "1" for n in range(30)}}, known=()
        )
        assert point.analysis is not None
        with temporary_folder() as folder:
            write_result(folder, Evaluation(run_id=run_id, analysis=point.analysis, about=About(title="t")))
            client.log_artifacts(run_id, str(folder))
        made.append(run_id)
    return {"top": top, "parents": made}


def work(settings: dict[str, Any]) -> dict[str, Any]:
    """Do what one process is started for."""
    import psutil

    if settings["kind"] == "make":
        return make(settings["parents"])
    from mlflow import MlflowClient

    import mlflow_l3d
    from mlflow_l3d.studies.sweep.results import points_of_sweep
    from mlflow_l3d.tracking.children import children_of

    client, process = MlflowClient(), psutil.Process()
    client.search_runs(["0"], max_results=1)  # the store is open
    before, started = process.memory_info().rss, time.perf_counter()
    if settings["kind"] == "read":
        points, _ = points_of_sweep(client, settings["top"])
        assert all(point.complete for point in points)
    elif settings["kind"] == "evaluate":
        mlflow_l3d.evaluate(settings["top"])
    else:
        for parent in settings["parents"]:
            for _ in children_of(client, "0", parent):
                pass
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "grown": process.memory_info().rss - before}


if __name__ == "__main__":
    given = settings_of_child()
    answer(given, work(given))

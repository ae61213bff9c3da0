"""One import, in a process of its own."""

from __future__ import annotations

import time
from typing import Any

from _common import answer, settings_of_child


def work(settings: dict[str, Any]) -> dict[str, Any]:
    """Import a folder; return wall clock and CPU time of that alone, and the CPU time of the start."""
    from mlflow import MlflowClient

    import mlflow_l3d

    MlflowClient().search_runs(["0"], max_results=1)  # the store is open
    begun, started = time.process_time(), time.perf_counter()
    imported = mlflow_l3d.evaluate(settings["logs"], from_="lm-eval")
    assert not imported.problems
    return {"seconds": time.perf_counter() - started, "cpu": time.process_time() - begun, "start": begun}


if __name__ == "__main__":
    given = settings_of_child()
    answer(given, work(given))

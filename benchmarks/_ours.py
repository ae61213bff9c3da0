"""One investigation in a process of its own, with clocks around its parts; started by the other benchmarks.

Worker processes import this file, too: nothing heavy at its top.
"""

from __future__ import annotations

import statistics
import time
from itertools import islice
from typing import TYPE_CHECKING

from _common import answer, settings_of_child, tree_cpu_seconds

if TYPE_CHECKING:
    from mlflow_l3d.studies.investigation.request import InvestigationRequest


def main() -> None:
    """Carry out the investigation of the settings, then its cells once more without a recorder."""
    settings = settings_of_child()
    began = time.perf_counter()
    from _probe import Probe
    from _work import investigation

    import mlflow_l3d

    probe = Probe()
    probe.install()
    arguments = investigation(settings)
    probe.mark("imported")
    server_cpu = tree_cpu_seconds(settings.get("server"))
    result = mlflow_l3d.investigate(**arguments)
    server_cpu = tree_cpu_seconds(settings.get("server")) - server_cpu
    probe.mark("end")
    probe.active = False
    workers = settings["workers"]
    trained = [took for _, took in probe.arrivals]
    cells = len(trained)
    pure, round_trip = statistics.mean(trained), 0.0
    if settings.get("pure_cells"):
        pure, round_trip = _without_recorder(result.request, settings["pure_cells"], workers)
    steady = probe.steady(pure, workers)
    moments = {name: wall for name, (wall, _) in probe.marks.items()}
    cpu = {name: seconds for name, (_, seconds) in probe.marks.items()}
    clocks = probe.clocks
    answer(
        settings,
        {
            "start": {
                "interpreter": began - settings["spawned"],
                "imports": moments["imported"] - began,
                "request": moments["specified"] - moments["imported"],
                "recorder": moments["opened"] - moments["specified"],
                "workers": probe.window() - moments["opened"],
            },
            "steady": steady,
            "conclusion": moments["concluded"] - moments["logged"],
            "wall": moments["end"] - settings["spawned"],
            "pure": pure,
            "training": sum(trained),
            "added": (steady["wall"] - steady["ideal"]) / max(1, steady["cells"]),
            "parts": {
                "plan": clocks["plan"].wall / cells,
                "executor, without recorder": round_trip,
                "executor, CPU": (clocks["dispatch"].cpu - clocks["plan"].cpu) / cells,
                "spool write": clocks["spool"].wall / cells,
                "parent's metrics": (clocks["monitor"].wall + clocks["parent metrics"].wall) / cells,
                "upload": clocks["upload"].wall / cells,
                "upload, CPU": clocks["upload"].cpu / cells,
            },
            "most_pending": probe.most_pending,
            "main_cpu": (cpu["logged"] - cpu["first outcome"]) / max(1, cells - 1),
            "logging_cpu": cpu["logged"] - cpu["first outcome"],
            "start_cpu": cpu["first outcome"],
            "conclusion_cpu": cpu["concluded"] - cpu["logged"],
            "server_cpu": server_cpu / cells,
            "cells": cells,
            "f1_macro": float(result.cells["f1_macro"].mean()),
        },
    )


def _without_recorder(request: InvestigationRequest, count: int, workers: int) -> tuple[float, float]:
    """Run cells through the same executor and drop what comes out.

    Returns
    -------
    tuple
        Mean seconds that a cell trains; seconds a cell that the executor takes beyond the training.
    """
    from mlflow_l3d.studies.base import executor_of

    cells = islice(request.design().cells(), count)
    outcomes = executor_of(request.setup).run(cells)
    arrivals = [(time.perf_counter(), outcome.duration_seconds) for outcome in outcomes]
    # The first ones are left out: workers are not ready at the same time.
    first, later = arrivals[2 * workers - 1][0], arrivals[2 * workers :]
    trained = statistics.mean(took for _, took in later)
    return trained, (arrivals[-1][0] - first) / len(later) - trained / workers


if __name__ == "__main__":
    main()

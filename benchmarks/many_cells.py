"""What the work beside the training takes where there are many cells: time and memory of each command.

The synthetic approach with the executor `inline` on SQLite: nothing is trained. Half of the cells are golden runs, each
with a test set of its own. Every command is a fresh process on the same store.
"""

from __future__ import annotations

import argparse
import shutil
from typing import Any

from _common import answer, empty_store, machine, table, workplace

MEBI = 1 << 20
COMMANDS = ("investigate", "the same again", "evaluate", "ablation")


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, nargs="*", default=[2000], help="multiples of 20, at least 40")
    parser.add_argument("--test-size", type=int, default=1000, help="predictions a cell, at most 4,000")
    options = parser.parse_args()
    print("# Many cells\n")
    print(machine(), end="\n\n", flush=True)
    rows = []
    with workplace() as place:
        template, _ = empty_store(place)
        for cells in options.cells:
            folder = place.new_folder(f"cells-{cells}")
            shutil.copyfile(template, folder / "mlflow.db")
            uri = f"sqlite:///{folder / 'mlflow.db'}"
            for command in COMMANDS:
                settings = {"command": command, "cells": cells, "test_size": options.test_size}
                run = place.start("many_cells.py", settings, folder, MLFLOW_TRACKING_URI=uri).wait()
                rows.append([f"{cells:,}", command, run["seconds"], run["conclusion"], run["cpu"], run["peak"] / MEBI])
            shutil.rmtree(folder)
    print(f"{options.test_size:,} predictions a cell.\n")
    print(table(["cells", "command", "seconds", "of these the conclusion", "CPU seconds", "peak, MiB"], rows))


def work(settings: dict[str, Any]) -> dict[str, Any]:
    """Carry out one command; its time includes imports."""
    import time

    from _memory_run import peak

    started = time.perf_counter()
    import mlflow_l3d
    from mlflow_l3d.studies.investigation.run import InvestigationStudy
    from mlflow_l3d.tasks.sources.packaged import generate

    conclude, conclusions = InvestigationStudy.conclude, [0.0]

    def timed(*arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        found = conclude(*arguments, **named)
        conclusions.append(time.perf_counter() - begun)
        return found

    InvestigationStudy.conclude = timed  # type: ignore[method-assign]
    if settings["command"] == "evaluate":
        mlflow_l3d.evaluate()
    elif settings["command"] == "ablation":
        mlflow_l3d.ablation()
    else:
        mlflow_l3d.investigate(
            approach="synthetic",
            task=generate(5000),
            executor="inline",
            factor="data_order",
            test_size=settings["test_size"],
            investigation_runs=10,
            mitigation_runs=settings["cells"] // 20,
            golden_runs=settings["cells"] // 2,
        )
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "conclusion": conclusions[-1], "cpu": time.process_time(), "peak": peak()}


if __name__ == "__main__":
    import sys

    if sys.argv[1:] and sys.argv[1].startswith("{"):
        from _common import settings_of_child

        given = settings_of_child()
        answer(given, work(given))
    else:
        main()

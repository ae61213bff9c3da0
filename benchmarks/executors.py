"""What executors add to a cell: CPU of the whole process tree beside that of the same cells inline.

The synthetic approach, which takes almost nothing, 100 predictions a cell, two workers. Counted is from the 500th
outcome to the last one; processes that only start are not. Ray listens on every network interface that there is, so it
runs in a network namespace of its own, where `unshare` can make one.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

from _common import answer, machine, settings_of_child, table, tree_cpu_seconds, workplace

WARM = 500


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--executors", nargs="*", default=["processes", "submitit", "ray"])
    parser.add_argument("--in-namespace", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cells <= WARM:
        parser.error(f"--cells {options.cells}: must be above {WARM}, which are not measured")
    if "ray" in options.executors and not options.in_namespace:
        command = namespace([sys.executable, *sys.argv, "--in-namespace"])
        if find_spec("ray") and command:
            raise SystemExit(subprocess.call(command))
        print("Without ray: it is not installed, or no network namespace can be made here.\n")
        options.executors.remove("ray")
    print("# Executors\n")
    print(machine(), end="\n\n", flush=True)
    rows: list[list[object]] = []
    with workplace() as place:
        for executor in ("inline", *options.executors):
            folder = place.new_folder(executor)
            run = place.start("executors.py", {"executor": executor, "cells": options.cells}, folder).wait()
            each = {name: 1e3 * run[name] / (options.cells - WARM) for name in ("seconds", "cpu")}
            rows.append([executor, each["seconds"], each["cpu"], *([each["cpu"] - rows[0][2]] if rows else ["", ""])])
            if len(rows) > 1:
                rows[-1].append(f"{rows[-1][3] / rows[1][3]:.2f}")
    print(f"{options.cells:,} cells.\n")
    print(table(["executor", "ms a cell", "CPU ms a cell", "added CPU ms a cell", "of processes"], rows))


def namespace(command: list[str]) -> list[str]:
    """Return the command as one in a network namespace that has nothing but loopback; empty where none can be made."""
    script = 'ip link set lo up && exec "$@"'
    for options in (["-n"], ["-rn"]):
        whole = ["unshare", *options, "sh", "-c", script, "sh"]
        if shutil.which("unshare") and subprocess.run([*whole, "true"], capture_output=True).returncode == 0:
            return [*whole, *command]
    return []


def work(settings: dict[str, Any]) -> dict[str, Any]:
    """Run the cells in one executor."""
    import os
    import time
    from pathlib import Path

    from mlflow_l3d import registry
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.synthetic import FACTORS, Synthetic
    from mlflow_l3d.execution.base import Job
    from mlflow_l3d.tasks.sources.packaged import generate
    from mlflow_l3d.testing import design_cells

    approach = Synthetic()
    cache = Path("cache").absolute()
    cache.mkdir()
    job = Job(approach, generate(400, 2), resolve_hyperparameters(approach, {}), "", "cpu", cache)
    name = settings["executor"]
    options = {"options": {"cluster": "local", "folder": str(cache)}} if name == "submitit" else {}
    executor = registry.load("executor", name)(job=job, workers=1 if name == "inline" else 2, **options)
    for done, _ in enumerate(executor.run(design_cells(FACTORS, settings["cells"])), start=1):
        if done == WARM:
            started, before = time.perf_counter(), tree_cpu_seconds(os.getpid())
        if done == settings["cells"]:
            found = {"seconds": time.perf_counter() - started, "cpu": tree_cpu_seconds(os.getpid()) - before}
    return found


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        given = settings_of_child()
        answer(given, work(given))
    else:
        main()

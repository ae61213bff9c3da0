"""Whether the memory of an investigation grows with its cells, and what grows.

The synthetic approach with the executor `inline`: no training, one process. Once with every cell uploaded to SQLite,
once with uploads discarded, which allows more cells, and once traced, to name the lines that hold memory.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _common import Workplace, empty_store, machine, table, workplace

MEBI = 1 << 20


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, nargs="*", default=[200, 1000], help="multiples of 20; uploaded")
    parser.add_argument(
        "--discarded", type=int, nargs="*", default=[200, 1000, 5000], help="multiples of 20; uploads discarded"
    )
    parser.add_argument("--traced", type=int, nargs="*", default=[100, 400], help="two numbers of cells, or none")
    parser.add_argument("--test-size", type=int, default=400, help="predictions a cell, at most 400")
    options = parser.parse_args()
    for count in (*options.cells, *options.discarded, *options.traced):
        if count < 40 or count % 20:
            parser.error(f"{count} cells: must be a multiple of 20, at least 40")
    if len(options.traced) not in {0, 2}:
        parser.error("--traced: must be two numbers, or none")
    print("# Memory\n")
    print(machine(), end="\n\n", flush=True)
    with workplace() as place:
        template, _ = empty_store(place)

        def measure(cells: int, kind: str, trace: bool = False) -> dict[str, Any]:
            settings = {"cells": cells, "upload": kind == "uploaded", "trace": trace, "test_size": options.test_size}
            return _measure(place, template, f"{kind}-{cells}{'-traced' * trace}", settings)

        results = [("uploaded", measure(count, "uploaded")) for count in options.cells]
        results += [("discarded", measure(count, "discarded")) for count in options.discarded]
        traced = [measure(count, "uploaded", trace=True) for count in options.traced]
    print(f"{options.test_size} predictions a cell. Resident mebibytes of the one process.\n")
    rows = [
        [kind, run["cells"], *(run[name] / MEBI for name in ("opened", "trained", "peak")), run["seconds"]]
        for kind, run in results
    ]
    print(table(["cells are", "cells", "recorder opened", "all trained", "peak", "seconds"], rows), end="\n\n")
    for kind in ("uploaded", "discarded"):
        runs = [run for name, run in results if name == kind]
        if len(runs) > 1:
            trained, peak = (_slope(runs, name) for name in ("trained", "peak"))
            print(f"Slope, {kind}: {trained:,.0f} bytes a cell after training, {peak:,.0f} at the peak.\n")
    if traced:
        _print_traced(traced)


def _measure(place: Workplace, template: Path, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    folder = place.new_folder(name)
    shutil.copyfile(template, folder / "mlflow.db")
    environment = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}", "MLFLOW_EXPERIMENT_NAME": name}
    result = place.start("_memory_run.py", settings, folder, **environment).wait()
    shutil.rmtree(folder)
    return result


def _slope(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return bytes a cell, by least squares."""
    return float(np.polyfit([run["cells"] for run in runs], [run[name] for run in runs], 1)[0])


def _print_traced(runs: Sequence[Mapping[str, Any]]) -> None:
    few, many = runs
    more = many["cells"] - few["cells"]
    print(f"## What grows: bytes a cell held by Python, from {few['cells']} to {many['cells']} cells\n")
    for moment in ("held after training", "held in the conclusion"):
        grown = {line: (size - few[moment].get(line, 0)) / more for line, size in many[moment].items()}
        rows = [[f"`{line}`", size] for line, size in sorted(grown.items(), key=lambda item: -item[1])[:8] if size > 1]
        print(table([moment, "bytes a cell"], [*rows, ["all lines", sum(grown.values())]]), end="\n\n")
    rows = [[f"`{name}`", (size - few["steps"][name]) / more] for name, size in many["steps"].items()]
    print(table(["peak of each step of the conclusion", "bytes a cell"], rows))


if __name__ == "__main__":
    main()

"""What a sweep costs beside the training of its cells, and beside a separate command for each of its points.

Both sides run the command line in fresh processes, on a store of their own, and compute the same cells. *Ratio* is the
wall clock of everything, start of the process and reports included, over the sum of the training times that the cells
of that side have recorded, divided by the workers. Changing the point is timed in a process of its own: the seconds
until the first session is prepared, and until that of each further point is. Where features of an encoder are kept, the
sweep runs a second time, on a new store with these features: the texts of a task are encoded once on a machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _common import Workplace, empty_store, machine, table, workplace

GOAL = 1.1


@dataclass(frozen=True)
class Case:
    """What is swept: parameters of every point, and hyperparameters with their values."""

    name: str
    parameters: Mapping[str, Any]
    over: Mapping[str, Sequence[Any]]
    cells: int


def cases(options: argparse.Namespace) -> dict[str, Case]:
    """Return the cases by name."""

    def sizes(cells: int) -> dict[str, Any]:
        return {"investigation_runs": 5, "mitigation_runs": cells // 10, "workers": options.workers}

    synthetic = {
        "approach": "synthetic",
        "metric": "synthetic_score",
        "hyperparameters": f"spin={options.milliseconds:g}",
    }
    icl = {"approach": "icl", "num_labelled": 100, "test_size": options.tests}
    return {
        "synthetic": Case(
            "synthetic",
            {**synthetic, **sizes(options.cells)},
            {"noise": [0, 0.1, 0.2], "a_data_order": [0, 1, 4.5, 9]},
            options.cells,
        ),
        "head": Case(
            "head on the packaged encoder",
            {"approach": "finetuning", **sizes(options.cells)},
            {"learning_rate": [1e-4, 3e-4, 1e-3], "epochs": [3, 5, 7, 10]},
            options.cells,
        ),
        "icl": Case(
            "in-context learning, SmolLM2-135M",
            {**icl, **sizes(options.icl_cells)},
            {"shots": [1, 2, 4], "prompt_format": ["A", "B", "C", "D"]},
            options.icl_cells,
        ),
    }


def main() -> None:
    """Run the benchmark and print it."""
    options = _options()
    print("# What a sweep costs\n")
    print(machine(), end="\n\n", flush=True)
    rows: list[list[object]] = []
    changes: list[list[object]] = []
    with workplace() as place:
        template, _ = empty_store(place)
        for name in options.cases:
            case = cases(options)[name]
            rows += _measure(place, template, case, options)
            found = place.start("_sweep_jobs.py", _swept(case), _folder(place, template, f"{name}-jobs")).wait()
            alone, first, *others = found["alone"], *found["prepared"]
            changes.append([case.name, alone, first, 1000 * statistics.median(others), 1000 * max(others)])
    print(table(["case", "side", "cells", "training", "wall clock", "ratio", "goal"], rows), end="\n\n")
    print(f"12 points, {options.workers} worker(s); seconds, training divided by the workers.\n")
    header = ["case", "a point alone, s", "first point, s", "further points, ms (median)", "most, ms"]
    print("## Until the session of a point is prepared\n")
    print(table(header, changes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--cases", nargs="+", choices=["synthetic", "head", "icl"], default=["synthetic", "head", "icl"]
    )
    parser.add_argument("--cells", type=int, default=200, help="cells a point, a multiple of 10 above 10")
    parser.add_argument("--icl-cells", type=int, default=20, help="the same of in-context learning")
    parser.add_argument("--tests", type=int, default=30, help="test examples of in-context learning")
    parser.add_argument("--milliseconds", type=float, default=100.0, help="training of a synthetic cell")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--without-separate", action="store_true", help="leave the 12 separate commands out")
    return parser.parse_args()


def _swept(case: Case) -> dict[str, Any]:
    return {**case.parameters, "over": json.dumps(case.over)}


def _measure(place: Workplace, template: Path, case: Case, options: argparse.Namespace) -> list[list[object]]:
    """Return the rows of one case."""
    folder = _folder(place, template, f"{case.name}-sweep")
    sides = [("sweep", _run(place, folder, [("sweep", _swept(case))]), _trained(folder))]
    if (features := folder / "cache" / "features").is_dir():
        again = _folder(place, template, f"{case.name}-encoded")
        shutil.copytree(features, again / "cache" / "features")
        sides.append(("sweep, texts encoded before", _run(place, again, [("sweep", _swept(case))]), _trained(again)))
    if not options.without_separate:
        folder = _folder(place, template, f"{case.name}-separate")
        base = str(case.parameters.get("hyperparameters", "default"))
        commands = []
        for values in _product(case.over):
            own = ",".join(f"{name}={value}" for name, value in values.items())
            given = own if base == "default" else f"{base},{own}"
            commands.append(("investigate", {**case.parameters, "hyperparameters": given}))
        sides.append(("12 commands", _run(place, folder, commands), _trained(folder)))
    return [
        [case.name, side, cells, seconds / options.workers, wall, f"{wall / seconds * options.workers:.3f}", GOAL]
        for side, wall, (cells, seconds) in sides
    ]


def _product(over: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}]
    for name, values in over.items():
        found = [{**known, name: value} for known in found for value in values]
    return found


def _folder(place: Workplace, template: Path, name: str) -> Path:
    folder = place.new_folder("".join(letter if letter.isalnum() else "-" for letter in name))
    shutil.copyfile(template, folder / "mlflow.db")
    return folder


def _run(place: Workplace, folder: Path, commands: Sequence[tuple[str, Mapping[str, Any]]]) -> float:
    """Run the commands one after the other; return the seconds of all."""
    uri = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}", "MLFLOW_EXPERIMENT_NAME": "benchmark"}
    environment = {**place.environment, "L3D_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", **uri}
    seconds = 0.0
    for verb, parameters in commands:
        options = [f"--{name.replace('_', '-')}={value}" for name, value in parameters.items()]
        command = [sys.executable, "-W", "ignore", "-m", "mlflow_l3d", verb, *options]
        started = time.perf_counter()
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        seconds += time.perf_counter() - started
        if done.returncode:
            raise SystemExit(done.stderr[-3000:])
    return seconds


def _trained(folder: Path) -> tuple[int, float]:
    """Return how many cells the store holds, and the sum of their training times."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
        query = "SELECT COUNT(*), SUM(value) FROM latest_metrics WHERE key = 'duration_seconds'"
        cells, seconds = connection.execute(query).fetchone()
    return int(cells), float(seconds)


if __name__ == "__main__":
    main()

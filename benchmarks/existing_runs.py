"""Time and memory to group runs that exist already: 10,000 runs that nobody logged with this package, in SQLite.

The runs are written into the store's tables directly. Each has 20 parameters (`--params`), of which 6 vary, and 6
metrics with 3 steps. `last` reads no history, `best` reads that of one metric. Every command is a fresh process.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from _common import answer, empty_store, machine, table, workplace

MEBI = 1 << 20
METRICS = ("eval_accuracy", "eval_f1", "eval_loss", "train_accuracy", "train_loss", "epoch")
VARYING = 6


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, nargs="*", default=[10_000])
    parser.add_argument("--params", type=int, default=20, help="of each run, at least 6")
    options = parser.parse_args()
    print("# Runs that exist\n")
    print(machine(), end="\n\n", flush=True)
    rows = []
    with workplace() as place:
        template, _ = empty_store(place)
        for runs in options.runs:
            folder = place.new_folder(f"runs-{runs}")
            shutil.copyfile(template, folder / "mlflow.db")
            fill(folder, runs, options.params - VARYING)
            uri = f"sqlite:///{folder / 'mlflow.db'}"
            for shape, step in (("grid", "last"), ("grid", "best"), ("search", "last")):
                settings = {"source": f"experiment:{shape}", "step": step}
                run = place.start("existing_runs.py", settings, folder, MLFLOW_TRACKING_URI=uri).wait()
                rows.append([f"{runs:,}", shape, step, run["groups"], run["seconds"], run["cpu"], run["peak"] / MEBI])
            shutil.rmtree(folder)
    print("grid: five seeds of each setting. search: every run has a learning rate of its own.\n")
    print(table(["runs", "experiment", "step", "groups", "seconds", "CPU seconds", "peak, MiB"], rows))


def fill(folder: Path, runs: int, constant: int) -> None:
    """Write two experiments of so many runs into the tables of a store."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as store, store:
        for experiment, shape in enumerate(("grid", "search"), 101):
            columns = "experiment_id, name, artifact_location, lifecycle_stage, creation_time, last_update_time"
            values = (experiment, shape, (folder / shape).as_uri(), "active", 0, 0)
            store.execute(f"INSERT INTO experiments ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values)
            for number in range(runs):
                add_run(store, experiment, f"{experiment:08x}{number:024x}", number, shape, constant)


def add_run(store: sqlite3.Connection, experiment: int, run_id: str, number: int, shape: str, constant: int) -> None:
    """Write one run."""
    draw = random.Random(f"{shape}{number}")
    columns = "run_uuid, name, status, start_time, end_time, lifecycle_stage, artifact_uri, experiment_id, user_id"
    row = (
        run_id,
        f"run-{number}",
        "FINISHED",
        number,
        number + 1,
        "active",
        f"file:///nowhere/{run_id}",
        experiment,
        "me",
    )
    store.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    store.executemany(
        "INSERT INTO params (key, value, run_uuid) VALUES (?, ?, ?)",
        [*params(run_id, number, shape, draw), *((f"config_{name}", "the same", run_id) for name in range(constant))],
    )
    for name in METRICS:
        values = [0.8 + number // 5 % 7 / 100 + draw.gauss(0, 0.01) for _ in range(3)]
        points = [(name, value, 0, run_id, step) for step, value in enumerate(values)]
        store.executemany(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)", points
        )
        store.execute(
            "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, 0, 2, 0, ?)",
            (name, values[-1], run_id),
        )


def params(run_id: str, number: int, shape: str, draw: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield the parameters of one run that vary."""
    setting = number // 5
    rate = draw.uniform(0, 1) if shape == "search" else 10.0 ** -(setting % 5)
    varying = {"seed": number % 5, "learning_rate": rate, "layers": setting // 5 % 5, "warmup": setting // 25 % 5}
    varying |= {"dropout": setting // 125 % 16 / 20, "output_dir": f"/out/{number}"}
    yield from ((name, str(value), run_id) for name, value in varying.items())


def work(settings: dict[str, Any]) -> dict[str, Any]:
    """Evaluate one experiment; its time includes imports."""
    import time

    from _memory_run import peak

    started = time.perf_counter()
    from mlflow_l3d.studies.groups.run import evaluate_groups

    result = evaluate_groups(settings["source"], step=settings["step"])
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "cpu": time.process_time(), "peak": peak(), "groups": len(result.groups)}


if __name__ == "__main__":
    import sys

    if sys.argv[1:] and sys.argv[1].startswith("{"):
        from _common import settings_of_child

        given = settings_of_child()
        answer(given, work(given))
    else:
        main()

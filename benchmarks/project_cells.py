"""What a cell of ``approach=project`` costs beside its process: ours and ``bash -c`` in turn, and ``mlflow run``.

python benchmarks/project_cells.py [--cells 50] [--mlflow-runs 3]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from mlflow_l3d.approaches.base import Session, resolve_hyperparameters
from mlflow_l3d.approaches.project.approach import Project
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.testing import one_cell

MLPROJECT = """
entry_points:
  main:
    parameters: {seed: int}
    command: "python -SE train.py {seed}"
"""
SCRIPT = """
import os, sqlite3
tables = sqlite3.connect(os.environ["MLFLOW_TRACKING_URI"].removeprefix("sqlite:///"))
run = os.environ["MLFLOW_RUN_ID"]
tables.execute("INSERT INTO metrics VALUES ('rmse', 0.5, 0, ?, 0, 0)", (run,))
tables.execute("INSERT INTO latest_metrics VALUES ('rmse', 0.5, 0, 0, 0, ?)", (run,))
tables.commit()
"""
"""A project that logs one metric without importing MLflow, so that little else is measured."""


def main() -> None:
    """Time all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=50)
    parser.add_argument("--mlflow-runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "MLproject").write_text(MLPROJECT)
        (folder / "train.py").write_text(SCRIPT)
        approach = Project(name, project_parameters="seed={seed}", metric="rmse")
        hyperparameters = resolve_hyperparameters(approach, {"classes": "none"})
        task = approach.own_task(hyperparameters, folder)
        session = approach.prepare(task, hyperparameters, model="", device="cpu", cache=folder)
        given = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{name}/mlflow.db"}
        mlflow_run = [sys.executable, "-m", "mlflow", "run", name, "--env-manager", "local", "-P", "seed=1"]
        theirs = [taken(partial(call, mlflow_run, given)) for _ in range(1 + options.mlflow_runs)][1:]
        ours, alone = [], []
        for number in range(1 + options.cells):
            ours.append(taken(partial(run, session, one_cell(approach.factors, number))))
            environment = {**given, "MLFLOW_RUN_ID": str(number)}
            alone.append(taken(partial(call, ["bash", "-c", f"cd {name} && python -SE train.py 1"], environment)))
    milliseconds = [1000 * median(each) for each in (ours[1:], alone[1:], theirs)]
    print("approach=project {:.1f} ms a cell, bash {:.1f} ms, mlflow run {:.0f} ms".format(*milliseconds))
    print(f"added: {milliseconds[0] - milliseconds[1]:.1f} ms (medians of {options.cells}, {options.mlflow_runs})")


def taken(work: Callable[[], None]) -> float:
    """Return the seconds of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def call(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a process."""
    subprocess.run(words, env=dict(environment), check=True, capture_output=True)


def run(session: Session, cell: Cell) -> None:
    """Run a cell."""
    (outcome,) = session.run([cell])
    assert outcome.error is None, outcome.error


if __name__ == "__main__":
    main()

"""Time to read the points of a sweep back from SQLite, and the memory that it takes.

Parents with their documents as an investigation leaves them, and children as rows of MLflow's own tables (10 tags, 20
parameters and 6 metrics each). Each reading is a fresh process. Beside it stands what reading the children would take:
`search_runs` over the children of the first ten parents.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from _common import Workplace, empty_store, machine, table, workplace
from _sweep_reading import CELLS

MEBI = 1 << 20


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parents", type=int, nargs="*", default=[10, 100], help="numbers of points, multiples of 5")
    options = parser.parse_args()
    if any(parents < 5 or parents % 5 for parents in options.parents):
        parser.error(f"--parents {options.parents}: must be multiples of 5")
    print("# Reading a sweep\n")
    print(machine(), end="\n\n", flush=True)
    rows = []
    with workplace() as place:
        template, _ = empty_store(place)
        for parents in options.parents:
            folder = place.new_folder(f"store-{parents}")
            shutil.copyfile(template, folder / "mlflow.db")
            uri = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
            made = _child(place, folder, uri, kind="make", parents=parents)
            _add_children(folder / "mlflow.db", made["parents"])
            found = _child(place, folder, uri, kind="read", top=made["top"])
            whole = _child(place, folder, uri, kind="evaluate", top=made["top"])
            other = _child(place, folder, uri, kind="children", parents=made["parents"][:10])
            rows.append(
                [
                    f"{parents:,}",
                    f"{parents * CELLS:,}",
                    found["seconds"],
                    found["grown"] / MEBI,
                    whole["seconds"],
                    other["seconds"] / len(made["parents"][:10]) * parents,
                ]
            )
    head = (
        "parents",
        "cells",
        "read, s",
        "memory it takes, MiB",
        "evaluate: read, test, write all, s",
        "children alone, s",
    )
    print(table(head, rows))


def _child(place: Workplace, folder: Path, environment: dict[str, str], **settings: Any) -> dict[str, Any]:
    return place.start("_sweep_reading.py", settings, folder, **environment).wait()


def _add_children(database: Path, parents: list[str]) -> None:
    """Add the cells of every parent as MLflow's tables hold them."""
    with sqlite3.connect(database) as store:
        columns = [row[1] for row in store.execute("pragma table_info(runs)")]
        model = dict(zip(columns, store.execute("select * from runs limit 1").fetchone(), strict=True))
        for at, parent in enumerate(parents):
            runs, tags, params, metrics = [], [], [], []
            for cell in range(CELLS):
                run_id = f"{at:08x}{cell:024x}"
                own = {"run_uuid": run_id, "name": f"cell {cell}", "status": "FINISHED"}
                runs.append(tuple({**model, **own}.values()))
                tags += [("mlflow.parentRunId", parent, run_id), ("l3d.role", "cell", run_id)]
                tags += [(f"l3d.tag{number}", "0123456789abcdef", run_id) for number in range(8)]
                params += [(f"factor.f{number}", "1000000", run_id) for number in range(20)]
                metrics += [(f"m{number}", 0.8, 1, 0, 0, run_id) for number in range(6)]
            store.executemany(f"insert into runs values ({','.join('?' * len(columns))})", runs)
            store.executemany("insert into tags (key, value, run_uuid) values (?,?,?)", tags)
            store.executemany("insert into params (key, value, run_uuid) values (?,?,?)", params)
            names = "key, value, timestamp, step, is_nan, run_uuid"
            store.executemany(f"insert into latest_metrics ({names}) values (?,?,?,?,?,?)", metrics)


if __name__ == "__main__":
    main()

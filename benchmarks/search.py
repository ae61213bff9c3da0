"""What a trial of a search costs beside its training: ours, plain `study.optimize`, and that with MLflow's fluent runs.

All three search the same space (18 settings of a grid, then TPE around the best of them) with the same pruner, the
same reports after each epoch and a journal file, and train the same thing. Added time = (wall - training / workers) /
trials, of both levels together, from the first trial on, the start of workers included; ours until MLflow holds the
last trial. CPU is what all processes used, without that of the training. Each measurement is a fresh process, and the
sides take turns.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections import defaultdict
from typing import Any

from _common import Workplace, empty_store, machine, spread, table, workplace

GOAL = 1.2
SIDES = {"ours": "ours, with MLflow", "plain": "study.optimize, no MLflow", "fluent": "study.optimize and fluent runs"}


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="1 is inline, more are processes")
    parser.add_argument("--kinds", nargs="+", choices=["spin", "sleep"], default=["spin"], help="what an epoch does")
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES), help="plain must be among them")
    parser.add_argument("--milliseconds", type=float, default=40.0, help="of one of 5 epochs")
    parser.add_argument("--fine-trials", type=int, default=18)
    parser.add_argument("--repeats", type=int, default=3, help="how often each side is measured")
    options = parser.parse_args()
    if "plain" not in options.sides:
        parser.error("--sides must have plain: it is what the others are compared with")
    if min(*options.workers, options.repeats) < 1 or options.fine_trials < 0 or options.milliseconds < 0:
        parser.error("--workers and --repeats must be positive, the others not negative")
    print("# What a trial of a search costs beside its training\n")
    print(machine(), end="\n\n", flush=True)
    rows = []
    with workplace() as place:
        template, _ = empty_store(place)
        for workers in options.workers:
            for kind in options.kinds:
                settings = {"milliseconds": options.milliseconds, "fine_trials": options.fine_trials, "kind": kind}
                found = _measure(place, template, {**settings, "workers": workers}, options.sides, options.repeats)
                rows += _rows(f"{workers} worker{'s' * (workers > 1)}, {kind}", found)
    print(table(["line", "side", "added ms a trial", "times plain", "CPU ms a trial", "trials", "pruned"], rows))
    print(f"\n{options.repeats} repeats in turn; median (least to most). Goal: at most {GOAL} times plain.")


def _measure(
    place: Workplace, template: Any, settings: dict[str, Any], chosen: list[str], repeats: int
) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in range(repeats):
        first = number % len(chosen)
        for side in chosen[first:] + chosen[:first]:
            folder = place.new_folder(f"{settings['workers']}-{settings['kind']}-{side}-{number}")
            shutil.copyfile(template, folder / "mlflow.db")
            uri = f"sqlite:///{folder / 'mlflow.db'}"
            child = place.start("_search_run.py", {**settings, "side": side}, folder, MLFLOW_TRACKING_URI=uri)
            found[side].append(child.wait())
    return found


def _rows(line: str, found: dict[str, list[dict[str, Any]]]) -> list[list[object]]:
    plain = statistics.median(each["wall"] for each in found["plain"])
    return [
        [
            line,
            SIDES[side],
            spread([1000 * each["wall"] for each in each_side]),
            f"{statistics.median(each['wall'] for each in each_side) / plain:.2f}",
            spread([1000 * each["cpu"] for each in each_side]),
            each_side[-1]["trials"],
            each_side[-1]["pruned"],
        ]
        for side, each_side in found.items()
    ]


if __name__ == "__main__":
    main()

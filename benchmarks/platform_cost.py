"""What the platform adds to the wall clock of a cell, beside MLflow's fluent calls in line with the training.

Both sides train the same cells with the same function and log the same content: tags, parameters, metrics, and 1,000
predictions a cell. Added time = (wall - cells x pure training / workers) / cells, from when the workers are at work
until the store holds the last cell. Each measurement is a fresh process, and the sides take turns.

Not called platform.py: a script's folder comes first among the places where Python looks for modules, and MLflow
imports the standard library's `platform`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _common import Workplace, empty_store, machine, spread, table, tracking_server, workplace

GOALS = {"sqlite": 3, "server": 8}
COLUMNS = 5


@dataclass
class Line:
    """One line of the table: what is repeated, and what came out on each side."""

    store: str
    workers: int
    training: str
    ours: list[dict[str, Any]] = field(default_factory=list)
    fluent: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return what the line is called."""
        return f"{self.store}, {self.workers} worker{'s' * (self.workers > 1)}, {self.training}"


def main() -> None:
    """Run the benchmark and print it."""
    options = _options()
    print("# What the platform adds to a cell\n")
    print(machine(), end="\n\n", flush=True)
    lines = [
        Line(store, int(workers), training)
        for store in options.stores
        for workers, _, training in (line.partition(":") for line in options.lines)
    ]
    with workplace() as place:
        template, seconds = empty_store(place)
        settings: dict[str, Any] = {"milliseconds": options.milliseconds, "examples": options.examples}
        if any(line.training == "work" for line in lines):
            from _work import calibrate

            settings["iterations"] = calibrate(options.milliseconds)
        for store in options.stores:
            chosen = [line for line in lines if line.store == store]
            if store == "server":
                with tracking_server(place, template) as (uri, pid):
                    _fluent(place, Line(store, 4, "spin"), {**settings, "milliseconds": 0}, 20, uri, pid, template)
                    _measure(place, chosen, settings, options, uri, pid, template)
            else:
                _measure(place, chosen, settings, options, None, None, template)
    print(f"{options.cells} cells a run of {options.milliseconds:g} ms and 1,000 predictions each, ", end="")
    print(f"{options.repeats} repeats in turn; median (least to most). Creating and migrating an SQLite store ", end="")
    print(f"({seconds:.1f} s) is part of no number: both sides get a copy of an empty one.\n")
    _print(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stores", nargs="+", choices=list(GOALS), default=["sqlite"], help="where runs are logged")
    parser.add_argument("--cells", type=int, default=60, help="cells a run, a multiple of 10")
    parser.add_argument("--repeats", type=int, default=2, help="how often each side is measured")
    parser.add_argument("--milliseconds", type=float, default=100.0, help="training of a cell")
    parser.add_argument("--examples", type=int, default=6000, help="size of the task; a sixth is evaluated")
    parser.add_argument(
        "--lines",
        nargs="+",
        metavar="WORKERS:TRAINING",
        default=["1:spin", "2:spin", "2:work"],
        help="TRAINING is spin (busy until a time) or work (busy a number of times: misses a core that logging takes)",
    )
    options = parser.parse_args()
    if options.cells < 20 or options.cells % 10:
        parser.error("--cells must be a multiple of 10, at least 20")
    for line in options.lines:
        workers, _, training = line.partition(":")
        if not workers.isdigit() or int(workers) < 1 or training not in {"spin", "work"}:
            parser.error(f"--lines {line}: must be a number of workers, a colon, and spin or work")
    return options


def _measure(
    place: Workplace,
    lines: Sequence[Line],
    settings: Mapping[str, Any],
    options: argparse.Namespace,
    uri: str | None,
    pid: int | None,
    template: Path,
) -> None:
    for repeat in range(options.repeats):
        for number, line in enumerate(lines):
            # Another seed, other cells: none is found on the server from an earlier line or repeat.
            chosen = {**settings, "repeat": repeat, "seed": 1000 * repeat + number}
            line.ours.append(_ours(place, line, chosen, options.cells, uri, pid, template))
            line.fluent.append(_fluent(place, line, chosen, options.cells, uri, pid, template))


def _settings(line: Line, settings: Mapping[str, Any], cells: int, pid: int | None) -> dict[str, Any]:
    rows = cells // (2 * COLUMNS)
    return {
        **settings,
        "training": line.training,
        "workers": line.workers,
        "server": pid,
        "parameters": {
            "factor": "data_order",
            "investigation_runs": COLUMNS,
            "mitigation_runs": rows,
            "test_size": settings["examples"] // 6,
            "workers": line.workers,
            "root_seed": settings.get("seed", 0),
        },
    }


def _ours(
    place: Workplace,
    line: Line,
    settings: Mapping[str, Any],
    cells: int,
    uri: str | None,
    pid: int | None,
    template: Path,
) -> dict[str, Any]:
    folder, environment = _folder(place, f"ours-{line.name}-{settings['repeat']}", uri, template)
    content = {**_settings(line, settings, cells, pid), "pure_cells": max(20, cells // 2)}
    return place.start("_ours.py", content, folder, **environment).wait()


def _fluent(
    place: Workplace,
    line: Line,
    settings: Mapping[str, Any],
    cells: int,
    uri: str | None,
    pid: int | None,
    template: Path,
) -> dict[str, Any]:
    """Run the baseline in as many processes as there are workers; join what they say."""
    folder, environment = _folder(place, f"fluent-{line.name}-{settings.get('repeat', 'warm-up')}", uri, template)
    content = {**_settings(line, settings, cells, pid), "shares": line.workers, "experiment": folder.name}
    children = [
        place.start("_fluent.py", {**content, "share": share}, folder, **environment) for share in range(line.workers)
    ]
    results = [child.wait() for child in children]
    wall = max(result["end"] for result in results) - min(result["begin"] for result in results)
    trained = sum(result["training"] for result in results)
    return {
        "added": (wall - trained / line.workers) / cells,
        "pure": trained / cells,
        "start": {name: max(result["start"][name] for result in results) for name in results[0]["start"]},
        "main_cpu": sum(result["logging_cpu"] for result in results) / cells,
        "server_cpu": max(result["server_cpu"] for result in results) / cells,
        "parts": {name: statistics.mean(result["parts"][name] for result in results) for name in results[0]["parts"]},
        "conclusion": 0.0,
    }


def _folder(place: Workplace, name: str, uri: str | None, template: Path) -> tuple[Path, dict[str, str]]:
    folder = place.new_folder("".join(letter if letter.isalnum() else "-" for letter in name))
    if uri is None:
        shutil.copyfile(template, folder / "mlflow.db")
        uri = f"sqlite:///{folder / 'mlflow.db'}"
    return folder, {"MLFLOW_TRACKING_URI": uri, "MLFLOW_EXPERIMENT_NAME": folder.name}


def _print(lines: Sequence[Line]) -> None:
    rows: list[list[object]] = []
    for line in lines:
        ours, fluent = ([1000 * result["added"] for result in side] for side in (line.ours, line.fluent))
        rows.append([line.name, spread(ours), spread(fluent), _ratio(ours, fluent), f"{GOALS[line.store]}x"])
    print("## Added to a cell, milliseconds of wall clock\n")
    print(table(["store, workers, training", "ours", "fluent", "fluent / ours", "goal"], rows), end="\n\n")
    print(
        "Fluent with 2 workers is two processes side by side. `spin` does not miss a core that logging takes, ", end=""
    )
    print("`work` does.\n")
    print("## CPU of logging, milliseconds a cell (all that is not training; the server's own apart)\n")
    rows = [
        [line.name, *(_median(side, name) for name in ("main_cpu", "server_cpu") for side in (line.ours, line.fluent))]
        for line in lines
    ]
    print(table(["", "ours", "fluent", "server, ours", "server, fluent"], rows), end="\n\n")
    print("## Ours by cause, milliseconds of wall clock a cell\n")
    causes = ("slower training", "idle workers", "last uploads")
    rows = [
        [
            line.name,
            1000 * statistics.median(result["pure"] for result in line.ours),
            *(
                1000 * statistics.median(result["steady"][cause] / result["steady"]["cells"] for result in line.ours)
                for cause in causes
            ),
        ]
        for line in lines
    ]
    print(table(["", "training alone", *causes], rows), end="\n\n")
    for title, side in (("Ours", "ours"), ("Fluent", "fluent")):
        print(f"## {title} by part, milliseconds a cell\n")
        names = list(getattr(lines[0], side)[0]["parts"])
        rows = [[line.name, *(_median(getattr(line, side), name, "parts") for name in names)] for line in lines]
        print(table(["", *names], rows), end="\n\n")
    print(
        "Uploads run beside the training, in 2 threads on SQLite and 8 on a server; they keep up where few cells wait."
    )
    waited = (f"{line.name}: {max(result['most_pending'] for result in line.ours)}" for line in lines)
    print(f"Most that waited or were under way: {'; '.join(waited)}.\n")
    print("## Start and conclusion, seconds (in no number above)\n")
    rows = [[line.name, side, _start(results), *_ends(results)] for line in lines for side, results in _sides(line)]
    print(table(["", "side", "start", "of which", "conclusion (report)"], rows))


def _sides(line: Line) -> tuple[tuple[str, list[dict[str, Any]]], ...]:
    return ("ours", line.ours), ("fluent", line.fluent)


def _start(results: Sequence[Mapping[str, Any]]) -> str:
    return spread([sum(result["start"].values()) for result in results])


def _ends(results: Sequence[Mapping[str, Any]]) -> list[object]:
    names = results[0]["start"]
    parts = (f"{name} {statistics.median(result['start'][name] for result in results):.1f}" for name in names)
    return [", ".join(parts), spread([result["conclusion"] for result in results])]


def _median(results: Sequence[Mapping[str, Any]], name: str, group: str | None = None) -> float:
    """Return milliseconds."""
    return 1000.0 * statistics.median(float((result if group is None else result[group])[name]) for result in results)


def _ratio(ours: Sequence[float], fluent: Sequence[float]) -> str:
    """Return the ratio of the medians; where ours is lost in the noise, only a bound."""
    noise = max(0.5, max(ours) - min(ours))
    middle, theirs = statistics.median(ours), statistics.median(fluent)
    return f"{theirs / middle:.1f}x" if middle > noise / 2 else f"more than {theirs / noise:.0f}x (noise)"


if __name__ == "__main__":
    main()

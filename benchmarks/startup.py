"""How long `import mlflow_l3d` and `mlflow-l3d --help` take, beside MLflow's own."""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _common import Workplace, machine, spread, table, workplace

GOAL_SECONDS = 0.3
_IMPORT = """
import sys, time
started = time.perf_counter()
{statement}
print(time.perf_counter() - started, len(sys.modules), *(name in sys.modules for name in ("mlflow", "torch")))
"""
STATEMENTS = {
    "nothing": "pass",
    "`import mlflow_l3d`": "import mlflow_l3d",
    "`from mlflow_l3d import investigate`": "from mlflow_l3d import investigate",
    "`import mlflow`": "import mlflow",
    "`import mlflow.models`, with plug-ins": "import mlflow.models, mlflow.data",
}
_LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| (\s*)(\S+)")


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes a line")
    options = parser.parse_args()
    print("# Start\n")
    print(machine(), end="\n\n", flush=True)
    with workplace() as place:
        imports: dict[str, list[list[str]]] = {name: [] for name in STATEMENTS}
        helps: dict[str, list[float]] = {"mlflow-l3d --help": [], "mlflow --help": []}
        for _ in range(options.repeats):
            for name, statement in STATEMENTS.items():
                imports[name].append(_python(place, "-c", _IMPORT.format(statement=statement)).stdout.split())
            for name in helps:
                helps[name].append(_help(place, name))
        profile = _python(place, "-X", "importtime", "-c", "import mlflow_l3d").stderr
    rows = [
        [name, spread([float(run[0]) for run in runs], 3), runs[0][1], runs[0][2], runs[0][3]]
        for name, runs in imports.items()
    ]
    print(f"Seconds of an import, {options.repeats} fresh processes in turn; median (least to most).\n")
    print(table(["import", "seconds", "modules", "mlflow loaded", "torch loaded"], rows), end="\n\n")
    ours, theirs = (
        statistics.median(float(run[0]) for run in imports[f"`import {name}`"]) for name in ("mlflow_l3d", "mlflow")
    )
    print(
        f"`import mlflow_l3d` takes {ours:.4f} s (goal: at most {GOAL_SECONDS} s), 1/{theirs / ours:.0f} of mlflow.\n"
    )
    print("Seconds of a command, start of the interpreter included.\n")
    print(table(["command", "seconds"], [[f"`{name}`", spread(runs, 2)] for name, runs in helps.items()]), end="\n\n")
    print("What `import mlflow_l3d` imports, by `-X importtime`: milliseconds of the module itself, and with all that")
    print("it imports.\n")
    print(table(["module", "itself", "with imports"], _slowest(profile)))


def _python(place: Workplace, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Started where no folder of this name lies, so that the installed package is what is imported.
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=place.folder,
        env=place.environment,
        check=True,
        capture_output=True,
        text=True,
    )


def _help(place: Workplace, command: str) -> float:
    program, option = command.split()
    path = Path(sys.executable).parent / program
    started = time.perf_counter()
    subprocess.run([path, option], cwd=place.folder, env=place.environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _slowest(profile: str) -> list[list[object]]:
    """Return the slowest modules that `import mlflow_l3d` itself loads, not those of the interpreter's start."""
    found = [match.groups() for match in map(_LINE.match, profile.splitlines()) if match]
    ours = next(index for index, line in enumerate(found) if line[3] == "mlflow_l3d")
    # A module is printed after what it imports, which is indented deeper.
    begin = ours
    while begin > 0 and len(found[begin - 1][2]) > len(found[ours][2]):
        begin -= 1
    lines = sorted(found[begin : ours + 1], key=lambda line: -int(line[0]))[:8]
    return [[f"`{name}`", int(own) / 1000, int(total) / 1000] for own, total, _, name in lines]


if __name__ == "__main__":
    main()

"""What a cell of ``approach=command`` costs beside the process that it runs: ours and ``subprocess.run``, in turn.

python benchmarks/command_cells.py [--cells 100] [--examples 1000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.command.approach import Command
from mlflow_l3d.testing import one_cell

SCRIPT = """
rows = "".join(f"{i},{'ab'[i % 2]},{'ab'[i * int(SEED) % 3 % 2]}\\n" for i in range(EXAMPLES))
open(OUT + "/predictions.csv", "w").write("example_id,label,prediction\\n" + rows)
"""


def main() -> None:
    """Time both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--examples", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = SCRIPT.replace("EXAMPLES", str(options.examples))
        (folder / "train.py").write_text("import sys\nSEED, OUT = sys.argv[1:]\n" + text)
        approach = Command("python -SE train.py {seed} {output}", here=folder)
        hyperparameters = resolve_hyperparameters(approach, {"classes": "a|b"})
        task = approach.own_task(hyperparameters, folder)
        session = approach.prepare(task, hyperparameters, model="", device="cpu", cache=folder)
        ours, theirs = [], []
        for number in range(options.cells):
            started = time.perf_counter()
            (outcome,) = session.run([one_cell(approach.factors, number)])
            ours.append(time.perf_counter() - started)
            assert outcome.error is None, outcome.error
            started = time.perf_counter()
            subprocess.run([sys.executable, "-SE", str(folder / "train.py"), str(number), name], check=True)
            theirs.append(time.perf_counter() - started)
    added = 1000 * (median(ours) - median(theirs))
    print(f"subprocess.run {1000 * median(theirs):.1f} ms, approach=command {1000 * median(ours):.1f} ms a cell")
    print(f"added: {added:.1f} ms a cell of {options.examples} examples (medians of {options.cells})")


if __name__ == "__main__":
    main()

"""How long CON and CCON of many runs take, and how much memory, beside the definition over all pairs of runs.

Predictions are drawn: five classes, runs that are right with probability 0.8. Times are medians of the repeats; memory
is the peak of what the call allocates (tracemalloc, in a call of its own). The loop over pairs compares whole arrays
with numpy, one pair at a time.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from _common import machine, table

from mlflow_l3d.analysis.consistency.comparisons import ClassComparison
from mlflow_l3d.analysis.consistency.groups import Group, consistency_of
from mlflow_l3d.analysis.consistency.runs import class_agreement

IntArray = npt.NDArray[np.int64]
GOAL_SECONDS = 0.1
CLASSES = 5


def drawn(runs: int, examples: int) -> tuple[IntArray, IntArray]:
    """Return predictions, shape (S, n), and labels, shape (n,)."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, examples)
    right = generator.random((runs, examples)) < 0.8
    return np.where(right, labels, generator.integers(0, CLASSES, (runs, examples))), labels


def over_pairs(predictions: IntArray, labels: IntArray) -> tuple[float, float]:
    """Return CON and CCON by their definition."""
    runs, examples = predictions.shape
    equal = both = 0
    for first in range(runs):
        for second in range(first + 1, runs):
            same = predictions[first] == predictions[second]
            equal += int(np.count_nonzero(same))
            both += int(np.count_nonzero(same & (predictions[first] == labels)))
    pairs = math.comb(runs, 2) * examples
    return equal / pairs, both / pairs


def counted(predictions: IntArray, labels: IntArray) -> tuple[float, float]:
    """Return CON and CCON as an investigation has them: run by run."""
    compared, ids = ClassComparison(), np.arange(len(labels))
    for run in predictions:
        compared.add([Group("golden", 0)], ids, labels, run)
    found = consistency_of(compared.of("golden"), "golden")
    return found.consistency, found.correct_consistency


def everything(predictions: IntArray, labels: IntArray) -> tuple[float, float]:
    """Return CON and CCON with all that goes with them in a study of seeds."""
    pairs = class_agreement(predictions, labels).pairs
    return pairs["consistency"].mean, pairs["correct_consistency"].mean


def measured(call: Callable[[], tuple[float, float]], repeats: int) -> tuple[float, float, tuple[float, float]]:
    """Return median seconds, peak MiB, and the result."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - began)
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return statistics.median(times), peak / 2**20, result


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--examples", type=int, default=1000, help="test examples (default 1000)")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each measurement (default 5)")
    options = parser.parse_args()
    print(machine(), end="\n\n")
    sides = {
        "`ClassComparison`: run by run": counted,
        "`class_agreement`: everything": everything,
    }
    lines: list[list[str]] = []
    for runs in (250, 500, 1000, 2000):
        predictions, labels = drawn(runs, options.examples)
        truth: tuple[float, float] | None = None
        if runs <= 1000:
            began = time.perf_counter()
            truth = over_pairs(predictions, labels)
            lines.append([str(runs), "loop over pairs", f"{time.perf_counter() - began:.3f}", ""])
        for name, side in sides.items():
            seconds, peak, found = measured(partial(side, predictions, labels), options.repeats)
            if truth is not None and not np.allclose(found, truth, atol=1e-12):
                msg = f"{name} says {found}, the definition {truth}"
                raise AssertionError(msg)
            lines.append([str(runs), name, f"{seconds:.3f}", f"{peak:.1f}"])
    print(table(["runs", "what", "seconds", "peak MiB"], lines))
    print(
        f"\n{options.examples} examples. Goal: 1,000 runs x 1,000 examples in {GOAL_SECONDS} s, memory linear in runs."
    )


if __name__ == "__main__":
    main()

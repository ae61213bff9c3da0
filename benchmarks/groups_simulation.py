"""A/A of groups of existing runs: how often a difference is claimed that is none, and how often intervals hold.

Five groups with the same distribution of scores: of all pairs together at most 5 % of studies may claim a difference
(Holm). Shared: the groups have the same seeds, and half of the variance comes from the seed.
"""

from __future__ import annotations

import argparse
import math
from itertools import product
from unittest import mock

import numpy as np
import pandas as pd
from _common import machine, table

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.groups.numbers import groups_study
from mlflow_l3d.studies.groups.numbers.grouping import Grouping

SIZES = ((2,) * 5, (3,) * 5, (5,) * 5, (10,) * 5, (30,) * 5, (2, 3, 5, 10, 30), (3, 6, 6, 12, 12))
SCORES = ("normal", "gamma, skewness 0.8", "exponential, skewness 2")
NEVER = mock.patch("mlflow_l3d.studies.groups.numbers.runs_to_settle", return_value=math.inf)


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=400)
    options = parser.parse_args()
    print(f"# Groups that do not differ\n\n{machine()} {options.studies} studies each.\n", flush=True)
    rows = []
    with NEVER:
        for scores, sizes, shared in product(SCORES, SIZES, (False, True)):
            rng = np.random.default_rng(len(rows))
            found = [study(rng, scores, sizes, shared=shared) for _ in range(options.studies)]
            claims, covered = (np.mean([each[place] for each in found]) for place in (0, 1))
            seeds = "shared" if shared else "own"
            rows.append([scores, ", ".join(map(str, sizes)), seeds, f"{100 * claims:.1f}", f"{covered:.3f}"])
    print(table(["scores", "runs", "seeds", "false claims, %", "coverage of the mean"], rows))


def draw(rng: np.random.Generator, scores: str, size: int) -> np.ndarray:
    """Return scores with mean 0 and standard deviation 1, with a long tail on the bad side."""
    if scores == "normal":
        return rng.standard_normal(size)
    shape = 6.0 if scores.startswith("gamma") else 1.0
    return np.asarray((shape - rng.gamma(shape, 1, size)) / math.sqrt(shape))


def study(rng: np.random.Generator, scores: str, sizes: tuple[int, ...], *, shared: bool) -> tuple[bool, float]:
    """Return whether one study claims a difference, and how many of its intervals hold the mean."""
    of_seed = draw(rng, scores, max(sizes))
    parts = [draw(rng, scores, size) for size in sizes]
    if shared:
        parts = [(part + of_seed[: len(part)]) / math.sqrt(2) for part in parts]
    group = np.repeat(np.arange(len(sizes)), sizes)
    seeds = [f"{0 if shared else at}-{number}" for at, size in enumerate(sizes) for number in range(size)]
    frame = pd.DataFrame({"params.seed": seeds})
    settings = pd.DataFrame({"params.model": [f"m{at}" for at in group]})
    names = tuple(f"m{at}" for at in range(len(sizes)))
    grouping = Grouping(group, names, ("params.seed",), (), frame, settings, pd.DataFrame(index=frame.index))
    values = np.concatenate(parts)
    run_ids = pd.Series(seeds)
    result = groups_study(run_ids, values, grouping, Metric("score", percent=False))
    holds = result.groups["mean_ci_low"].le(0) & result.groups["mean_ci_high"].ge(0)
    return bool(result.pairs["p_holm"].min() <= 0.05), float(holds.mean())


if __name__ == "__main__":
    main()

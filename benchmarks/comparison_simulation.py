"""How often the intervals of a comparison hold the truth, and how often a system differs from itself.

An answer is right where the luck of the run, of the test example and of both together lies above a threshold: a probit
model, whose accuracies are known. Nothing is trained.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from _common import machine, table
from scipy.special import ndtri

from mlflow_l3d.analysis.comparison import halves, swapped
from mlflow_l3d.analysis.comparison.difference import contrasts, correlations, interval, p_value, spread
from mlflow_l3d.analysis.comparison.families import joint_level, joint_p_values, over_tasks
from mlflow_l3d.analysis.comparison.predictions import shares
from mlflow_l3d.analysis.comparison.system import System, mean_scores
from mlflow_l3d.analysis.comparison.wins import example_wins, pair_wins, run_wins
from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.metrics.known import named

RUNS: Final = (20, 100, 1000)
EXAMPLES: Final = (40, 200, 1000)
ACCURACIES: Final = (0.55, 0.9)
GAP: Final = 0.02
NOTHING: Final = np.zeros(0, dtype=np.int64)
COLLAPSE: Final = 0.1


class Case(NamedTuple):
    """What differs from two systems of as many runs, all shared, on one test set."""

    shared: float = 1.0
    """Share of the runs that have the same configurations."""
    more: int = 1
    """How many times as many runs the second system has."""
    missing: float = 0.0
    """Share of the predictions that are missing."""
    pool: int = 1
    """Examples from which each configuration draws its test set, as a multiple of the test set."""
    collapse: float = 0.0
    """Share of the runs of the first system that guess."""
    of_run: float = 0.3
    of_example: float = 1.0


CASES: Final[Mapping[str, Case]] = {
    "paired": Case(),
    "half of the runs shared": Case(shared=0.5),
    "no run shared": Case(shared=0.0),
    "twice as many runs of one": Case(more=2),
    "20 % of the predictions missing": Case(missing=0.2),
    "test set drawn by the run": Case(pool=3),
    "runs differ much": Case(of_run=0.6, of_example=0.1),
    "runs differ little": Case(of_run=0.02),
    "10 % of the runs of one guess": Case(collapse=COLLAPSE),
}
Array = np.ndarray[Any, Any]


def right_answers(
    random: np.random.Generator, runs: int, examples: int, accuracy: float, case: Case, gap: float = GAP
) -> tuple[Array, Array, int]:
    """Return right answers of two systems, nan where there is none, and how many of their runs are shared."""
    scale = math.sqrt(1 + case.of_run**2 + case.of_example**2)
    sizes, shared, pool = (runs, runs * case.more), round(runs * case.shared), examples * case.pool
    run, example = random.normal(size=shared), random.normal(size=pool)
    noise = random.normal(size=(shared, pool))
    held = random.random((shared, pool)).argsort(axis=1) < examples
    found = []
    for size, own in zip(sizes, (accuracy, accuracy - gap), strict=True):
        of_run, of_both = random.normal(size=size), random.normal(size=(size, pool))
        of_run[:shared] = 0.5 * run + math.sqrt(0.75) * of_run[:shared]
        of_both[:shared] = 0.5 * noise + math.sqrt(0.75) * of_both[:shared]
        of_example = 0.8 * example + 0.6 * random.normal(size=pool)
        right = (scale * ndtri(own) + case.of_run * of_run[:, None] + case.of_example * of_example + of_both > 0) * 1.0
        if case.pool > 1:
            seen = random.random((size, pool)).argsort(axis=1) < examples
            seen[:shared] = held
            right[~seen] = math.nan
        right[random.random(right.shape) < case.missing] = math.nan
        found.append(right)
    if case.collapse:
        guess = random.random(runs) < case.collapse
        found[0][guess] = random.random((int(guess.sum()), pool)) < 0.5
    return found[0], found[1], shared


def system(right: Array, name: str, shared: int) -> System:
    """Return the system of these answers; the runs after the shared ones have configurations of their own."""
    seen = ~np.isnan(right)
    scores = np.nanmean(right, axis=1)
    run, unit = np.nonzero(seen)
    share = ((right - scores[:, None]) / seen.sum(axis=1)[:, None])[seen]
    seeds = np.arange(len(right)) + (np.arange(len(right)) >= shared) * (1_000_000 if name == "B" else 0)
    cells = run, unit, share, right[seen] > 0, right.shape[1]
    return System(name, scores, {"data_order": seeds}, *cells, width=1.0, examples=len(run) / len(right))


def covered(random: np.random.Generator, tables: int, runs: int, examples: int, accuracy: float, case: Case) -> float:
    """Return the share of 95 % intervals of the difference that hold it."""
    truth = (1 - case.collapse) * accuracy + case.collapse * 0.5 - (accuracy - GAP)
    held = 0
    for _ in range(tables):
        one, other, shared = right_answers(random, runs, examples, accuracy, case)
        means = mean_scores([system(one, "A", shared), system(other, "B", shared)])
        low, high = interval(float(means.means[0] - means.means[1]), spread(means, 0, 1))
        held += low <= truth <= high
    return held / tables


def coverage_lines(tables: int, largest: int, case_names: Iterable[str]) -> Iterator[list[object]]:
    """Yield, for each case and number of runs, coverage at each number of examples and accuracy."""
    for name in case_names:
        case, random = CASES[name], np.random.default_rng(0)
        for runs in RUNS:
            line: list[object] = [name, runs]
            for examples in EXAMPLES:
                for accuracy in ACCURACIES:
                    cells = runs * examples * case.pool * case.more
                    times = min(tables, largest // cells)
                    share = covered(random, times, runs, examples, accuracy, case) if times >= 100 else math.nan
                    line.append("" if math.isnan(share) else f"{100 * share:.1f}")
            yield line


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2000, help="simulated comparisons a setting")
    parser.add_argument(
        "--largest", type=int, default=200_000_000, help="predictions a setting; fewer tables where these are more"
    )
    parser.add_argument("--case", choices=("none", *CASES), help="the coverage of one case alone, or of none")
    options = parser.parse_args()
    start = time.perf_counter()
    print(machine())
    head = ["case", "runs", *(f"{size}: {share}" for size in EXAMPLES for share in ACCURACIES)]
    if options.case != "none":
        print("\n## Coverage of 95 % intervals of the difference, in %\n")
        cases = [options.case] if options.case else CASES
        print(table(head, list(coverage_lines(options.tables, options.largest, cases))))
    if options.case not in (None, "none"):
        return
    print("\n## Coverage of the intervals of probabilities and shares, in %\n")
    print(table(["quantity", "runs", "examples", "case", "mean", "covered"], list(share_lines(options.tables // 4))))
    print("\n## False claims of families, in %\n")
    head = ["systems", "runs", "examples", "max-T", "Holm", "joint intervals"]
    print(table(head, list(family_lines(options.tables // 4))))
    print("\n## Over tasks: coverage of 95 % intervals of the mean difference, in %\n")
    print(table(["tasks", "std between tasks", "covered", "half-width"], list(task_lines(options.tables))))
    print("\n## Several tasks without a difference: claims in %, 5 allowed\n")
    head = ["tasks", "runs", "examples", "any task, each at 5 %", "any task", "over tasks", "any of both"]
    print(table(head, list(several_task_lines(options.tables // 2))))
    print("\n## Few runs without a difference: claims in %, 5 allowed\n")
    head = [
        "examples",
        "accuracy",
        "runs",
        "known",
        "claims",
        "runs alike",
        "p and interval disagree",
        "least p if alike",
    ]
    print(table(head, list(few_run_lines(options.tables))))
    print("\n## A/A: false claims in %, 5 allowed\n")
    print(table(["runs", "examples", "metric", "halves", "swapped"], list(self_lines(max(2, options.tables // 100)))))
    print(f"\n{time.perf_counter() - start:.0f} s")


def share_lines(tables: int) -> Iterator[list[object]]:
    """Yield coverage of what wins.py returns; the truth is the mean over all simulated comparisons."""
    random = np.random.default_rng(1)
    for runs in (*RUNS[:2], 4):
        for examples in EXAMPLES[:2]:
            for name in ("paired", "no run shared"):
                found: dict[str, list[Any]] = {"one run, independent": [], "one run, paired": [], "wins_share": []}
                for _ in range(tables):
                    one, other, shared = right_answers(random, runs, examples, 0.9, CASES[name])
                    both = [system(one, "A", shared), system(other, "B", shared)]
                    means = mean_scores(both)
                    pairing, of_examples = means.pairings[0, 1], spread(means, 0, 1).of_examples
                    found["one run, independent"].append(run_wins(*both, pairing, 1, of_examples, 0.95))
                    found["one run, paired"].append(pair_wins(*both, pairing, 1, of_examples, 0.95))
                    found["wins_share"].append(example_wins(*both, pairing).first)
                for what, values in found.items():
                    numbers = np.array(values)
                    if np.isnan(numbers).any():
                        continue
                    truth = numbers[:, 0].mean()
                    held = ((numbers[:, 1] <= truth) & (truth <= numbers[:, 2])).mean()
                    yield [what, runs, examples, name, f"{truth:.3f}", f"{100 * held:.1f}"]


def family_lines(tables: int) -> Iterator[list[object]]:
    """Yield the share of families of four equal systems with a false claim."""
    for runs, examples in ((20, 40), (100, 200)):
        random = np.random.default_rng(2)
        claims = np.zeros(3)
        pairs, matrix = contrasts(4)
        for _ in range(tables):
            run, example = random.normal(size=runs), random.normal(size=examples)
            every = []
            for name in "ABCD":
                of_run = 0.5 * run + math.sqrt(0.75) * random.normal(size=runs)
                of_example = 0.8 * example + 0.6 * random.normal(size=examples)
                right = 1.2 + 0.3 * of_run[:, None] + of_example + random.normal(size=(runs, examples)) > 0
                every.append(system(right * 1.0, name, runs))
            means = mean_scores(every)
            spreads, gaps = [spread(means, *pair) for pair in pairs], matrix @ means.means
            alone = [p_value(float(gap), found) for gap, found in zip(gaps, spreads, strict=True)]
            families = [(correlations(means, spreads), spreads)]
            level = joint_level(families, 0.95)
            limits = [interval(float(gap), found, level) for gap, found in zip(gaps, spreads, strict=True)]
            claims += (
                joint_p_values(alone, families).min() <= 0.05,
                holm(alone).min() <= 0.05,
                any(not low <= 0 <= high for low, high in limits),
            )
        yield [4, runs, examples, *(f"{100 * share:.1f}" for share in claims / tables)]


def task_lines(tables: int) -> Iterator[list[object]]:
    """Yield coverage over tasks, whose own standard errors (half to three points) have 20 degrees of freedom."""
    random = np.random.default_rng(3)
    for tasks in (2, 3, 5, 10):
        for between in (0.0, 0.01, 0.05):
            held, widths = 0, []
            for _ in range(tables):
                errors = random.uniform(0.005, 0.03, tasks)
                values = GAP + between * random.normal(size=tasks) + errors * random.normal(size=tasks)
                found = over_tasks(values, errors * np.sqrt(random.chisquare(20, tasks) / 20))
                held += found.low <= GAP <= found.high
                widths.append((found.high - found.low) / 2)
            yield [tasks, f"{between:.2f}", f"{100 * held / tables:.1f}", f"{np.median(widths):.3f}"]


def several_task_lines(tables: int) -> Iterator[list[object]]:
    """Yield how often a difference is claimed on any task, and over tasks, of two equal systems."""
    random = np.random.default_rng(5)
    for tasks, runs, examples in ((3, 5, 50), (3, 20, 50), (10, 5, 50)):
        claims = np.zeros(4)
        for _ in range(tables):
            alone, families, gaps = [], [], []
            for _ in range(tasks):
                one, other, _ = right_answers(random, runs, examples, 0.8, Case(), gap=0.0)
                means = mean_scores([system(one, "A", runs), system(other, "B", runs)])
                families.append((np.eye(1), [spread(means, 0, 1)]))
                gaps.append(float(means.means[0] - means.means[1]))
                alone.append(p_value(gaps[-1], families[-1][1][0]))
            single = joint_p_values(alone, families).min() <= 0.05
            mean = over_tasks(gaps, [each[0].error for _, each in families]).p <= 0.05
            claims += min(alone) <= 0.05, single, mean, single or mean
        yield [tasks, runs, examples, *(f"{100 * share:.1f}" for share in claims / tables)]


def few_run_lines(tables: int) -> Iterator[list[object]]:
    """Yield what is claimed of two equal systems whose answers are right with one probability, after few runs."""
    random = np.random.default_rng(6)
    for examples, accuracy in ((50, 0.98), (200, 0.99), (50, 0.9)):
        for runs in (3, 4, 5):
            for predictions in (False, True):
                claims = disagree = alike = 0
                least = 1.0
                for _ in range(tables):
                    pair = [
                        replace(
                            system((random.random((runs, examples)) < accuracy) * 1.0, name, runs),
                            **({} if predictions else {"run": NOTHING, "unit": NOTHING, "share": NOTHING * 1.0}),
                        )
                        for name in "AB"
                    ]
                    means = mean_scores(pair)
                    gap, found = float(means.means[0] - means.means[1]), spread(means, 0, 1)
                    p, (low, high) = p_value(gap, found), interval(gap, found)
                    claims += p <= 0.05
                    disagree += (p <= 0.05) == (low <= 0 <= high)
                    if found.runs_raw < 1e-20 and p < least:
                        least = p
                    alike += found.runs_raw < 1e-20
                row = [examples, str(accuracy), runs, "predictions" if predictions else "scores only"]
                yield [*row, *(f"{100 * count / tables:.1f}" for count in (claims, alike, disagree)), f"{least:.3f}"]


def self_lines(investigations: int) -> Iterator[list[object]]:
    """Yield false claims of self checks of 100 repeats each."""
    random = np.random.default_rng(4)
    for runs, examples in ((20, 40), (40, 200), (200, 200)):
        for metric in ("accuracy", "f1_macro"):
            claims = np.zeros(2)
            for seed in range(investigations):
                one, other, _ = right_answers(random, runs, examples, 0.8, Case())
                labels = random.integers(0, 3, examples)
                both = [_predicted(random, right, labels, name, metric) for right, name in ((one, "A"), (other, "B"))]
                pairing = mean_scores(both).pairings[0, 1]
                claims += halves(both[0], 100, seed=seed).rate, swapped(*both, pairing, 100, seed=seed).rate
            yield [runs, examples, metric, *(f"{100 * share:.1f}" for share in claims / investigations)]


def _predicted(random: np.random.Generator, right: Array, labels: Array, name: str, metric: str) -> System:
    """Return a system with predictions of three classes; a wrong one is any other class."""
    wrong = (labels + random.integers(1, 3, right.shape)) % 3
    guesses = np.where(right > 0, labels, wrong)
    runs, examples = right.shape
    run, example = np.repeat(np.arange(runs), examples), np.tile(np.arange(examples), runs)
    cells = (run, example, np.tile(labels, runs), guesses.ravel())
    scores, units, of_units, share = shares(named(metric), *cells, runs=runs, examples=examples, classes=3)
    seeds = {"data_order": np.arange(runs)}
    return System(name, scores, seeds, units, of_units, share, cells[2] == cells[3], examples)


if __name__ == "__main__":
    main()

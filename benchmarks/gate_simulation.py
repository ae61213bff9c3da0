"""How often a gate is wrong, and whether it has the power that it promises.

Scores of two systems are drawn, run by run and correlated; the gate looks at them as it would at real ones. Nothing is
trained. False claims at most alpha (5 %) are the goal, and power within 3 points of what was promised.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from _common import machine, table
from scipy.special import ndtr
from scipy.stats import gamma

from mlflow_l3d.analysis.comparison.power import RUNS_ALONE, Noise, measured_pairs, outlook, simulate
from mlflow_l3d.analysis.planning.spending import SequentialPlan, limits, planned_looks

BUDGETS: Final = (5, 10, 20, 50)
CORRELATIONS: Final = (0.0, 0.5, 0.9)
SPENDINGS: Final = ("pocock", "obrien_fleming")
COLLAPSE: Final = 0.05
Array = np.ndarray[Any, Any]
_GRID: Final = np.linspace(-6, 6, 4001)


def _shaped(shape: float) -> Callable[[Array], Array]:
    """Return what makes normal draws those of a gamma distribution with a long lower tail, mean 0 and variance 1."""
    values = (shape - gamma.ppf(ndtr(_GRID), shape)) / math.sqrt(shape)
    return lambda normal: np.interp(normal, _GRID, values)


MARGINS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "normal": lambda normal: normal,
    "skewness 1": _shaped(4.0),
    "exponential": _shaped(1.0),
}
COLLAPSES: Final = {"collapse by 5 std": 5.0, "collapse by 13 std": 13.0}


def differences(
    random: np.random.Generator, comparisons: int, runs: int, shape: str, correlation: float, *, one_only: bool
) -> tuple[Array, Array]:
    """Return scores of candidate and baseline with equal means; single runs have a standard deviation of about 1."""
    normal = random.standard_normal((2, comparisons, runs))
    normal[1] = correlation * normal[0] + math.sqrt(1 - correlation**2) * normal[1]
    if shape in COLLAPSES:
        lost = random.random((2, comparisons, runs)) < COLLAPSE
        lost[1] &= not one_only
        scores = np.where(lost, -COLLAPSES[shape], normal)
        scores[: 1 if one_only else 2] += COLLAPSE * COLLAPSES[shape]
        return scores[0], scores[1]
    margin = MARGINS[shape]
    return margin(normal[0]), normal[1] if one_only else margin(normal[1])


def false_claims(comparisons: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield how often each shape of scores is claimed to differ where means are equal, or equivalent where not."""
    cases = [(shape, False) for shape in (*MARGINS, *COLLAPSES)]
    cases += [(shape, True) for shape in (*list(MARGINS)[1:], *COLLAPSES)]
    for shape, one_only in cases:
        for correlation in CORRELATIONS:
            row: dict[str, object] = {
                "scores": f"{shape}, one only" if one_only else shape,
                "correlation": correlation,
            }
            for spending in SPENDINGS:
                for budget in BUDGETS:
                    random = np.random.default_rng(seed)
                    pair = differences(random, comparisons, budget, shape, correlation, one_only=one_only)
                    gap = pair[0] - pair[1]
                    small = SequentialPlan(planned_looks(budget, 5), 1e-9, 0.05, spending)
                    decided, _ = simulate(small, gap)
                    effect = 1.2 * float(gap.std()) * 3.3 / math.sqrt(budget)
                    wide = SequentialPlan(planned_looks(budget, 5), effect, 0.05, spending)
                    shifted, _ = simulate(wide, gap - effect)
                    shares = [(decided == name).mean() for name in ("better", "worse")]
                    shares.append((shifted == "equivalent").mean())
                    row[f"{spending} {budget}"] = " / ".join(f"{100 * share:.1f}" for share in shares)
            yield row


def kept_power(comparisons: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield the power that is promised, from the spread of differences, beside what scores drawn anew give."""
    for budget in BUDGETS[1:]:
        for correlation in CORRELATIONS:
            for spending in SPENDINGS:
                std = math.sqrt(2 * (1 - correlation))
                effect = 3.2 * std / math.sqrt(budget)
                plan = SequentialPlan(planned_looks(budget, 5), effect, 0.05, spending)
                row: dict[str, object] = {"budget": budget, "correlation": correlation, "spending": spending}
                for true, answer in ((0.0, "equivalent"), (-effect, "worse"), (effect, "better")):
                    promised = outlook(plan, true, Noise(std), np.random.default_rng(0))
                    random = np.random.default_rng(seed)
                    pair = differences(random, comparisons, budget, "normal", correlation, one_only=False)
                    decided, used = simulate(plan, pair[0] - pair[1] + true)
                    found = float((decided == answer).mean())
                    stated = getattr(promised, answer)
                    row[answer] = f"{100 * stated:.1f} / {100 * found:.1f} ({promised.runs:.1f} / {used.mean():.1f})"
                yield row


def intervals(comparisons: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield how often the repeated intervals of all looks, and that of the last one, hold the truth."""
    for shape in (*MARGINS, "collapse by 13 std"):
        row: dict[str, object] = {"scores": shape}
        for budget in BUDGETS[1:]:
            plan = SequentialPlan(planned_looks(budget, 5), 1.0)
            pair = differences(np.random.default_rng(seed), comparisons, budget, shape, 0.5, one_only=False)
            row[f"budget {budget}"] = f"{100 * _held(plan, pair[0] - pair[1], 0.0).mean():.1f}"
        yield row


def new_examples(comparisons: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield false claims and power where test examples count, too: their luck is that of the whole comparison."""
    for share in (0.1, 0.5):
        for budget in BUDGETS[1:]:
            of_examples = share / (1 - share) / budget
            noise = Noise(1.0, of_examples, 999.0)
            effect = 3.2 * math.sqrt(1 / budget + of_examples)
            plan = SequentialPlan(planned_looks(budget, 5), effect)
            row: dict[str, object] = {"share of the final variance from examples": share, "budget": budget}
            for true in (0.0, -effect):
                random = np.random.default_rng(seed)
                gap = true + random.standard_normal((comparisons, budget))
                shift = math.sqrt(of_examples) * random.standard_normal(comparisons)
                decided, _ = simulate(plan, gap, noise, shift)
                names = ("better", "worse", "equivalent")
                shares = " / ".join(f"{100 * (decided == name).mean():.1f}" for name in names)
                row["true 0: " if true == 0 else "true -effect: "] = shares
            yield row


def flips(comparisons: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield gates of accuracies that differ by one answer, or four, in some of the runs, by the smallest effect.

    Each number: how often equivalence is claimed (if the spread of the runs alone counts), and how often the repeated
    intervals of all looks hold the truth.
    """
    for examples in (50, 200):
        for answers, share in ((1, 0.05), (1, 0.1), (1, 0.25), (1, 0.5), (4, 0.25), (10, 0.1)):
            row: dict[str, object] = {"test examples": examples, "answers that flip": answers, "in": f"{share:.0%}"}
            for spending in SPENDINGS:
                for budget in (10, 20, 43, 80):
                    plan = SequentialPlan(planned_looks(budget, 5), answers * share / examples, 0.05, spending)
                    noise = Noise(1.0, step=1 / examples)
                    gap = np.random.default_rng([seed, examples]).random((comparisons, budget)) < share
                    gap = -answers / examples * gap
                    claims = [(simulate(plan, gap, each)[0] == "equivalent").mean() for each in (noise, RUNS_ALONE)]
                    held = _held(plan, gap, -plan.smallest_effect, noise).mean()
                    row[f"{spending} {budget}"] = f"{100 * claims[0]:.1f} ({100 * claims[1]:.0f}), {100 * held:.1f}"
            yield row


def _held(plan: SequentialPlan, gap: Array, truth: float, noise: Noise = RUNS_ALONE) -> Array:
    """Return in which comparisons the repeated intervals of all looks hold the truth."""
    held = np.ones(len(gap), dtype=bool)
    for look, level in zip(plan.looks, plan.levels, strict=True):
        low, high = limits(measured_pairs(gap[:, :look], noise), level.difference)
        held &= (low <= truth) & (high >= truth)
    return held


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=20_000, help="simulated comparisons a number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the title of the one table to print")
    given = parser.parse_args()
    started = time.perf_counter()
    print(machine(), f"{given.comparisons:,} comparisons a number, alpha 5 %", sep="\n", end="\n\n")
    shown = (
        ("False claims in %: better / worse at equal means / equivalent at the smallest effect", false_claims),
        ("Power in %, promised / found (runs on average, promised / found)", kept_power),
        ("Comparisons in % whose repeated intervals hold the truth at every look", intervals),
        ("On new examples, too: better / worse / equivalent in %", new_examples),
        (
            "One answer flips, by the smallest effect: equivalent (by the spread alone), intervals hold, in %",
            flips,
        ),
    )
    for title, rows in (each for each in shown if given.only in each[0]):
        found = list(rows(given.comparisons, given.seed))
        print(f"## {title}", table(list(found[0]), [list(row.values()) for row in found]), sep="\n\n", end="\n\n")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()

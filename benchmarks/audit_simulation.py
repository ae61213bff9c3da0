"""Does the audit of printed numbers hold? Simulated tables with a known truth, printed and rounded as in the paper.

    python benchmarks/audit_simulation.py --tables 4000

Of each table only c, m (three decimals) and f (two) are kept, as Pecher et al. (2024) print them, and
projects/pecher2024/precision.py says from these whether the sign of the importance is decided. Where the truth is 0 it
must say so in at most 5 % of tables. `best` is no test but a bound: what could be said if all unknowns were kind.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _common import machine, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "projects" / "pecher2024"))

import precision

COLUMNS = 10
SPREAD = 2.0
"""Standard deviation within a row, in percentage points."""
FALL = 25.0
"""What a run that collapses loses."""


@dataclass(frozen=True)
class Case:
    """One kind of scores.

    Attributes
    ----------
    name
        In the table.
    share
        Part of the variance within rows that is interactions.
    truth
        Corrected score.
    gamma
        Shape of gamma effects (skewness 2 / sqrt(shape)); 0: normal ones.
    uneven
        Standard deviation of the logarithm of the rows' spread.
    linked
        Whether the spread of a row stretches its mean, too.
    examples
        Test examples of a run, whose noise is a part of the interactions; 0: without end.
    collapse, collapsing
        Share of runs that collapse in rows where runs do, and share of such rows.
    """

    name: str
    share: float = 0.5
    truth: float = 0.0
    gamma: float = 0.0
    uneven: float = 0.0
    linked: bool = False
    examples: int = 0
    collapse: float = 0.0
    collapsing: float = 1.0


KINDS = (
    *(Case(f"normal, share {share}", share=share) for share in (0.0, 0.5, 1.0)),
    Case("accuracies of 1,000 examples", examples=1000),
    *(Case(f"skewness 1, share {share}", share=share, gamma=4) for share in (0.0, 0.5)),
    *(Case(f"exponential, share {share}", share=share, gamma=1) for share in (0.0, 0.5)),
    *(Case(f"uneven rows .3, share {share}", share=share, uneven=0.3, linked=True) for share in (0.0, 1.0)),
    Case("uneven rows .3, means apart", share=0.0, uneven=0.3),
    *(Case(f"uneven rows .6, share {share}", share=share, uneven=0.6, linked=True) for share in (0.0, 1.0)),
    Case("uneven rows 1, share 0", share=0.0, uneven=1.0, linked=True),
    Case("2 % of runs collapse", collapse=0.02),
    Case("half of the runs of 1 row in 10 collapses", collapse=0.5, collapsing=0.1),
    *(Case(f"normal, truth {truth:+.1f}", truth=truth) for truth in (-0.6, -0.3, 0.3, 0.6)),
    *(Case(f"normal, share 0, truth {truth:+.1f}", share=0.0, truth=truth) for truth in (-0.6, -0.3, 0.3, 0.6)),
)


def effects(case: Case, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return effects with mean 0 and variance 1."""
    if not case.gamma:
        return rng.normal(size=shape)
    return (rng.gamma(case.gamma, size=shape) - case.gamma) / math.sqrt(case.gamma)


def rows_of(case: Case, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Return of every row its spread (mean 1), its own effect (variance 1) and the share of runs that collapse."""
    spread = np.exp(case.uneven * rng.normal(size=shape) - case.uneven**2 / 2)
    own = effects(case, rng, shape)
    if case.linked:
        own = own * spread / math.exp(case.uneven**2 / 2)
    return spread, own, case.collapse * (rng.random(shape) < case.collapsing)


def rows_std(case: Case) -> float:
    """Return the standard deviation of row effects at which the importance without end is the case's truth."""
    spread, own, collapse = rows_of(case, np.random.default_rng(1), (400_000,))
    share = (case.truth * math.sqrt(2 - case.truth**2) + 1) / 2
    wanted = math.sqrt((1 - share) / share)
    low, high = 0.0, 100.0
    for _ in range(50):
        std = (low + high) / 2
        inside = (1 - collapse) * (SPREAD * spread) ** 2 + collapse * (1 - collapse) * (FALL + std * own) ** 2
        ratio = np.std((1 - collapse) * std * own - collapse * FALL) / np.mean(np.sqrt(inside))
        low, high = (std, high) if ratio < wanted else (low, std)
    return low


def tables_of(case: Case, count: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` tables of scores in percentage points."""
    spread, own, collapse = rows_of(case, rng, (count, rows, 1))
    shape = (count, rows, COLUMNS)
    share = case.share
    if case.examples:
        # The noise of 1,000 examples at 75 % is 1.37 points: interactions are that and no more.
        share = 1e4 * 0.75 * 0.25 / case.examples / SPREAD**2
    inside = math.sqrt(1 - share) * effects(case, rng, (count, 1, COLUMNS))
    if not case.examples:
        inside = inside + math.sqrt(share) * effects(case, rng, shape)
    scores = 75 + rows_std(case) * own + SPREAD * spread * inside
    if case.examples:
        scores = 100 * rng.binomial(case.examples, np.clip(scores / 100, 0, 1)) / case.examples
    return np.where(rng.random(shape) < collapse, scores - FALL, scores)


def printed(scores: np.ndarray) -> precision.Printed:
    """Return what the paper would print of these tables."""
    within, means = scores.std(axis=2), scores.mean(axis=2)
    c, m, f = within.mean(axis=1), means.std(axis=1), scores.reshape(len(scores), -1).std(axis=1)
    rows = np.full(len(scores), float(scores.shape[1]))
    return precision.Printed(np.round(c, 3), np.round(m, 3), np.round(f, 2), rows, COLUMNS)


def line(case: Case, rows: int, count: int) -> list[str]:
    """Return one line of the table."""
    rng = np.random.default_rng([rows, KINDS.index(case)])
    numbers = printed(np.concatenate([tables_of(case, 500, rows, rng) for _ in range(max(1, count // 500))]))
    shares = (0.47 if case.examples else case.share,)
    held = []
    for tried in (shares, precision.SHARES):
        low, high = precision.intervals(numbers, tried)
        held.append(100 * np.mean((low <= case.truth) & (case.truth <= high)))
    decided = [100 * np.mean(precision.two_sided(numbers, which) <= 0.05) for which in ("worst", "best")]
    uneven = np.median(numbers.unevenness)
    return [case.name, f"{rows}", f"{abs(uneven):.2f}", *(f"{value:.1f}" for value in (*decided, *held))]


def main() -> None:
    """Print one line a kind of scores and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tables", type=int, default=4000, help="simulated tables a line (default 4000)")
    count = parser.parse_args().tables
    print(machine())
    head = ("scores", "M", "unevenness", "decided: worst %", "best %", "interval holds: true share %", "worst %")
    lines = [line(case, rows, count) for rows in (20, 100) for case in KINDS]
    print(f"\n{table(head, lines)}")


if __name__ == "__main__":
    main()

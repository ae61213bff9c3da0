"""How often two evaluations of one application are called different, and how often intervals hold the truth.

Applications with judges are simulated, so the truth is known. Next to ours: the tests that MLflow 3.18 applies to two
evaluation runs (`mlflow.genai.compare_evaluations`), on the first answer to each row, which is what it can pair.
"""

from __future__ import annotations

import argparse
import sys
import time
import types
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from _common import machine, table
from scipy import stats

from mlflow_l3d.analysis.comparison.difference import interval
from mlflow_l3d.analysis.judged.components import components
from mlflow_l3d.analysis.judged.difference import difference, differences, row_spread
from mlflow_l3d.analysis.judged.repeated import pass_k

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "analysis" / "judged"))
from judged_app import App

Array = np.ndarray[Any, Any]
Test = Callable[[Array, Array], float]
ROWS: Final = (20, 60, 200)
REPEATS: Final = ((1, 1), (3, 3), (5, 1), (5, 5))
KINDS: Final = {
    "score": App(),
    "yes/no, half pass": App(threshold=0.0),
    "yes/no, 10 % pass": App(threshold=1.9),
    "yes/no, 1 % pass": App(threshold=3.4),
}
COMPONENTS: Final = ("row", "answer", "judge", "prompt", "row x judge", "row x prompt", "judge x prompt", "judgement")
FEWEST_PAIRS: Final = 6
MODULE: Final = "mlflow/genai/evaluation/comparison/significance_tests.py"


def mlflow_test(wheel: Path | None) -> Test:
    """Return the p-value of MLflow's comparison: its own functions from a wheel, else the same written with scipy."""
    if wheel is None:

        def mcnemar(deltas: Array) -> float:
            up, down = int((deltas > 0).sum()), int((deltas < 0).sum())
            if up + down < 25:
                return float(stats.binomtest(up, up + down).pvalue) if up + down else 1.0
            return float(stats.chi2.sf((abs(up - down) - 1) ** 2 / (up + down), df=1))

        def wilcoxon(deltas: Array) -> float:
            moved = deltas[deltas != 0]
            method = "exact" if len(moved) <= 50 else "asymptotic"
            return float(stats.wilcoxon(moved, method=method).pvalue) if len(moved) else 1.0

    else:
        module = types.ModuleType("significance_tests")
        with zipfile.ZipFile(wheel) as archive:
            exec(compile(archive.read(MODULE), MODULE, "exec"), module.__dict__)

        def mcnemar(deltas: Array) -> float:
            return float(module._mcnemar(deltas)[1])

        def wilcoxon(deltas: Array) -> float:
            return float(module._wilcoxon(deltas)[1])

    def test(first: Array, second: Array) -> float:
        if len(first) < FEWEST_PAIRS:
            return 1.0
        binary = np.isin(np.concatenate([first, second]), (0, 1)).all()
        return mcnemar(second - first) if binary else wilcoxon(second - first)

    return test


def answers(random: np.random.Generator, app: App, row: Array, repeats: int, shift: Array | float = 0.0) -> Array:
    """Return judgements of one judge, shape (rows, repeats)."""
    size = len(row), repeats
    value = (row + shift)[:, None] + app.answer * random.normal(size=size) + app.rest * random.normal(size=size)
    return value if app.threshold is None else (value > app.threshold) * 1.0


def equal_lines(pairs: int, theirs: Test) -> Iterator[list[object]]:
    """Yield the share of false claims of two evaluations of one application, which differ by the luck of answers."""
    for kind, app in KINDS.items():
        random = np.random.default_rng(0)
        for repeats in REPEATS:
            claims = []
            for rows in ROWS:
                found = np.zeros((pairs, 2))
                for number in range(pairs):
                    row = random.normal(size=rows) * np.hypot(app.row, app.row_judge)
                    first, second = (answers(random, app, row, count) for count in repeats)
                    means = first.mean(axis=1), second.mean(axis=1)
                    low, high = interval(float((means[0] - means[1]).mean()), row_spread(*means, 1.0))
                    found[number] = not low <= 0 <= high, theirs(first[:, 0], second[:, 0]) <= 0.05
                claims.append(found.mean(axis=0))
            ours, mlflow = zip(*claims, strict=True)
            yield [kind, " and ".join(map(str, repeats)), *percent(ours), *percent(mlflow)]


def drawn_lines(pairs: int, theirs: Test) -> Iterator[list[object]]:
    """Yield false claims if each side drew prompts or judges of its own, and over five scorers."""
    judged = App(judge=0.5, threshold=0.0)
    prompted = judged._replace(prompt=0.5, row_prompt=0.3)
    cases = {
        "the same prompt and 3 judges": (judged, 3, 1),
        "3 judges of each side's own": (judged, 3, 1),
        "4 prompts of each side's own": (prompted, 1, 4),
        "1 prompt of each side's own": (prompted, 1, 1),
    }
    for rows in ROWS:
        for case, (app, judges, prompts) in cases.items():
            random, claims = np.random.default_rng(1), np.zeros(2)
            for _ in range(pairs):
                row = app.draw_rows(random, rows, judges)
                sides = [app.draw(random, rows, 2, judges, prompts, row=row, names=name) for name in "ab"]
                if "judges of" in case:
                    again = app.draw_rows(random, rows, judges)
                    sides[1] = app.draw(random, rows, 2, judges, 1, row=[row[0], *again[1:]], names="b")
                    sides[1]["judge"] += judges
                ours = difference(*sides).verdict != "undecided"
                claims += ours, theirs(*map(partial(first_run, judges), sides)) <= 0.05
            yield [case, rows, *percent(claims / pairs)]
        random, claims = np.random.default_rng(2), np.zeros(2)
        several = [App(threshold=at) for at in (-1, -0.5, 0, 0.5, 1)]
        for _ in range(pairs // 2):
            found, p = [], []
            for scorer in several:
                row = scorer.draw_rows(random, rows, 1)
                sides = [scorer.draw(random, rows, 2, row=row, names=name) for name in "ab"]
                found.append(difference(*sides))
                p.append(theirs(*map(partial(first_run, 1), sides)))
            claims += any(each.verdict != "undecided" for each in differences(found)), min(p) <= 0.05
        yield ["any of 5 scorers", rows, *percent(claims / (pairs // 2))]


def first_run(judges: int, side: pd.DataFrame) -> Array:
    """Return the values that one run of MLflow has: the first prompt's first answer to each row, by the first judge."""
    chosen = (side["repeat"] == 0) & (side["judge"] % judges == 0)
    if "prompt" in side:
        chosen &= side["prompt"].str.endswith("0")
    return side[chosen].sort_values("row")["value"].to_numpy()


def difference_lines(pairs: int) -> Iterator[list[object]]:
    """Yield coverage of 95 % intervals of a difference: the first system is better by half, by row more or less."""
    for kind, app in list(KINDS.items())[:3]:
        random = np.random.default_rng(3)
        scale = np.sqrt(app.row**2 + app.row_judge**2 + app.answer**2 + app.rest**2)
        at = app.threshold
        truth = 0.5 if at is None else stats.norm.sf((at - 0.5) / np.hypot(scale, 0.5)) - stats.norm.sf(at / scale)
        for repeats in REPEATS:
            covered = []
            for rows in ROWS:
                held = 0
                for _ in range(pairs):
                    row = random.normal(size=rows) * np.hypot(app.row, app.row_judge)
                    shifts = 0.5 + 0.5 * random.normal(size=rows), 0.0
                    sides = [answers(random, app, row, *each) for each in zip(repeats, shifts, strict=True)]
                    means = [side.mean(axis=1) for side in sides]
                    low, high = interval(float((means[0] - means[1]).mean()), row_spread(*means, 1.0))
                    held += low <= truth <= high
                covered.append(held / pairs)
            yield [kind, " and ".join(map(str, repeats)), *percent(covered)]


class Skewed(NamedTuple):
    """Draws of effects, exponential if they have so many levels (rows and all within rows): mean 0, variance 1."""

    of: np.random.Generator
    least: int

    def normal(self, size: tuple[int, ...]) -> Array:
        """Return effects; rows come first."""
        return self.of.exponential(size=size) - 1 if size[0] >= self.least else self.of.normal(size=size)

    def random(self, size: int) -> Array:
        """Return uniform draws."""
        return self.of.random(size)


def component_lines(evaluations: int, only: str = "") -> Iterator[list[object]]:
    """Yield mean over truth, and coverage, of the variance of each source; joined ones under the name of the first.

    The truth of yes/no scores is the variance of the probability to pass over rows, judges and so on.
    """
    normal = App(prompt=0.3, row_prompt=0.35, judge_prompt=0.2)
    half = normal._replace(judge=0.2, threshold=0.0)
    tenth = half._replace(threshold=1.8)
    cases = {
        "score": (normal, "200x5x5x1 60x2x10x1 50x3x5x5 50x3x3x1 50x3x2x1 20x3x5x1 20x1x3x4 20x5x1x1 20x1x1x1"),
        "score, 30 % missing": (normal, "50x3x5x1 20x3x5x1"),
        "score, answers alike": (normal._replace(answer=0.0), "50x3x5x1"),
        "skewed score": (normal, "200x2x5x1 60x5x1x1 20x3x5x1 20x2x3x1 20x1x3x4 20x5x1x1 20x1x1x1"),
        "skewed score, 30 % missing": (normal, "50x3x5x1"),
        "skewed score, skewed judges": (normal, "60x2x3x1 60x2x5x1 60x2x10x1"),
        "yes/no, half pass": (half, "200x2x5x1 50x3x5x5 50x3x3x1 20x3x5x1 20x1x3x4 20x1x1x1"),
        "yes/no, 12 % pass": (tenth, "200x2x5x1 50x3x5x1 60x2x1x1 20x3x5x1 20x1x3x4 20x5x1x1 20x1x1x1"),
        "yes/no, 88 % pass, 30 % missing": (half._replace(threshold=-1.8), "50x3x5x1"),
    }
    cells = [(kind, app, design) for kind, (app, text) in cases.items() for design in text.split()]
    for kind, app, design in (cell for cell in cells if f"{cell[0]} {cell[2]}".startswith(only)):
        rows, repeats, judges, prompts = map(int, design.split("x"))
        app = app if prompts > 1 else app._replace(prompt=0.0, row_prompt=0.0, judge_prompt=0.0)
        app = app if judges > 1 else app._replace(judge=0.0, row_judge=0.0)
        random, truth = np.random.default_rng(4), app.truth()
        random = Skewed(random, 1 if "judges" in kind else ROWS[0]) if "skewed" in kind else random
        held: dict[str, list[bool]] = {name: [] for name in COMPONENTS}
        sizes: dict[str, list[float]] = {name: [] for name in COMPONENTS}
        for _ in range(evaluations):
            for each in components(
                app.draw(random, rows, repeats, judges, prompts, missing=0.3 * ("missing" in kind))
            ).frame.itertuples():
                name, *joined = each.source.split(" + ")
                at = truth[name] + sum(truth[part] for part in joined)
                sizes[name].append(each.variance / at if at else np.nan)
                held[name].append(each.low <= at + 1e-12 <= each.high + 2e-12)
        texts = [f"{100 * np.mean(held[at]):.1f} ({np.mean(sizes[at]):.2f})" if held[at] else "" for at in COMPONENTS]
        yield [kind, design, *texts]


def pass_lines(evaluations: int) -> Iterator[list[object]]:
    """Yield coverage of pass^k and pass@k of four answers per row."""
    for first, second in ((1.0, 1.0), (4.0, 1.0), (0.5, 0.3)):
        for rows in (50, 100, 200):
            random = np.random.default_rng(5)
            chances = random.beta(first, second, 1_000_000)
            held = np.zeros((4, 2))
            for _ in range(evaluations):
                passed = random.binomial(4, random.beta(first, second, rows))
                for k in (1, 2, 3, 4):
                    found = pass_k(passed, np.full(rows, 4), k)
                    truth = np.mean(chances**k), 1 - np.mean((1 - chances) ** k)
                    every = found.all_low <= truth[0] <= found.all_high
                    held[k - 1] += every, found.any_low <= truth[1] <= found.any_high
            yield [
                f"beta({first}, {second})",
                rows,
                *percent(held[:, 0] / evaluations),
                *percent(held[1:, 1] / evaluations),
            ]


def percent(shares: Any) -> list[str]:
    """Return shares in percent."""
    return [f"{100 * share:.1f}" for share in shares]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000, help="simulated pairs of evaluations per cell")
    parser.add_argument("--wheel", type=Path, help="wheel of MLflow 3.18 or later, whose own tests are used")
    parser.add_argument(
        "--only", choices=("equal", "drawn", "difference", "components", "pass"), help="one table alone"
    )
    parser.add_argument("--cells", default="", help='rows of the table "components" that begin so: "skewed score 20x"')
    options = parser.parse_args()
    start, pairs, theirs = time.perf_counter(), options.pairs, mlflow_test(options.wheel)
    print(machine(), "MLflow's tests:", options.wheel.name if options.wheel else "rewritten with scipy")
    of_rows = [f"{rows} rows" for rows in ROWS]
    tables: dict[str, tuple[str, list[str], Callable[[], Iterator[list[object]]]]] = {
        "equal": (
            "Equal applications: claims in %, 5 allowed",
            [
                "values",
                "answers per row",
                *(f"ours, {text}" for text in of_rows),
                *(f"MLflow, {text}" for text in of_rows),
            ],
            lambda: equal_lines(pairs, theirs),
        ),
        "drawn": (
            "Equal applications with 2 answers per row: claims in %, 5 allowed",
            ["case", "rows", "ours", "MLflow"],
            lambda: drawn_lines(max(2, pairs // 5), theirs),
        ),
        "difference": (
            "Coverage of 95 % intervals of a difference, in %",
            ["values", "answers per row", *of_rows],
            lambda: difference_lines(pairs),
        ),
        "components": (
            "Coverage of 95 % intervals of variances, in % (mean over truth)",
            ["values", "rows x repeats x judges x prompts", *COMPONENTS],
            lambda: component_lines(max(2, pairs // 5), options.cells),
        ),
        "pass": (
            "Coverage of 95 % intervals of pass^k and pass@k of 4 answers per row, in %",
            ["chances of rows", "rows", *(f"pass^{k}" for k in (1, 2, 3, 4)), *(f"pass@{k}" for k in (2, 3, 4))],
            lambda: pass_lines(pairs),
        ),
    }
    for name, (title, head, lines) in tables.items():
        if options.only in (None, name):
            print(f"\n## {title}\n", flush=True)
            print(table(head, []), flush=True)
            for line in lines():
                print(table(head, [line]).splitlines()[-1], flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

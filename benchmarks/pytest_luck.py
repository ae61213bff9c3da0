"""How often a suite of noisy tests fails falsely under `pytest --l3d`, how soon it finds a drop, and what it costs.

The cases are those of the plugin; only their runs are drawn. Suites follow each other and remember what they ran, as in
CI. The last table runs pytest itself, to time the plugin.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from _common import machine, table

from mlflow_l3d.pytest_luck.case import PATIENCE, Case, Record
from mlflow_l3d.pytest_luck.requirement import Requirement

CASES: Final = 100
ALPHA: Final = 0.05
LEARNING: Final = 8
"""Suites before the noise of all cases counts as known."""
RATE: Final = Requirement(0.8, is_rate=True)
STD: Final = 0.05
MEAN: Final = Requirement(0.8 + 0.8416 * STD)
"""The mean of a normal score that is 0.8 or more in 80 % of runs: the same requirement, of the score itself."""
Draw = Callable[[np.random.Generator], float]


def passes(rate: float) -> Draw:
    """Return runs that pass with a probability."""
    return lambda random: float(random.random() < rate)


def scores(rate: float) -> Draw:
    """Return normal scores that are 0.8 or more with a probability."""
    from scipy.special import ndtri

    mean = 0.8 + float(ndtri(rate)) * STD
    return lambda random: random.normal(mean, STD)


def histories(
    number: int, seed: int, checks: float, required: Requirement, before: Draw, after: Draw, suites: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return runs and verdicts of cases by suite, which drop after LEARNING suites; each is one of a suite of CASES."""
    runs, verdicts = np.zeros((number, suites), int), np.zeros((number, suites), object)
    for index in range(number):
        random, record = np.random.default_rng([seed, index]), Record(f"case {index}")
        for place in range(suites):
            case, verdict = Case(record, 100, RATE.bound, ALPHA, checks), None
            while verdict is None:
                case.add(case.next_index() or 0, (after if place >= LEARNING else before)(random), required)
                verdict = case.verdict(CASES / ALPHA)
            record.add(case.values, "", is_rate=required.is_rate, against="", keep=verdict != "failed")
            runs[index, place], verdicts[index, place] = len(case.values), verdict
    return runs, verdicts


def failed_suites(verdicts: np.ndarray) -> float:
    """Return the share of suites in % with a failed case; cases are independent, so any CASES of them are a suite."""
    return 100 * float((verdicts == "failed").reshape(-1, CASES).any(axis=1).mean())


def by_suite(repeats: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield runs, false failures and undecided cases of each suite, with rates of 95 %."""
    draw = passes(0.95)
    runs, verdicts = histories(CASES * repeats, seed, 1.4, RATE, draw, draw, LEARNING + 4)
    for place in range(LEARNING + 4):
        column = verdicts[:, place]
        row: dict[str, object] = {"suite": place + 1, "runs per case": f"{runs[:, place].mean():.2f}"}
        row["undecided in %"] = f"{100 * (column == 'undecided').mean():.1f}"
        yield row | {"suites that fail falsely in %": failed_suites(column), "of suites": repeats}
    last = {"suite": "plain pytest", "runs per case": "1", "undecided in %": "0"}
    yield last | {"suites that fail falsely in %": 100 * (1 - 0.95**CASES), "of suites": "all"}


def found(repeats: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield how soon the drop of one case is found."""
    kinds = {"passed or failed": (passes, RATE), "graded score": (scores, MEAN)}
    for kind, (draws, required) in kinds.items():
        for checks in (1.0, 1.4, 2.0, 4.0):
            runs, verdicts = histories(10 * repeats, seed, checks, required, draws(0.95), draws(0.5), LEARNING + 4)
            by = np.maximum.accumulate(verdicts[:, LEARNING:] == "failed", axis=1).mean(axis=0)
            row: dict[str, object] = {"cases": kind, "--l3d-checks": checks}
            row["runs per case before"] = f"{runs[:, LEARNING - 1].mean():.2f}"
            row["runs that find it"] = f"{runs[:, LEARNING:][verdicts[:, LEARNING:] == 'failed'].mean():.0f}"
            yield row | {f"found by suite {place + 1} in %": 100 * value for place, value in enumerate(by)}


def at_the_bound(repeats: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield how often a suite fails whose cases all just meet their requirement."""
    kinds = {"passed or failed": (passes, RATE), "graded score": (scores, MEAN)}
    for kind, (draws, required) in kinds.items():
        _, verdicts = histories(CASES * repeats, seed, 1.4, required, draws(0.8), draws(0.8), 2)
        yield {"cases": kind, "first suite": failed_suites(verdicts[:, 0]), "second": failed_suites(verdicts[:, 1])}


def without_a_difference(repeats: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield how often a first suite fails whose cases do not differ from the twenty recorded runs of each."""
    for kind, correlation in (("other noise", 0.0), ("mostly the same noise", 0.9), ("equal", 1.0)):
        verdicts = np.zeros((CASES * repeats, 1), object)
        for index in range(len(verdicts)):
            random = np.random.default_rng([seed, index])
            base = dict(enumerate(random.normal(size=PATIENCE).tolist()))
            case, verdict = Case(Record(str(index), runs={"main": base}), PATIENCE, 0.8, ALPHA, 1.4), None
            while (number := case.next_index()) is not None and verdict is None:
                noise = math.sqrt(1 - correlation**2) * random.normal()
                case.add(number, correlation * base[number] + noise, Requirement(0.0, label="main"))
                verdict = case.verdict(CASES / ALPHA)
            verdicts[index] = verdict
        yield {"differences": kind, "suites that fail falsely in %": failed_suites(verdicts), "of suites": repeats}


def skewed(repeats: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield the verdicts of single cases of 20 runs whose mean is exactly what is required."""
    kinds: dict[str, tuple[Draw, Requirement]] = {
        "normal": (lambda random: random.normal(), Requirement(0.0)),
        "exponential loss": (lambda random: random.exponential(), Requirement(-1.0, -1.0)),
        "log-normal loss, sigma 0.5": (lambda random: random.lognormal(0, 0.5), Requirement(-math.exp(0.125), -1.0)),
        "log-normal loss, sigma 1": (lambda random: random.lognormal(), Requirement(-math.exp(0.5), -1.0)),
        "10 % of runs collapse": (
            lambda random: random.normal(0.9, 0.01) - 0.4 * (random.random() < 0.1),
            Requirement(0.86),
        ),
        "5 % of runs are high": (
            lambda random: random.normal(0.8, 0.001) + 0.15 * (random.random() < 0.05),
            Requirement(0.8075),
        ),
    }
    for kind, (draw, required) in kinds.items():
        verdicts = []
        for index in range(10 * repeats):
            random, case, verdict = (
                np.random.default_rng([seed, index]),
                Case(Record(str(index)), 20, 0.8, ALPHA, 1.4),
                None,
            )
            while verdict is None:
                case.add(case.next_index() or 0, float(draw(random)), required)
                verdict = case.verdict(1 / ALPHA)
            verdicts.append(verdict)
        yield {"scores": kind} | {
            f"{each} in %": 100 * verdicts.count(each) / len(verdicts) for each in ("passed", "failed")
        }


def procedures(repeats: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield how many of some broken cases each procedure finds with at most 60 runs each."""
    from mlflow_l3d.analysis.planning.evidence import evidence_of_lower_rate

    for broken in (1, 10, 50):
        shares = np.zeros((repeats, 4))
        runs = np.zeros((repeats, 2))
        for repeat in range(repeats):
            random = np.random.default_rng([seed, repeat])
            paths = []
            for index in range(CASES):
                good = np.cumsum(random.random(60) < (0.5 if index < broken else 0.95))
                paths.append([evidence_of_lower_rate(int(k), n - int(k), 0.8) for n, k in enumerate(good, 1)])
            order = random.permutation(CASES)
            for column, online in enumerate((False, True)):
                failed = 0
                for index in order:
                    needed = CASES / (ALPHA * (1 + failed * online))
                    crossed = next((n for n, value in enumerate(paths[index], 1) if value >= needed), None)
                    failed += crossed is not None
                    if index < broken:
                        shares[repeat, column] += (crossed is not None) / broken
                        runs[repeat, column] += (crossed or 60) / broken
            last = [path[-1] for path in paths]
            shares[repeat, 2] = sum(_claims_at_once(last)[:broken]) / broken
            for rank, index in enumerate(np.argsort(last)[::-1]):  # Holm on 1 / e
                if last[index] < (CASES - rank) / ALPHA:
                    break
                shares[repeat, 3] += (index < broken) / broken
        found, cost = 100 * shares.mean(axis=0), runs.mean(axis=0)
        yield {
            "broken": broken,
            "Bonferroni (runs)": f"{found[0]:.0f} ({cost[0]:.0f})",
            "e-LOND (runs)": f"{found[1]:.0f} ({cost[1]:.0f})",
            "e-BH after 60 runs": f"{found[2]:.0f}",
            "Holm after 60 runs": f"{found[3]:.0f}",
        }


def _claims_at_once(evidence: list[float]) -> list[bool]:
    """Return which claims hold, whose e-values are known at the same time (e-BH, Wang and Ramdas 2022)."""
    ranked, claimed = sorted(evidence, reverse=True), 0
    for rank, value in enumerate(ranked, 1):
        if value >= len(ranked) / (ALPHA * rank):
            claimed = rank
    return [bool(claimed) and value >= ranked[claimed - 1] for value in evidence]


def overhead(*_: int) -> Iterator[dict[str, object]]:
    """Yield what a run of an empty test costs, and what the plugin adds to the start of pytest."""
    test = "import pytest\n@pytest.mark.luck\n@pytest.mark.parametrize('case', range({cases}))\n"
    bodies = {"passed or failed": "assert luck.seed >= 0", "graded score": "luck.score(luck.seed % 97).at_least(-500)"}
    for kind, body in bodies.items():
        seconds, runs = {}, {}
        for cases in (1, 101):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "test_it.py").write_text(f"{test.format(cases=cases)}def test_it(luck, case): {body}\n")
                command = [sys.executable, "-m", "pytest", "-q", "-p", "mlflow_l3d.pytest_luck", "--l3d"]
                begin = time.perf_counter()
                subprocess.run([*command, "--l3d-json", "o.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
                seconds[cases] = time.perf_counter() - begin
                runs[cases] = json.loads((Path(folder) / "o.json").read_text())["runs"]
        each = (seconds[101] - seconds[1]) / (runs[101] - runs[1])
        yield {"cases": kind, "ms per run, with pytest's own": f"{1000 * each:.2f}", "runs": runs[101]}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200, help="simulated histories of suites")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the title of the one table to print")
    given = parser.parse_args()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    shown = {
        f"Suites of {CASES} cases that pass in 95 % of runs, 80 % required": by_suite,
        f"One of {CASES} cases drops from 95 to 50 %, once the noise is known": found,
        "Suites in % that fail though each case just meets its requirement (at most 5)": at_the_bound,
        f"Suites of {CASES} cases that do not differ from their recorded runs": without_a_difference,
        "One case of 20 runs whose mean is exactly what is required (5 % at most, of normal scores)": skewed,
        "Found in % of broken cases (50 % pass, 80 % required), by procedure": procedures,
        "Overhead": overhead,
    }
    print(machine(), f"{given.repeats} histories, alpha 5 %", sep="\n", end="\n\n")
    for title, rows in shown.items():
        if given.only in title:
            listed = list(rows(given.repeats, given.seed))
            print(f"## {title}", table(list(listed[0]), [list(row.values()) for row in listed]), sep="\n\n", end="\n\n")


if __name__ == "__main__":
    main()

"""The interval of what the published importance tends to, and how often a verdict is false or missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
from _levels import drawn
from _tables import (
    Array,
    Shape,
    Variances,
    crossed,
    exponential,
    generator_of,
    heaviest,
    log_normal,
    nested,
    normal,
    text_of,
)

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.checks import all_checks
from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.estimators import CROSSED, LEVELS, NESTED, TableModel
from mlflow_l3d.analysis.importance.long_run import published_interval
from mlflow_l3d.analysis.importance.verdicts import verdict_of

SPREAD_OF_ROWS: Final = 0.72
"""Variance of row means over the squared mean spread of rows, where rows are uneven."""
HALF: Final[tuple[Variances, ...]] = ((0.5, 0.5, 0.0), (0.5, 0.0, 0.5))
MOST: Final[tuple[Variances, ...]] = ((0.2, 0.8, 0.0), (0.2, 0.4, 0.4), (0.2, 0.0, 0.8))
DRAW: Final[Mapping[str, Callable[..., Array]]] = {"crossed": crossed, "nested": nested}
SHAPES: Final[Mapping[str, Shape]] = {"normal": normal, "exponential": exponential, "log-normal": log_normal}

Draw = Callable[[int, int, bool], Array]


def published_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: which rows, what the published importance tends to, and how often the interval holds it."""
    for model in (CROSSED, NESTED):
        for rows, columns in ((20, 10), (100, 10)):
            generator = np.random.default_rng([21, rows, model.shared_columns])
            for name, true, draw in _worlds(generator):
                held = 0
                for _ in range(tables):
                    table = draw(rows, columns, model.shared_columns)
                    golden = draw(rows * columns, 1, False)[:, 0]
                    low, high = published_interval(table, golden, model)
                    held += low <= true <= high
                yield [model.name, f"{rows} x {columns}", name, f"{true:+.2f}", f"{100 * held / tables:.1f}"]


def _worlds(generator: np.random.Generator) -> Iterator[tuple[str, float, Draw]]:
    for variances in (*HALF, (0.9, 0.1, 0.0)):

        def even(rows: int, columns: int, shared: bool, variances: Variances = variances) -> Array:
            return DRAW["crossed" if shared else "nested"](generator, rows, columns, variances)

        yield f"even, {text_of(variances)}", math.sqrt(variances[1] + variances[2]) - math.sqrt(variances[0]), even
    for unevenness in (0.3, 1.0):

        def uneven(rows: int, columns: int, shared: bool, unevenness: float = unevenness) -> Array:
            spread = generator.gamma(1 / unevenness, unevenness, (rows, 1))
            main = generator.standard_normal((1 if shared else rows, columns))
            within = math.sqrt(0.5) * (main + generator.standard_normal((rows, columns)))
            return math.sqrt(SPREAD_OF_ROWS) * generator.standard_normal((rows, 1)) + spread * within

        whole = math.sqrt(1 + unevenness + SPREAD_OF_ROWS)
        yield f"uneven, {unevenness:g}", (1 - math.sqrt(SPREAD_OF_ROWS)) / whole, uneven

    def product(rows: int, columns: int, shared: bool) -> Array:
        of_rows, own = generator.standard_normal((rows, 1)), generator.standard_normal((1 if shared else rows, columns))
        return np.asarray(of_rows + own + of_rows * own)

    mean = math.sqrt(2 / math.pi) * math.exp(-0.5) + math.erf(math.sqrt(0.5))  # of |1 + x|, x normal
    yield "R + F + R F", (mean - 1) / math.sqrt(3), product


def verdict_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: the share of verdicts where S_T is one half (all are false), and where it is .8."""
    for rows, columns in ((20, 3), (20, 10)):
        for unevenness, some in ((0.3, False), (1.0, False), (0.0, True)):
            generator, words = np.random.default_rng([23, rows, columns, round(10 * unevenness)]), []
            for _ in range(tables):
                table = _uneven(generator, rows, columns, unevenness)
                if some:  # three rows in four have one score
                    table[rows // 4 :, 1:] = math.nan
                words.append(_word(table, _uneven(generator, rows * columns, 1, unevenness)[:, 0], NESTED))
            name = "one score in 3 rows of 4" if some else f"rows of unevenness {unevenness:g}"
            yield ["nested", f"{rows} x {columns}", name, text_of(HALF[0]), *_shares(words)]
    for rows, runs in ((20, 20), (20, 80), (50, 200), (100, 400)):
        for name, shape in {"normal": normal, "t3": heaviest}.items():
            for variances in (HALF[0], MOST[0]):
                generator, words = generator_of(24, rows + runs, variances), []
                for _ in range(tables):
                    every = drawn(generator, runs, 4, variances, shape)
                    golden = every[np.arange(runs), generator.integers(4, size=runs)]
                    words.append(_word(drawn(generator, rows, 4, variances, shape), golden, LEVELS))
                yield ["levels", f"{rows} x 4, {runs} golden", name, text_of(variances), *_shares(words)]
    for model in (CROSSED, NESTED):
        for rows, columns in ((3, 3), (5, 5), (20, 10)):
            for name, shape in SHAPES.items():
                settings = (*HALF, *(MOST if (rows, name) == (20, "normal") else ()))
                for variances in settings if model.shared_columns else settings[::2]:
                    generator, words = generator_of(22, rows, variances), []
                    for _ in range(tables):
                        table = DRAW[model.name](generator, rows, columns, variances, shape)
                        golden = nested(generator, rows * columns, 1, variances, shape)[:, 0]
                        words.append(_word(table, golden, model))
                    yield [model.name, f"{rows} x {columns}", name, text_of(variances), *_shares(words)]


def _uneven(generator: np.random.Generator, rows: int, columns: int, unevenness: float) -> Array:
    """Return a nested table with a share of one half, whose rows have standard deviations of their own."""
    spread = generator.gamma(1 / unevenness, unevenness, (rows, 1)) if unevenness else np.ones((rows, 1))
    within = spread / math.sqrt(1 + unevenness) * generator.standard_normal((rows, columns))
    return np.asarray(math.sqrt(0.5) * (generator.standard_normal((rows, 1)) + within))


def _word(table: Array, golden: Array, model: TableModel) -> str:
    record = importance(table, golden, factor="f", model=model)
    evidence = Evidence(importances={"f": record}, golden=golden, model=model)
    return verdict_of(record, all_checks(evidence)).word


def _shares(words: list[str]) -> list[str]:
    return [f"{100 * words.count(word) / len(words):.1f}" for word in ("dominates", "minor")]

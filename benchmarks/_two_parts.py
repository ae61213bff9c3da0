"""Simulated scores of which some runs collapse, and scores with long tails: what their intervals hold, what is said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from _tables import (
    SETTINGS,
    Array,
    Shape,
    Variances,
    crossed,
    exponential,
    generator_of,
    heavy,
    log_normal,
    nested,
    normal,
    radial,
    skewed,
    truth,
)

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.shape import tails, tails_of_rows
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.intervals import wilson_interval
from mlflow_l3d.designs import Design, design_named

SHARE: Final = 0.1
DOWN: Final = -8.0
KINDS: Final = ("runs at random", "the factor decides", "the others decide")
DESIGNS: Final = (("crossed", 20), ("crossed", 100), ("nested", 20), ("nested", 100), ("radial", 20), ("radial", 100))
SHAPES: Final[Mapping[str, Shape]] = {
    "normal": normal,
    "skewness 1": skewed,
    "t, 5 degrees": heavy,
    "exponential": exponential,
    "log-normal": log_normal,
}


def drawn(
    design: type[Design], generator: np.random.Generator, rows: int, variances: Variances, shape: Shape = normal
) -> Tables:
    """Return the scores of one investigation of factor ``f``; in the radial design, those of a second one, too."""
    if design.tables_are_golden:
        sets = radial(generator, rows, variances, shape)
        return Tables({"f": sets[:, [1]], "others": sets[:, [2]]}, base=sets[:, 0])
    table = (crossed if design.model.shared_columns else nested)(generator, rows, 10, variances, shape)
    return Tables({"f": table}, nested(generator, 10 * rows, 1, variances, shape)[:, 0])


def fallen(design: type[Design], generator: np.random.Generator, scores: Tables, kind: str) -> Tables:
    """Return the same scores, those of the runs that collapse below any other."""
    rows, columns = scores.tables["f"].shape
    if design.tables_are_golden:
        first, second, third = generator.random((3, rows)) < SHARE
        own, others = {KINDS[0]: (second, third), KINDS[1]: (second, first), KINDS[2]: (first, second)}[kind]
        swaps = {"f": own, "others": others}
        tables = {name: _down(scores.tables[name], which[:, None]) for name, which in swaps.items()}
        return Tables(tables, base=_down(scores.base, first))
    whole = (rows, columns)
    shape = {KINDS[0]: whole, KINDS[1]: (1, columns) if design.model.shared_columns else whole, KINDS[2]: (rows, 1)}
    table = _down(scores.tables["f"], generator.random(shape[kind]) < SHARE)
    return Tables({"f": table}, _down(scores.golden, generator.random(len(scores.golden)) < SHARE))


def collapse_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines of the score in two parts: coverage of the whole, of the others, and of the share."""
    for name, rows in DESIGNS:
        design = design_named(name)
        for kind in KINDS:
            found = []
            for variances in SETTINGS[:3]:
                generator, held = generator_of(7, rows, variances), np.zeros(3)
                for _ in range(tables):
                    scores = fallen(design, generator, drawn(design, generator, rows, variances), kind)
                    rest = scores.changed(lambda values: np.where(values == DOWN, math.nan, values))
                    runs = design.independent(scores)
                    low, high = wilson_interval(int((runs == DOWN).sum()), len(runs))
                    held += *(_holds(design, each, truth(variances)) for each in (scores, rest)), low <= SHARE <= high
                found.append(100 * held / tables)
            yield [name, str(rows), kind, *(_range(column) for column in np.array(found).T)]


def tail_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines of the check of tails: how often it speaks, and coverage with and without it."""
    for name, rows in DESIGNS:
        design = design_named(name)
        for kind, shape in SHAPES.items():
            found = []
            for variances in SETTINGS[:3]:
                generator, spoke, held = generator_of(8, rows, variances), 0, 0
                for _ in range(tables):
                    scores = drawn(design, generator, rows, variances, shape)
                    shapes = (tails(design.golden_scores(scores)), tails_of_rows(records(design, scores)["f"].table))
                    spoke += any(each is not None and each.long for each in shapes)
                    held += _holds(design, scores, truth(variances))
                found.append((100 * spoke / tables, 100 * held / tables))
            yield [name, str(rows), kind, *(_range(column) for column in np.array(found).T)]


def records(design: type[Design], scores: Tables) -> Mapping[str, Importance]:
    """Return the records of an investigation."""
    return design.importances(scores)


def _holds(design: type[Design], scores: Tables, true: float) -> bool:
    record = records(design, scores)["f"]
    return record.importance_corrected_ci_low <= true <= record.importance_corrected_ci_high


def _down(scores: Array, which: np.ndarray) -> Array:
    return np.where(which, DOWN, scores)


def _range(column: Array) -> str:
    return f"{column.min():.1f} to {column.max():.1f}"

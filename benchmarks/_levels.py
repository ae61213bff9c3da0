"""Tables of a fixed list of levels: coverage of our interval, and of the one that takes columns for draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from _tables import Array, Shape, Variances, exponential, generator_of, normal, text_of

from mlflow_l3d.analysis.importance.estimate import importance_of_variances
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.estimators.levels import levels_estimate

SETTINGS: Final[tuple[Variances, ...]] = ((0.5, 0.5, 0.0), (0.5, 0.0, 0.5), (0.9, 0.1, 0.0), (0.1, 0.1, 0.8))
SIZES: Final = ((5, 4), (10, 2), (10, 4), (20, 4), (20, 8), (100, 4))


def drawn(generator: np.random.Generator, rows: int, levels: int, variances: Variances, shape: Shape) -> Array:
    """Return a table of levels that lie evenly apart, with rows and interactions of the given variances, (M, N)."""
    b, a, ab = np.sqrt(variances)
    effects = np.linspace(-1, 1, levels)
    effects = a * effects / effects.std()
    return np.asarray(effects + b * shape(generator, rows, 1) + ab * shape(generator, rows, levels))


def true_importance(levels: int, variances: Variances) -> float:
    """Return the true importance: an interaction of a level with the rows moves their means, too."""
    others, main, both = variances
    return importance_of_variances(main + (1 - 1 / levels) * both, others + both / levels)


def levels_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: coverage with normal and exponential effects, and of the crossed interval of the same tables."""
    for rows, levels in SIZES:
        for variances in SETTINGS:
            true, inside = true_importance(levels, variances), np.zeros(3)
            for place, shape in enumerate((normal, exponential)):
                generator = generator_of(30 + place, 10 * rows + levels, variances)
                for _ in range(tables):
                    table = drawn(generator, rows, levels, variances, shape)
                    estimates = (levels_estimate(table), crossed_estimate(table))[: 2 - place]
                    for at, found in zip((place, 2), estimates, strict=False):
                        low, high = found.interval() if found else (math.nan, math.nan)
                        inside[at] += low <= true <= high or (at == 2 and math.isnan(low))
            own, skewed, crossed = (f"{100 * share:.1f}" for share in inside / tables)
            shown = crossed if levels > 2 else "none"
            yield [f"{rows} x {levels}", text_of(variances), f"{true:+.2f}", own, skewed, shown]

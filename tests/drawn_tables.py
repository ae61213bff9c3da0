"""Tables of scores whose variances are known, and how many intervals contain a known truth."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np


def drawn(generator, shape, variances, draw=np.random.Generator.standard_normal):
    """Return scores of shape (M, N) as the sum of effects of rows, columns and cells, or of rows and cells alone."""
    sizes = [(shape[0], 1), (1, shape[1]), shape] if len(variances) == 3 else [(shape[0], 1), shape]
    return sum(math.sqrt(part) * draw(generator, size=size) for part, size in zip(variances, sizes, strict=True))


def drawn_sets(generator, runs, shares, interaction):
    """Return the base runs and swaps of a radial design: factors act alone with these variances, and all together."""
    effects = generator.standard_normal((runs, len(shares)))
    sets = []
    for place in range(-1, len(shares)):
        own = effects.copy()
        if place >= 0:
            own[:, place] = generator.standard_normal(runs)
        sets.append(own @ np.sqrt(shares) + math.sqrt(interaction) * generator.standard_normal(runs))
    return np.column_stack(sets)


def importance_of(share):
    """Return the importance of a factor whose variance is this share of all."""
    return math.sqrt(share) - math.sqrt(1 - share)


def covered(intervals: Iterable[tuple[float, float]], truth: float) -> float:
    """Return the share of the intervals that contain the truth."""
    return float(np.mean([low <= truth <= high for low, high in intervals]))

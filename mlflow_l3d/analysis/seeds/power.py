"""What a study of so many seeds and tasks could have found, had there been a better seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlflow_l3d.analysis.jackknife import LEVEL
from mlflow_l3d.analysis.seeds.friedman import critical_w
from mlflow_l3d.analysis.typing import FloatArray

POWER: Final = 0.8
SIMULATIONS: Final = 2000
_LARGEST: Final = 6.0
"""A seed this many standard deviations better is first on every task: no larger effect is easier to find."""


@dataclass(frozen=True, slots=True)
class SeedPower:
    """The smallest effect that Friedman's test would have found.

    Attributes
    ----------
    seeds, tasks
        k and n.
    power, level
        With which probability, at which level.
    one_better
        How much better one seed would have to be than all others on every task, in standard deviations of scores over
        seeds (VAR); nan where no effect is large enough.
    kendall_w
        Kendall's W of such studies, on average; nan likewise.
    """

    seeds: int
    tasks: int
    power: float
    level: float
    one_better: float
    kendall_w: float


def seed_power(
    seeds: int, tasks: int, *, power: float = POWER, level: float = LEVEL, rng: np.random.Generator | None = None
) -> SeedPower:
    """Return the smallest effect that a study would have found.

    Parameters
    ----------
    seeds, tasks
        k and n, at least two.
    power
        The wanted probability to find it, between ``1 - level`` and 1.
    level
        The test is at ``1 - level``.
    rng
        For the simulation; by default always the same one, so that the same question has the same answer.

    Notes
    -----
    Simulated with normal scores, since formulas for ranks are far off for effects that so few tasks need. 2,000 draws,
    the same ones for every effect: the power that is met is uncertain by one percentage point.
    """
    generator = np.random.default_rng(np.random.SeedSequence(0)) if rng is None else rng
    noise = generator.standard_normal((SIMULATIONS, tasks, seeds))
    low, high = 0.0, _LARGEST
    if not _rejections(noise, high, level)[0] >= power:
        return SeedPower(seeds, tasks, power, level, math.nan, math.nan)
    while high - low > 0.005:
        middle = (low + high) / 2
        enough = _rejections(noise, middle, level)[0] >= power
        low, high = (low, middle) if enough else (middle, high)
    return SeedPower(seeds, tasks, power, level, high, _rejections(noise, high, level)[1])


def _rejections(noise: FloatArray, one_better: float, level: float) -> tuple[float, float]:
    """Return the share of studies in which the test rejects, and their mean W."""
    from scipy.stats import rankdata

    tasks, seeds = noise.shape[1:]
    scores = noise.copy()
    scores[:, :, 0] += one_better
    sums = rankdata(scores, axis=2).sum(axis=1) - tasks * (seeds + 1) / 2
    w = 12 * np.square(sums).sum(axis=1) / (tasks**2 * seeds * (seeds**2 - 1))
    return float((w > critical_w(seeds, tasks, level)).mean()), float(w.mean())

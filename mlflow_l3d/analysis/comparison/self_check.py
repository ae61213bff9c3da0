"""A/A: how often a difference is claimed if there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlflow_l3d.analysis.comparison.covariance import mean_scores
from mlflow_l3d.analysis.comparison.difference import p_value, spread
from mlflow_l3d.analysis.comparison.system import Pairing, System
from mlflow_l3d.analysis.importance.checks.shape import wilson_interval
from mlflow_l3d.analysis.intervals import LEVEL


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """False claims among comparisons of a system with itself.

    Attributes
    ----------
    what
        What was compared: a system for halves of its runs, or two of them for runs swapped between them.
    repeats, claims
        How many comparisons, and how many of them claimed a difference.
    nominal
        Share of false claims that the level allows.
    """

    what: str
    repeats: int
    claims: int
    nominal: float

    @property
    def rate(self) -> float:
        """Share of false claims."""
        return self.claims / self.repeats

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the rate over more repeats: so far its own luck goes."""
        return wilson_interval(self.claims, self.repeats)

    @property
    def holds(self) -> bool:
        """Whether the rate is at most nominal, but for the luck of so many repeats."""
        return self.interval[0] <= self.nominal


def halves(system: System, repeats: int, *, seed: int, level: float = LEVEL, what: str = "") -> SelfCheck:
    """Compare two random halves of the runs of one system, four runs or more, again and again."""
    generator = np.random.default_rng(seed)
    half = system.runs // 2

    def draw() -> tuple[System, System]:
        order = generator.permutation(system.runs)
        return system.chosen(np.sort(order[:half])), system.chosen(np.sort(order[half:]))

    return _checked(what or system.name, draw, repeats, level)


def swapped(
    one: System, other: System, pairing: Pairing, repeats: int, *, seed: int, level: float = LEVEL, what: str = ""
) -> SelfCheck:
    """Swap the two runs of each shared configuration, or do not, by the toss of a coin, and compare what comes out.

    What either system gains by that is luck, so every claim is false; the comparison is paired, as that of the systems.
    """
    generator = np.random.default_rng(seed)
    together = _joined(one.chosen(pairing.first), other.chosen(pairing.second))
    count = len(pairing.first)

    def draw() -> tuple[System, System]:
        places = np.where(generator.random(count) < 0.5, 0, count)
        return together.chosen(np.arange(count) + places), together.chosen(np.arange(count) + count - places)

    return _checked(what or f"{one.name}-{other.name}", draw, repeats, level)


def _checked(what: str, draw: Callable[[], tuple[System, System]], repeats: int, level: float) -> SelfCheck:
    claims = 0
    for _ in range(repeats):
        means = mean_scores(draw())
        claims += p_value(float(means.means[0] - means.means[1]), spread(means, 0, 1)) <= 1 - level
    return SelfCheck(what, repeats, claims, 1 - level)


def _joined(first: System, second: System) -> System:
    """Return the runs of two systems as those of one, without what is right: means do not need it."""
    names = ("scores", "unit", "share")
    joined: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in (first, second)]) for name in names}
    joined["run"] = np.concatenate([first.run, second.run + first.runs])
    common = [name for name in first.configurations if name in second.configurations]
    sides = (first.configurations, second.configurations)
    joined["configurations"] = {name: np.concatenate([side[name] for side in sides]) for name in common}
    return replace(first, **joined, right=first.right[:0])

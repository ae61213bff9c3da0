"""What runs vary by in a session: learned from the baseline once, and from every candidate that ran twice or more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.studies.referee.numbers.spread import Spread

_MOST: Final = 6.0
"""A candidate whose runs vary more, in units of the champions' variance, counts as if by so much: one that collapses
now and then says nothing of the others."""
_DOUBT: Final = 2.0
"""Degrees of freedom that stand for a correlation of 1/2 before any pair is known."""


@dataclass(frozen=True)
class Noise:
    """How single runs vary.

    Attributes
    ----------
    std
        Standard deviation of the runs of one system over seeds.
    correlation
        Of the scores of two systems with equal seeds; 0 if they share none.
    degrees
        Degrees of freedom of `std`.
    spread
        How much candidates vary; None before any run.
    """

    std: float
    correlation: float
    degrees: float
    spread: Spread | None = field(default=None, compare=False)


@dataclass
class NoiseSoFar:
    """Sums of squares that the noise is estimated from.

    Attributes
    ----------
    shares_seeds
        Whether runs with equal numbers have equal seeds.
    """

    shares_seeds: bool = True
    _champions: float = 0.0
    _champion_degrees: float = 0.0
    _candidates: float = 0.0
    _products: float = 0.0
    _beside: float = 0.0
    _candidate_degrees: float = 0.0
    _spread: Spread | None = field(default=None, compare=False)

    def add_champion(self, scores: Iterable[float]) -> None:
        """Take in the runs of a champion, which nothing selected: those of the baseline, and fresh ones."""
        finite = _finite(scores)
        if len(finite) > 1:
            self._champions += float(np.square(finite - finite.mean()).sum())
            self._champion_degrees += len(finite) - 1
            if self._spread is None and self._champions:
                self._spread = Spread.of_baseline(self._champions / self._champion_degrees, self._champion_degrees)

    def add_candidate(self, scores: FloatArray, champion: FloatArray) -> None:
        """Take in the runs of a candidate, and those of the champion with the same numbers."""
        both = np.isfinite(scores) & np.isfinite(champion)
        if both.sum() < 2 or self._spread is None:
            return
        centred, other = scores[both] - scores[both].mean(), champion[both] - champion[both].mean()
        degrees, variance = len(centred) - 1, self._champions / self._champion_degrees
        square = float(centred @ centred)
        correlation = self.estimate().correlation
        left = centred - correlation * other
        self._spread = self._spread.after(float(left @ left) / (1 - correlation**2), degrees)
        weight = min(1.0, _MOST * variance * degrees / square) if square else 1.0
        self._candidates += weight * square
        self._products += weight * float(centred @ other)
        self._beside += weight * float(other @ other)
        self._candidate_degrees += degrees

    def estimate(self) -> Noise:
        """Return the noise so far."""
        degrees = self._champion_degrees + self._candidate_degrees
        variance = (self._champions + self._candidates) / degrees if degrees else 0.0
        if not self.shares_seeds or not variance:
            return Noise(variance**0.5, 0.0, degrees, self._spread)
        doubt = _DOUBT * variance
        root = ((self._candidates + doubt) * (self._beside + doubt)) ** 0.5
        correlation = (self._products + doubt / 2) / root
        return Noise(variance**0.5, min(max(correlation, 0.0), 0.999), degrees, self._spread)


def _finite(scores: Iterable[float]) -> FloatArray:
    values = np.array(list(scores), dtype=np.float64)
    return values[np.isfinite(values)]

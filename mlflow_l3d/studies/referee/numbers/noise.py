"""What runs vary by in a session: learned from the baseline once, and from every candidate that ran twice or more."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from mlflow_l3d.analysis.intervals import FloatArray

_LOG: Final = np.arange(-4.0, 20.0, 0.25)
_RATIOS: Final = np.exp(_LOG)
"""Variances of candidates that are taken to be possible, in units of the baseline's."""
_BROAD: Final = 0.05
"""Weight of all of them together, before any candidate; the rest is near the baseline's."""
_FIRST: Final = 2.0
"""So many candidates count as much as what is assumed before any."""
WIDTHS: Final = np.array([1.0, 4.0, 10_000.0])
"""Gains that are looked for, in units of the smallest one that is worth finding."""
SHARES: Final = np.array([0.49, 0.49, 0.02])
"""Their weights. Without the last one a huge gain is evidence of a huge variance instead, and is rejected."""


class Measured(NamedTuple):
    """What the runs of a candidate say.

    Attributes
    ----------
    gain, runs
        Estimated, from how many runs.
    square
        Sum of their squared deviations from their mean, without what they share with the champion's.
    share, variance
        Part of a run's variance that remains without that; and the variance that counts at least: few or skewed scores
        may vary less by luck.
    of_champion
        Variance of the gain that is due to the runs of a champion that varies as the baseline does.
    least
        Variance of the gain at least.
    """

    gain: float
    runs: float
    square: float
    share: float
    variance: float
    of_champion: float
    least: float


@dataclass(frozen=True, eq=False)
class Spread:
    """How likely each variance of a candidate's runs is, from the candidates before it.

    Attributes
    ----------
    unit
        Variance of the baseline's runs.
    weights
        Of each ratio to it.
    """

    unit: float
    weights: FloatArray

    @classmethod
    def of_baseline(cls, variance: float, degrees: float) -> Spread:
        """Return what is assumed before any candidate: about the baseline's variance, as well as that is known."""
        near = np.exp(-degrees / 2 * (_LOG + 1 / _RATIOS - 1))
        return cls(variance, _FIRST * ((1 - _BROAD) * near / near.sum() + _BROAD / len(_LOG)))

    def after(self, square: float, degrees: float) -> Spread:
        """Return it after a candidate whose runs have this sum of squares.

        Each adds a weight of 1, shared by how likely it makes the ratios (predictive recursion: Newton 2002, "On a
        nonparametric recursive estimator of the mixing distribution", Sankhya A 64).
        """
        log = np.log(self.weights) + self._of_squares(square, degrees)
        likely = np.exp(log - log.max())
        return Spread(self.unit, self.weights + likely / likely.sum())

    def evidence(self, measured: Measured, effects: FloatArray) -> float:
        """Return the e-value against "no gain" of a candidate whose variance is not known.

        Parameters
        ----------
        measured
            Its runs so far.
        effects
            Gains that are worth finding, see :func:`~mlflow_l3d.analysis.planning.evidence.evidence_of_gain`.

        Notes
        -----
        The likelihood with a gain, over that without one, each a mean over all variances with their weights: an e-value
        if candidates have such variances. For a variance with a share w of the weights its mean is 1/w at most, so that
        variances that were never seen cost false claims for the first few candidates that have them.
        """
        log = float(self._logs(measured, effects, np.array([measured.gain]), one_sided=True)[0])
        return math.exp(min(log, 700.0))

    def half_width(self, measured: Measured, effects: FloatArray, needed: float) -> float:
        """Return the smallest difference from the estimate that two-sided evidence of `needed` speaks against.

        The estimate with so much on either side is a confidence sequence that belongs to :meth:`evidence`: it excludes
        0 if that is 2 `needed` or more. inf if there is none.
        """
        low, high = 1e-3 * math.sqrt(self.unit), 1e3 * math.sqrt(self.unit)
        for _ in range(3):
            gains = np.unique([*np.geomspace(low, high, 12), abs(measured.gain) or low])
            over = self._logs(measured, effects, gains, one_sided=False) >= math.log(needed)
            if not over.any():
                return math.inf
            place = int(over.argmax())
            low, high = float(gains[max(place - 1, 0)]), float(gains[place])
        return float(high)

    def _logs(self, measured: Measured, effects: FloatArray, gains: FloatArray, *, one_sided: bool) -> FloatArray:
        """Return the logarithm of the evidence for each of these gains."""
        from scipy.special import log_ndtr

        _, runs, square, share, variance, of_champion, least = measured
        if square > share * self.unit * _RATIOS[-1] * runs:
            return np.full(len(gains), -math.inf)  # the baseline does not vary at all next to it
        squares = np.maximum(
            share * np.maximum(self.unit * _RATIOS, variance) / runs + of_champion * np.maximum(_RATIOS, 1.0), least
        )
        none = np.log(self.weights) + self._of_squares(square / share, runs - 1.0)
        none = none - np.log(squares) / 2 - np.square(gains)[:, None, None] / squares / 2
        left = squares / (squares + np.square(effects)[:, None])
        deviations = gains[:, None, None] * np.sqrt((1 - left) / squares)
        some = none + np.log(left) / 2 + deviations**2 / 2 + np.log(SHARES)[:, None]
        some += math.log(2) + log_ndtr(deviations) if one_sided else 0.0
        logs: FloatArray = np.logaddexp.reduce(some, axis=(1, 2)) - np.logaddexp.reduce(none, axis=(1, 2))
        return logs

    def _of_squares(self, square: float, degrees: float) -> FloatArray:
        """Return the logarithm of the likelihood of a sum of squares, for each ratio."""
        likely: FloatArray = -degrees / 2 * _LOG - square / self.unit / _RATIOS / 2
        return likely


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
        finite = np.array([score for score in scores if math.isfinite(score)])
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
        centred = scores[both] - scores[both].mean()
        other = champion[both] - champion[both].mean()
        degrees = len(centred) - 1
        variance = self._champions / self._champion_degrees
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

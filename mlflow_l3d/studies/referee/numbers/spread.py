"""How much runs of candidates vary: learned over a session, for what the runs of one say of its gain."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
            Gains that are worth finding, see :func:`~mlflow_l3d.analysis.sequential.evidence.evidence_of_gain`.

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
        some = none + np.log(left) / 2 + deviations**2 / 2
        some += math.log(2) + log_ndtr(deviations) if one_sided else 0.0
        logs: FloatArray = np.logaddexp.reduce(some, axis=(1, 2)) - np.logaddexp.reduce(none, axis=(1, 2))
        return logs - math.log(len(effects))

    def _of_squares(self, square: float, degrees: float) -> FloatArray:
        """Return the logarithm of the likelihood of a sum of squares, for each ratio."""
        likely: FloatArray = -degrees / 2 * _LOG - square / self.unit / _RATIOS / 2
        return likely

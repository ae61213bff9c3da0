"""The corrected importance of one table with its error: an interval at any level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from mlflow_l3d.analysis.importance.variances import MeanSquares, VarianceComponents
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, combined_error, t_quantile

BOUNDARY_TAIL: Final = 0.025
"""One-sided level of the F test for rows that differ; the jackknife is used only where they do."""
SMALLEST_P: Final = 1e-12
"""A p-value found by search is not followed below this."""
SMALLEST_SHARE: Final = 1e-9
Variances = tuple[FloatArray, FloatArray]
"""Contributed and mitigated variance of several tables; the latter may be below zero."""


def importance_of_logit(logit: float) -> float:
    """Return ``sqrt(S_T) - sqrt(1 - S_T)`` for ``logit(S_T)``."""
    share = math.exp(-abs(logit))
    larger = math.sqrt(1 / (1 + share))
    smaller = math.sqrt(share / (1 + share))
    return math.copysign(larger - smaller, logit)


def total_index_of(importance: float) -> float:
    """Return the S_T that belongs to a corrected importance: the inverse of ``sqrt(S) - sqrt(1 - S)``."""
    return (1 + importance * math.sqrt(max(0.0, 2 - importance**2))) / 2


def importance_of_variances(contributed: float, mitigated: float) -> float:
    """Return the importance that two variances make; nan if both are zero."""
    total = contributed + mitigated
    return math.sqrt(contributed / total) - math.sqrt(mitigated / total) if total > 0 else math.nan


def importances_of_variances(contributed: FloatArray, mitigated: FloatArray) -> FloatArray:
    """Return the corrected importance that pairs of variances make; what is mitigated may be below zero."""
    others = np.maximum(0.0, mitigated)
    return (np.sqrt(contributed) - np.sqrt(others)) / np.sqrt(contributed + others)


def importance_of_atanh(value: float) -> float:
    """Return ``sqrt(S_T) - sqrt(1 - S_T)`` for ``atanh(1 - S_T)``; 1 where S_T is above 1."""
    others_share = max(0.0, math.tanh(value))
    return math.sqrt(1 - others_share) - math.sqrt(others_share)


def log_ratio(contributed: FloatArray, mitigated: FloatArray) -> FloatArray:
    """Return ``log(contributed / mitigated)``, which is logit(S_T); infinite or nan if one is not above zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logits: FloatArray = np.log(np.maximum(0.0, contributed)) - np.log(np.maximum(0.0, mitigated))
    return logits


def atanh_left(contributed: FloatArray, mitigated: FloatArray) -> FloatArray:
    """Return ``atanh(1 - S_T)``, which has a value up to S_T = 2; infinite or nan beyond."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values: FloatArray = np.arctanh(mitigated / (contributed + mitigated))
    return values


class Skewed(NamedTuple):
    """A part of the contributed variance that is a mean square of few draws.

    Its logarithm has an error that barely depends on its value, that of a sum of it and another part does not: such an
    interval lies too low (Graybill and Wang 1980; Zou and Donner 2008).

    Attributes
    ----------
    share
        Of the contributed variance, in [0, 1].
    error
        Of the part's logarithm.
    upward
        The least error that the upper end counts: few draws rarely show the long tail of their distribution.
    """

    share: float
    error: float
    upward: float = 0.0


NOT_SKEWED: Final = Skewed(1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Jackknife:
    """S_T on a scale, with its jackknife error and degrees of freedom.

    Attributes
    ----------
    centre, error, degrees
        The value, its error and degrees of freedom.
    skewed
        The part whose error is not the same on both sides; its scale is the logit.
    importance
        Value on the scale -> importance.
    """

    centre: float
    error: float
    degrees: float
    skewed: Skewed = NOT_SKEWED
    importance: Callable[[float], float] = importance_of_logit

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of the importance at `level`, from t quantiles."""
        quantile = t_quantile(self.degrees, level)
        ends = [self.importance(self.centre + self.shift(each)) for each in (-quantile, quantile)]
        return min(ends), max(ends)

    def shift(self, quantile: float) -> float:
        """Return the distance of the end of an interval from the centre, for a quantile of either sign."""
        share = self.skewed.share
        error = min(self.skewed.error, self.error / max(self.skewed.share, SMALLEST_SHARE))
        rest = max(0.0, self.error**2 - (share * error) ** 2)
        error = max(error, self.skewed.upward) if quantile > 0 else error
        constant = math.log1p(-share) if share < 1 else -math.inf
        part = float(np.logaddexp(constant, math.log(share) + quantile * error))
        return math.copysign(math.hypot(quantile * math.sqrt(rest), part), quantile)


def leave_out(
    contributed: float,
    mitigated: float,
    *without: Variances,
    scale: Callable[[FloatArray, FloatArray], FloatArray] = log_ratio,
    importance: Callable[[float], float] = importance_of_logit,
    overlap: float = 0.0,
    skewed: Skewed = NOT_SKEWED,
    most: Sequence[float] = (),
) -> Jackknife | None:
    """Return the jackknife of S_T, variances over rows and columns added; None if a value is not finite.

    Parameters
    ----------
    contributed, mitigated
        The variances.
    without
        As in :class:`Estimate`.
    scale, importance
        (contributed, mitigated) -> value, of arrays, and value -> importance; the logit by default.
    skewed
        As in :class:`Jackknife`.
    overlap
        Part of the variance that leaving out rows and leaving out columns both count.
    most
        As for :func:`~mlflow_l3d.analysis.intervals.combined_error`.
    """
    centre = float(scale(np.array(contributed), np.array(mitigated)))
    values = [scale(*each) for each in without]
    if not (math.isfinite(centre) and all(np.isfinite(each).all() for each in values)):
        return None
    return Jackknife(centre, *combined_error(values, overlap, most), skewed, importance)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Corrected importance of one factor from one complete table.

    Attributes
    ----------
    components
        The variances.
    squares
        The mean squares behind them; None if they come from none.
    jackknife
        S_T with its error; None if that is of no use, as that of a logit where rows do not differ significantly.
    limits
        Level -> interval that is used instead; None if the table is too small for any.
    without
        The variances without each row in turn, and without each column where columns are draws as rows are; empty below
        three rows or columns.
    is_careful
        Whether :meth:`interval` is the careful one.
    """

    components: VarianceComponents
    squares: MeanSquares | None = None
    jackknife: Jackknife | None = None
    limits: Callable[[float], tuple[float, float]] | None = None
    without: tuple[Variances, ...] = ()
    is_careful: bool = False

    @property
    def importance(self) -> float:
        """Corrected importance."""
        return self.components.importance

    @property
    def at_the_end(self) -> bool:
        """Whether rows do not differ significantly, or a share comes out as 1 where a row or column is left out."""
        return self.jackknife is None or any((mitigated <= 0).any() for _, mitigated in self.without)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval at `level`; both ends nan if the table is too small or constant."""
        if math.isnan(self.importance):
            return math.nan, math.nan
        if self.jackknife is not None:
            low, high = self.jackknife.interval(level)
            return self._widened(low, high, level) if self.is_careful else (low, high)
        return self._widened(self.importance, self.importance, level) if self.limits else (math.nan, math.nan)

    def careful_interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the smallest interval that holds both :meth:`interval` and the limits for normal scores.

        For decisions at high levels: far out in its tails the jackknife of few rows of two columns claims a little more
        than it should, and the limits of a nested table are exact for normal scores.
        """
        return self._widened(*self.interval(level), level)

    def _widened(self, low: float, high: float, level: float) -> tuple[float, float]:
        """Return the smallest interval that holds this one and the limits, if there are both."""
        if math.isnan(low) or self.limits is None:
            return low, high
        other_low, other_high = self.limits(level)
        return min(low, other_low), max(high, other_high)


def excludes_zero(low: float, high: float) -> bool:
    """Return whether an interval lies on one side of 0."""
    return low > 0 or high < 0


def smallest_tail(excludes: Callable[[float], bool]) -> float:
    """Return the smallest one-sided tail at which an interval of level ``1 - 2 tail`` excludes a value.

    Parameters
    ----------
    excludes
        Level -> whether the interval excludes it; once it does at a level it must at every lower one.

    Returns
    -------
    float
        In [1e-12, 0.5], or 1 if no interval excludes the value.
    """
    low, high = math.log(SMALLEST_P), math.log(0.499)
    if not excludes(1 - 2 * math.exp(high)):
        return 1.0
    if excludes(1 - 2 * SMALLEST_P):
        return SMALLEST_P
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if excludes(1 - 2 * math.exp(middle)) else (middle, high)
    return math.exp(high)

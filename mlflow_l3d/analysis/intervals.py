"""Intervals: their names and level, errors by leaving one unit out, and those that numbers share; types of arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import ParameterError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
LEVEL: Final = 0.95
"""Confidence level of every interval, unless another is asked for."""
SHARE_ROUNDING: Final = 1e-12
"""Shares that differ by no more are equal."""


class Range(NamedTuple):
    """A number with its interval; nan if unknown."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan

    def times(self, other: Range) -> Range:
        """Return the product of two positive numbers: the errors of their logarithms are independent."""
        value, both = self.value * other.value, (self, other)
        positive = value > 0 and all(each.low > 0 for each in both)
        half = math.hypot(*(math.log(each.high / each.low) / 2 for each in both)) if positive else math.nan
        return Range(value, value * math.exp(-half), value * math.exp(half))

    def plus(self, other: Range) -> Range:
        """Return the sum of two numbers, whose errors are independent."""
        half = math.hypot(self.high - self.low, other.high - other.low) / 2
        return Range(value := self.value + other.value, value - half, value + half)


UNKNOWN: Final = Range()


def with_interval(name: str) -> tuple[str, str, str]:
    """Return the name of a number and those of the ends of its interval, as metrics and columns have them."""
    return name, f"{name}_ci_low", f"{name}_ci_high"


def known(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values that are not nan."""
    return {name: value for name, value in values.items() if not math.isnan(value)}


def check_level(level: float) -> None:
    """Raise ParameterError where a confidence level is not between 0 and 1."""
    if not 0 < level < 1:
        raise ParameterError("level", level, "must be above 0 and below 1, such as 0.95")


def unseen_share(runs: int, level: float) -> float:
    """Return the largest share of runs of a kind that none of so many was, at a level: 1 - (1 - level)^(1 / runs)."""
    return 1 - (1 - level) ** (1 / runs) if runs else 1.0


def t_quantile(degrees: float, level: float = LEVEL) -> float:
    """Return the quantile of Student's t that a two-sided interval at `level` takes."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 1 - (1 - level) / 2))


def t_p_value(difference: float, error: float, degrees: float) -> float:
    """Return the two-sided p-value of "no difference" by Student's t."""
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(difference) / error))


def wilson_interval(
    count: float, of: float, quantile: float | None = None, *, level: float = LEVEL
) -> tuple[float, float]:
    """Return Wilson's (1927) interval of the share of `count` in `of` independent draws; nan if there are none.

    `quantile` takes the place of the normal distribution's.
    """
    from scipy.special import ndtri

    if not of:
        return math.nan, math.nan
    z = quantile or float(ndtri((1 + level) / 2))
    share, spread = count / of, z * z / of
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / of + spread / (4 * of)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def jackknife_variance(left_out: FloatArray) -> float:
    """Return the jackknife variance of an estimate from its values without one unit at a time."""
    count = len(left_out)
    return (count - 1) / count * float(np.square(left_out - left_out.mean()).sum())


def kurtosis_degrees(left_out: FloatArray) -> float:
    """Return the degrees of freedom of a jackknife variance from the kurtosis of its values (Shoemaker 2003).

    One less than there are units for normal values, and fewer if a few units make up the error.
    """
    count, squares = len(left_out), np.square(left_out - left_out.mean())
    kurtosis = count * float(np.square(squares).sum()) / float(squares.sum()) ** 2
    return 2 * count / (kurtosis - (count - 3) / (count - 1))


def means_without(values: FloatArray) -> FloatArray:
    """Return the mean of the values that are known without each in turn; nan below two that are."""
    present = ~np.isnan(values)
    count, total = int(present.sum()), float(np.nansum(values))
    if count < 2:
        return np.full(len(values), math.nan)
    return np.where(present, (total - np.nan_to_num(values)) / (count - 1), total / count)


def combined_error(
    left_out: Sequence[FloatArray], overlap: float = 0.0, most: Sequence[float] = ()
) -> tuple[float, float]:
    """Return the error of an estimate and its degrees of freedom.

    Parameters
    ----------
    left_out
        For each kind of unit that was sampled (rows, columns), the estimate without one unit at a time. Their variances
        are added: all kinds are random.
    overlap
        What several kinds count alike, taken away again; the variance is never below that of one kind.
    most
        The most degrees of freedom of the first kinds.

    Notes
    -----
    Degrees of freedom by Welch and Satterthwaite: each variance has one less than it has units, and counts by its size.
    """
    variances = np.array([jackknife_variance(values) for values in left_out])
    limits = [*most, *[math.inf] * len(left_out)]
    degrees = np.array([min(len(values) - 1, limit) for values, limit in zip(left_out, limits, strict=False)])
    total = float(variances.sum())
    if not total > 0:
        return math.sqrt(total), float(degrees.min())
    error = math.sqrt(max(total - overlap, float(variances.max())))
    return error, 1 / float((np.square(variances / total) / degrees).sum())


def share_interval(estimate: float, left_out: FloatArray) -> tuple[float, float]:
    """Return the 95 % jackknife interval of a share.

    Parameters
    ----------
    estimate
        The share, in [0, 1].
    left_out
        The share without one unit (a run) at a time.

    Returns
    -------
    tuple of float
        Both nan if there are fewer than three units, or leaving units out changes nothing: then there is nothing to
        learn from it.

    Notes
    -----
    On the logit scale, where all shares lie between 0 and 1, else on their own, cut at 0 and 1. t quantiles with one
    degree of freedom less than units.
    """
    from scipy.special import expit, logit

    if len(left_out) < 3 or not np.isfinite(left_out).all() or np.ptp(left_out) <= SHARE_ROUNDING:
        return math.nan, math.nan
    # A share of 1 that was summed may fall short of it by a rounding error, whose logit is one of no meaning.
    every = np.append(left_out, estimate)
    if every.min() <= SHARE_ROUNDING or every.max() >= 1 - SHARE_ROUNDING:
        half = _half_width([left_out])
        return max(0.0, estimate - half), min(1.0, estimate + half)
    centre, half = logit(estimate), _half_width([logit(left_out)])
    return float(expit(centre - half)), float(expit(centre + half))


def ratio_interval(estimate: float, *left_out: FloatArray, level: float = LEVEL) -> tuple[float, float]:
    """Return the jackknife interval of a positive number such as a ratio, on the scale of its logarithm.

    Parameters
    ----------
    estimate
        The ratio.
    left_out
        For each kind of unit that was sampled (rows, columns, golden runs), the ratio without one unit at a time. Their
        variances are added: all kinds are random.
    level
        Confidence level.

    Returns
    -------
    tuple of float
        Both nan if a kind has fewer than three units, or a ratio is not above 0. t quantiles with one degree of
        freedom less than units of the smallest kind.
    """
    if not left_out or min(len(values) for values in left_out) < 3:
        return math.nan, math.nan
    everything = np.concatenate(left_out)
    if not (np.isfinite(everything).all() and everything.min() > 0 and estimate > 0):
        return math.nan, math.nan
    half = _half_width([np.log(values) for values in left_out], level)
    return estimate * math.exp(-half), estimate * math.exp(half)


def _half_width(left_out: Sequence[FloatArray], level: float = LEVEL) -> float:
    degrees = min(len(values) for values in left_out) - 1
    return t_quantile(degrees, level) * math.sqrt(sum(jackknife_variance(values) for values in left_out))


@dataclass(frozen=True, slots=True)
class Source:
    """Where errors come from: the draws of one kind of unit that some points share, or one point by itself.

    Attributes
    ----------
    deviations
        Shape (units, points): their products over units are the variances and covariances that the source brings.
    degrees
        Degrees of freedom of these variances: of few units that decide most of them, fewer than there are units.
    """

    deviations: FloatArray
    degrees: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A number at each of some points.

    Attributes
    ----------
    values
        Shape (points,), finite.
    sources
        Where their errors come from; independent of each other.
    """

    values: FloatArray
    sources: tuple[Source, ...]

    def combined(self, weights: FloatArray) -> tuple[FloatArray, list[tuple[FloatArray, float]]]:
        """Return weighted sums of the values, shape (k,), and for each source their covariance, with its degrees.

        Parameters
        ----------
        weights
            Shape (k, points).
        """
        parts = []
        for source in self.sources:
            moved = source.deviations @ weights.T
            parts.append((moved.T @ moved, source.degrees))
        return weights @ self.values, parts

    def errors(self) -> FloatArray:
        """Return the standard error of each value."""
        squares = [np.square(source.deviations).sum(axis=0) for source in self.sources]
        return np.sqrt(np.sum(squares, axis=0)) if squares else np.zeros_like(self.values)

    def at(self, chosen: IntArray) -> Measured:
        """Return some of the points."""
        kept = (Source(source.deviations[:, chosen], source.degrees) for source in self.sources)
        return Measured(self.values[chosen], tuple(each for each in kept if each.deviations.any()))

    def averaged(self, groups: Sequence[IntArray]) -> Measured:
        """Return the means over groups of points."""
        weights = np.zeros((len(groups), len(self.values)))
        for row, group in zip(weights, groups, strict=True):
            row[group] = 1 / len(group)
        return Measured(
            weights @ self.values,
            tuple(Source(source.deviations @ weights.T, source.degrees) for source in self.sources),
        )


def degrees_of(variances: Sequence[float], degrees: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of variances (Welch and Satterthwaite)."""
    total = sum(variances)
    rest = sum(square**2 / own for square, own in zip(variances, degrees, strict=True))
    return total**2 / rest if rest > 0 else min(degrees, default=math.nan)

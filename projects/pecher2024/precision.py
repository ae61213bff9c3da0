"""How precise a printed importance is, from the standard deviations that stand beside it and nothing else.

A table has M rows (mitigation runs) and N columns (investigation runs); the public code draws the seeds of both once
and crosses them, the same for every factor. Score of row m under column n: ``mu + R_m + h_m (F_n + E_mn)``, with
variances of rows s2_R, of the factor by itself s2_F, of its interactions s2_E (one run a cell: with what nothing
explains), and a spread h_m of the row. Of a table three numbers are printed: c, the mean of the standard deviations
within rows, m, the standard deviation of row means, and f, that of all scores (all with ddof 0). Exactly, f^2 = m^2 +
mean of squared standard deviations within rows, so that

* ``f^2 - m^2 - c^2`` is the variance of the standard deviations within rows: how uneven rows are. It says what error c
  has from rows, and that scores are not normal where it is more than chi with N - 1 degrees of freedom has;
* ``c^2 (1 + r) N / (N - 1)`` estimates tau^2 = (E h)^2 (s2_F + s2_E): ddof 0, and r because a mean of roots is below
  the root of a mean;
* ``m^2 M / (M - 1)`` estimates s2_R + s2_E / N: row means hold a part of the interactions.

The published score is above 0, with columns and rows without end, where the square of the mean standard deviation
within rows, ``(E h)^2 (s2_F + s2_E)``, is above s2_R. The corrected importance of the package compares E h^2 with it:
exactly ``(f^2 - m^2) N / (N - 1)``, another number where rows are uneven (:func:`corrected`).

Two things are not printed. *Share*, s2_E / tau^2: if the factor acts by itself, tau^2 comes from N - 1 degrees of
freedom, however many rows there are; if it acts through interactions, from about M (N - 1). *Tails* of row means. So
every statement is made twice, for the worst and for the best of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
Case = Literal["worst", "best"]
SHARES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of interactions that are tried."""
ROUNDED: Final = (0.0005, 0.0005, 0.005)
"""Half of the last printed digit of c, m and f, in percentage points."""


@dataclass(frozen=True)
class Printed:
    """Printed standard deviations, in percentage points, one entry a sign.

    Attributes
    ----------
    contributed, mitigated, total
        c, m and f.
    rows
        M.
    columns
        N, the same for all.
    rounded
        How far the three may be from what was computed.
    """

    contributed: Array
    mitigated: Array
    total: Array
    rows: Array
    columns: int = 10
    rounded: tuple[float, float, float] = ROUNDED

    @property
    def unevenness(self) -> Array:
        """Squared coefficient of variation of the standard deviations within rows, (f^2 - m^2) / c^2 - 1."""
        return (self.total**2 - self.mitigated**2) / self.contributed**2 - 1

    @property
    def most_uneven(self) -> Array:
        """The largest that rounding allows, at least 0."""
        c, m, f = self.rounded
        square = (self.total + f) ** 2 - (self.mitigated - m) ** 2
        return np.asarray(np.maximum(0.0, square / (self.contributed - c) ** 2 - 1))

    @property
    def impossible(self) -> Array:
        """Whether the whole is smaller than its parts, f^2 < c^2 + m^2, and rounding does not explain it."""
        c, m, f = self.rounded
        return np.asarray((self.total + f) ** 2 < (self.contributed - c) ** 2 + (self.mitigated - m) ** 2)


def jensen(columns: int, share: float) -> float:
    """Return the r of the module: mean variance over squared mean standard deviation, less 1, of normal rows."""
    freedom = columns - 1
    root = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2))
    return (freedom / (2 * root**2) - 1) * share * (2 - share)


def tests(printed: Printed, case: Case) -> tuple[Array, Array]:
    """Return one-sided p-values that the score is not above 0, and not below 0.

    In the worst case both are the largest of all shares and of what rounding allows, and row means have tails like the
    spread of rows. In the best case they are the smallest, row means are normal, and rounding moved nothing; but a
    share that would make rows more uneven than they are is left out.
    """
    pick = np.max if case == "worst" else np.min
    slack = printed.rounded if case == "worst" else (0.0, 0.0, 0.0)
    above, below = [], []
    for share in SHARES:
        tau, rows = _freedom(printed, share, case)
        for sign, p_values in ((-1, above), (1, below)):
            # Rounding that speaks least for the sign in question.
            c, m = printed.contributed + sign * slack[0], printed.mitigated - sign * slack[1]
            ratio = _ratio(printed, c, np.maximum(m, 1e-12), share) * (1 + share / printed.columns)
            p = stats.f.sf(ratio, tau, rows) if sign < 0 else stats.f.cdf(ratio, tau, rows)
            p_values.append(np.where(_allowed(printed, share), p, 1.0) if case == "best" else p)
    return np.asarray(pick(above, axis=0)), np.asarray(pick(below, axis=0))


def two_sided(printed: Printed, case: Case) -> Array:
    """Return p-values of a score of 0: twice the smaller one-sided one, at most 1."""
    return np.asarray(np.minimum(1.0, 2 * np.minimum(*tests(printed, case))))


def estimate(printed: Printed, share: float = 0.5) -> Array:
    """Return the limit of the published importance with many runs, on the scale of the corrected importance."""
    ratio = _ratio(printed, printed.contributed, printed.mitigated, share)
    return _score(1 / ratio - share / printed.columns)


def corrected(printed: Printed, share: float = 0.5) -> Array:
    """Return the corrected importance of the package, from its own formula; `share` alone is not printed."""
    n = printed.columns
    tau2 = np.maximum(0.0, printed.total**2 - printed.mitigated**2) * n / (n - 1)
    return _score(_rows2(printed, printed.mitigated) / tau2 - share / n)


def intervals(printed: Printed, shares: tuple[float, ...] = SHARES, level: float = 0.95) -> tuple[Array, Array]:
    """Return the ends of :func:`estimate` in the worst case: the lowest and the highest over `shares`."""
    low, high = [], []
    c, m, _ = printed.rounded
    tail = (1 - level) / 2
    for share in shares:
        tau, rows = _freedom(printed, share, "worst")
        for sign, ends in ((-1, low), (1, high)):
            ratio = _ratio(
                printed, printed.contributed + sign * c, np.maximum(printed.mitigated - sign * m, 1e-12), share
            )
            quantile = stats.f.ppf(1 - tail if sign < 0 else tail, tau, rows)
            ends.append(_score(quantile / ratio - share / printed.columns))
    return np.asarray(np.min(low, axis=0)), np.asarray(np.max(high, axis=0))


def holm(p: Array) -> Array:
    """Return p-values adjusted for all of them (Holm 1979), which holds however they depend on each other."""
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, steps)
    return adjusted


def closure(printed: Printed, golden: Array, runs: Array) -> Array:
    """Return p-values that table and golden runs have one variance, the largest over shares (two-sided).

    Parameters
    ----------
    golden, runs
        Standard deviation of the golden runs (ddof 0) and their number.
    """
    p_values = []
    for share in SHARES:
        tau, rows = _freedom(printed, share, "worst")
        parts = _tau2(printed, printed.contributed, share), _rows2(printed, printed.mitigated)
        whole = parts[0] * (1 - share / printed.columns) + parts[1]
        freedom = 2 / ((parts[0] / whole) ** 2 * 2 / tau + (parts[1] / whole) ** 2 * 2 / rows)
        ratio = whole / (golden**2 * runs / (runs - 1))
        # Golden runs have the same tails: those of one cell a row.
        golden_freedom = (runs - 1) * 2 / (3 * _tails(printed, share) - 1)
        tails = stats.f.cdf(ratio, freedom, golden_freedom), stats.f.sf(ratio, freedom, golden_freedom)
        p_values.append(2 * np.minimum(*tails))
    return np.asarray(np.minimum(1.0, np.max(p_values, axis=0)))


def _tau2(printed: Printed, contributed: Array, share: float) -> Array:
    n = printed.columns
    return np.asarray(contributed**2 * (1 + jensen(n, share)) * n / (n - 1))


def _rows2(printed: Printed, mitigated: Array) -> Array:
    return np.asarray(mitigated**2 * printed.rows / (printed.rows - 1))


def _ratio(printed: Printed, contributed: Array, mitigated: Array, share: float) -> Array:
    return _tau2(printed, contributed, share) / _rows2(printed, mitigated)


def _allowed(printed: Printed, share: float) -> NDArray[np.bool_]:
    """Return where rows are not less even than interactions of this share make them, up to chance (97.5 %)."""
    even = printed.most_uneven * (printed.rows - 1) / stats.chi2.ppf(0.025, printed.rows - 1)
    return np.asarray(jensen(printed.columns, share) <= even)


def _spread(printed: Printed, share: float) -> Array:
    """Return the squared coefficient of variation of h that is left when that of normal rows is taken away."""
    return np.asarray(np.maximum(0.0, (1 + printed.most_uneven) / (1 + jensen(printed.columns, share)) - 1))


def _tails(printed: Printed, share: float) -> Array:
    """Return E h^4 / (E h^2)^2 of a log-normal h; of M numbers it is at most M."""
    return np.asarray(np.minimum((1 + _spread(printed, share)) ** 4, printed.rows))


def _freedom(printed: Printed, share: float, case: Case) -> tuple[Array, Array]:
    """Return the degrees of freedom of tau^2 and of the variance of row means: 2 over their relative variances."""
    n, m = printed.columns, printed.rows
    by_columns = 2 / (n - 1) * ((1 - share + share / m) ** 2 + share**2 * (m - 1) / m**2)
    tau = by_columns + 4 * _spread(printed, share) / m
    kurtosis = 3 * _tails(printed, share) if case == "worst" else 3.0
    return np.asarray(2 / tau), np.asarray(2 * (m - 1) / (kurtosis - 1))


def _score(ratio: Array) -> Array:
    """Return the corrected importance of s2_R / tau^2."""
    rho = np.maximum(ratio, 0.0)
    return np.asarray((1 - np.sqrt(rho)) / np.sqrt(1 + rho))

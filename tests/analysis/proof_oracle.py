"""The statistics of this package in plain loops, written from their definitions alone.

Nothing here imports the package. One function, one definition; speed does not matter. Where a rule needs t, F or
chi-squared quantiles they come from scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy import stats


def mean(values: Iterable[float]) -> float:
    listed = [float(value) for value in values]
    return math.fsum(listed) / len(listed)


def var1(values: Iterable[float]) -> float:
    """Sample variance (ddof=1)."""
    listed = [float(value) for value in values]
    middle = mean(listed)
    return math.fsum((value - middle) ** 2 for value in listed) / (len(listed) - 1)


def std0(values: Iterable[float]) -> float:
    """Population standard deviation (ddof=0)."""
    listed = [float(value) for value in values]
    middle = mean(listed)
    return math.sqrt(mean((value - middle) ** 2 for value in listed))


def published(table: Sequence[Sequence[float]], golden: Sequence[float]) -> tuple[float, float, float, float]:
    """c_std, m_std, gm_std and importance: Pecher et al. 2024, Algorithm 1."""
    contributed = mean(std0(row) for row in table)
    mitigated = std0(mean(row) for row in table)
    spread = std0(golden)
    return contributed, mitigated, spread, (contributed - mitigated) / spread


def of_share(share: float) -> float:
    return math.sqrt(share) - math.sqrt(1 - share)


def of_logit(logit: float) -> float:
    return of_share(1 / (1 + math.exp(-logit)))


def estimated(contributed: float, mitigated: float, **more: float) -> dict[str, float]:
    total_index = contributed / (contributed + max(0.0, mitigated))
    return {"contributed": contributed, "mitigated": mitigated, "total_index": total_index, **more}


def crossed(table: np.ndarray) -> dict[str, float]:
    """Two-way analysis of variance."""
    m, n = table.shape
    grand = mean(table.ravel())
    of_rows = [mean(table[i]) for i in range(m)]
    of_columns = [mean(table[:, j]) for j in range(n)]
    ms_rows, ms_columns = n * var1(of_rows), m * var1(of_columns)
    residual = math.fsum(
        (table[i, j] - of_rows[i] - of_columns[j] + grand) ** 2 for i in range(m) for j in range(n)
    ) / ((m - 1) * (n - 1))
    main, mitigated = (ms_columns - residual) / m, (ms_rows - residual) / n
    parts = {"main": main, "interaction": residual}
    return estimated(main + residual, mitigated, ms_rows=ms_rows, ms_residual=residual, **parts)


def nested(table: np.ndarray) -> dict[str, float]:
    """One-way analysis of variance."""
    n = table.shape[1]
    contributed = mean(var1(row) for row in table)
    spread = var1(mean(row) for row in table)
    return estimated(contributed, spread - contributed / n, ms_rows=n * spread, ms_residual=contributed)


def radial(sets: np.ndarray, place: int) -> dict[str, float]:
    """Jansen 1999: half the mean square of what one factor changes, over the mean variance of all sets."""
    contributed = mean((row[0] - row[place]) ** 2 for row in sets) / 2
    total = mean(var1(sets[:, each]) for each in range(sets.shape[1]))
    return estimated(contributed, total - contributed, total=total)


def logit(parts: dict[str, float]) -> float | None:
    """logit(S_T), None where it has no finite value."""
    if parts["contributed"] <= 0 or parts["mitigated"] <= 0:
        return None
    return math.log(parts["contributed"]) - math.log(parts["mitigated"])


def without_each(
    table: np.ndarray, axis: int, estimate: Callable[[np.ndarray], dict[str, float]]
) -> list[float | None]:
    return [logit(estimate(np.delete(table, unit, axis=axis))) for unit in range(table.shape[axis])]


def jackknife_variance(left_out: Sequence[float]) -> float:
    units, middle = len(left_out), mean(left_out)
    return (units - 1) / units * math.fsum((value - middle) ** 2 for value in left_out)


def weighted_logit(table: np.ndarray, weights: np.ndarray) -> float:
    """logit(S_T) of a crossed table whose cells have weights: rows and columns are fitted by weighted least squares."""
    m, n = table.shape
    design = np.zeros((m * n, m + n))
    for i in range(m):
        for j in range(n):
            design[i * n + j, [i, m + j]] = 1.0
    root = np.sqrt(weights.ravel())
    fit = np.linalg.lstsq(design * root[:, None], table.ravel() * root, rcond=None)[0]
    squares = weights.ravel() * (table.ravel() - design @ fit) ** 2
    ms_rows, ms_columns = n * var1(fit[:m]), m * var1(fit[m:])
    residual = math.fsum(squares) / ((m - 1) * (n - 1))
    return math.log((ms_columns - residual) / m + residual) - math.log((ms_rows - residual) / n)


def counted_twice(table: np.ndarray, *, step: float = 1e-5) -> float:
    """Variance of logit(S_T) that is of single cells: by numerical derivatives by the weight of each.

    Leaving out rows counts it, and leaving out columns counts it again (Owen 2007: rows plus columns less cells).
    """
    m, n = table.shape
    slopes = np.zeros((m, n))
    for i in range(m):
        for j in range(n):
            up, down = np.ones((m, n)), np.ones((m, n))
            up[i, j] += step
            down[i, j] -= step
            slopes[i, j] = (weighted_logit(table, up) - weighted_logit(table, down)) / (2 * step)
    slopes = slopes - slopes.mean(axis=1, keepdims=True)
    slopes = slopes - slopes.mean(axis=0)
    return math.fsum((slopes**2).ravel()) * m * n / ((m - 1) * (n - 1))


def crossed_shifts(table: np.ndarray, variance: float, quantile: float) -> tuple[float, float]:
    """How far the ends of an interval of logit(S_T) lie below and above it.

    The mean square of columns is taken to its limits on the scale of its logarithm; what that makes of the logarithm of
    the contributed variance, and the rest of the error, are added as independent.
    """
    m, n = table.shape

    def of_column_means(cells: np.ndarray) -> float:
        return m * var1(mean(cells[:, j]) for j in range(cells.shape[1]))

    contributed = crossed(table)["contributed"]
    own = of_column_means(table) / m
    error = math.sqrt(jackknife_variance([math.log(of_column_means(np.delete(table, j, 1))) for j in range(n)]))
    error = min(error, math.sqrt(variance) * contributed / own)
    rest = variance - (error * own / contributed) ** 2
    shifts = []
    # Of a gamma distribution with the skewness of the column means, the log variance of n draws has this error.
    skewness = float(stats.skew(table.mean(axis=0), bias=False)) if n >= 5 else math.sqrt(1 / 3)
    upward = max(error, math.sqrt(2 * (1 + skewness**2) / (n - 1)))
    for sign, size in ((-1, error), (1, upward)):
        at_the_limit = own * math.exp(sign * quantile * size) + contributed - own
        shifts.append(math.hypot(quantile * math.sqrt(max(0.0, rest)), math.log(at_the_limit / contributed)))
    return shifts[0], shifts[1]


def jackknife(
    table: np.ndarray, estimate: Callable[[np.ndarray], dict[str, float]], *, columns_too: bool, level: float = 0.95
) -> tuple[float, float] | None:
    """Interval of the importance; None where a table, or one that lacks a unit, has no finite logit."""
    m, n = table.shape
    centre = logit(estimate(table))
    groups = [without_each(table, axis, estimate) for axis in ((0, 1) if columns_too else (0,))]
    if centre is None or any(value is None for group in groups for value in group):
        return None
    variances = [jackknife_variance([value for value in group if value is not None]) for group in groups]
    total = max(sum(variances) - (counted_twice(table) if columns_too else 0.0), *variances, 0.0)
    parts = [variance**2 / (units - 1) for variance, units in zip(variances, (m, n), strict=False)]
    degrees = sum(variances) ** 2 / sum(parts)
    if estimate is nested and inequality(table):
        degrees = min(degrees, kurtosis_degrees([value for value in groups[0] if value is not None]))
    quantile = float(stats.t.ppf((1 + level) / 2, degrees))
    if not columns_too:
        return of_logit(centre - quantile * math.sqrt(total)), of_logit(centre + quantile * math.sqrt(total))
    low, high = crossed_shifts(table, total, quantile)
    return of_logit(centre - low), of_logit(centre + high)


def inequality(table: np.ndarray) -> float:
    """Squared coefficient of variation of the true variances of rows, 0 unless it exceeds 1.645 of its errors.

    For normal scores with n - 1 degrees of freedom the mean of v^2 is (n + 1) / (n - 1) that of its square's truth,
    the mean of v_i v_j is unbiased, and the error of the ratio is that of the score test (Neyman and Scott 1966).
    """
    m, n = table.shape
    spread = [var1(row) for row in table]
    own = mean(v**2 * (n - 1) / (n + 1) for v in spread)
    others = mean(spread[i] * spread[j] for i in range(m) for j in range(m) if i != j)
    found = min(m, own / others) - 1
    return found if found * math.sqrt(m * (n - 1) * (n + 1) / 8) > 1.645 else 0.0


def kurtosis_degrees(values: Sequence[float]) -> float:
    """Shoemaker 2003: the variance of a sample variance with this kurtosis is that of chi-squared with so many."""
    units, middle = len(values), mean(values)
    second, fourth = (mean((value - middle) ** power for value in values) for power in (2, 4))
    return 2 * units / (fourth / second**2 - (units - 3) / (units - 1))


def rows_differ(parts: dict[str, float], m: int, degrees: int, *, tail: float = 0.025) -> bool:
    """Row means differ by more than chance: one-sided F test."""
    return parts["ms_rows"] > float(stats.f.ppf(1 - tail, m - 1, degrees)) * parts["ms_residual"]


def one_way_limits(table: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Limits for normal scores in the one-way layout, exact for rows of one variance (others: Box 1954).

    MS_R / MS_W is 1 + N s2_R / tau2 times an F variable. Where it is below 1 by chance, the upper limit of s2_R takes
    it at 1: rows that agree better than their columns let expect are luck.
    """
    m, n = table.shape
    parts = nested(table)
    ratio, unequal = parts["ms_rows"] / parts["ms_residual"], inequality(table)
    degrees = (m - 1) / (1 + (m - 2) / (m - 1) * unequal), m * (n - 1) / (1 + unequal)

    def at(observed: float, tail: float) -> float:
        of_rows = max(0.0, (observed / float(stats.f.ppf(tail, *degrees)) - 1) / n)
        return of_share(1 / (1 + of_rows))

    return at(max(1.0, ratio), (1 - level) / 2), at(ratio, (1 + level) / 2)


def rows_of_epsilon(table: np.ndarray, golden: np.ndarray, epsilon: float, start: int) -> int | None:
    """First number of rows at which one more row changed c_std, m_std and importance by less than epsilon."""

    def at(rows: int) -> tuple[float, ...]:
        c, m, _, score = published(table[:rows], golden[: math.ceil(len(golden) * rows / len(table))])
        return c, m, score

    for rows in range(start, len(table) + 1):
        if all(abs(now - before) < epsilon for now, before in zip(at(rows), at(rows - 1), strict=True)):
            return rows
    return None

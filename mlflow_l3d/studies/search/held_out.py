"""Whether a found setting is better where it was not searched for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The found setting against the default on configurations that were not searched on.

    Attributes
    ----------
    found, default
        Test scores, fractions; entry i of both is of the same configuration. Pairs without a score are left out.
    difference
        Mean of found minus default; nan without a pair.
    ci_low, ci_high
        Interval of the difference (paired, Student's t); nan with fewer than two pairs.
    level
        Its level.
    missing
        Pairs that were left out.
    """

    found: tuple[float, ...]
    default: tuple[float, ...]
    difference: float
    ci_low: float
    ci_high: float
    level: float = 0.95
    missing: int = 0

    @property
    def configurations(self) -> int:
        """Number of pairs."""
        return len(self.found)


def held_out(found: ArrayLike, default: ArrayLike, *, level: float = 0.95) -> HeldOut:
    """Compare two settings on the same configurations.

    Parameters
    ----------
    found, default
        Scores as fractions, shape (n,); entry i of both is of the same configuration. A pair in which one is not finite
        (a run that failed) is left out and counted.
    level
        Level of the interval, in (0, 1).

    Returns
    -------
    HeldOut
        The interval is mean ± t(n - 1) * std / sqrt(n) of the differences (std with ddof 1); of equal scores 0 to 0.

    Raises
    ------
    ValueError
        If the two are not lists of the same length.
    """
    one, other = np.asarray(found, dtype=float), np.asarray(default, dtype=float)
    if one.ndim != 1 or one.shape != other.shape:
        msg = f"scores must come in pairs, not in shapes {one.shape} and {other.shape}"
        raise ValueError(msg)
    usable = np.isfinite(one) & np.isfinite(other)
    missing = int((~usable).sum())
    one, other = one[usable], other[usable]
    differences = one - other
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    half = math.nan
    if n > 1:
        from scipy.special import stdtrit

        half = float(stdtrit(n - 1, 1 - (1 - level) / 2)) * float(differences.std(ddof=1)) / math.sqrt(n)
    return HeldOut(tuple(one.tolist()), tuple(other.tolist()), mean, mean - half, mean + half, level, missing)

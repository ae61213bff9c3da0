"""The shape of a distribution of scores: whether intervals, which take errors from the scores themselves, can hold."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from mlflow_l3d.analysis.importance.tables import constant, with_scores
from mlflow_l3d.analysis.typing import FloatArray

FEWEST: Final = 8
"""Below this many scores nothing is said of their shape."""
MOST_SKEWNESS: Final = 1.0
MOST_KURTOSIS: Final = 2.0
"""Beyond these, intervals of simulated tables cover clearly less than they claim."""
SURE_SKEWNESS: Final = 2.58
SURE_KURTOSIS: Final = 3.5
"""Standard errors under normal scores that both must exceed, too, which one normal sample in a hundred does."""
TWO_GROUPS: Final = 0.6
"""Sarle's coefficient is 1/3 for normal, 5/9 for uniform scores, and 1 for two values."""


class Tails(NamedTuple):
    """Moments of some scores.

    Attributes
    ----------
    size
        How many scores.
    skewness, kurtosis
        Without the bias of small samples (Joanes and Gill 1998, G1 and G2); the kurtosis is 0 for normal scores.
    """

    size: int
    skewness: float
    kurtosis: float

    @property
    def bimodality(self) -> float:
        """Sarle's coefficient, (skewness^2 + 1) / kurtosis, with the correction for small samples."""
        whole = 3 * (self.size - 1) ** 2 / ((self.size - 2) * (self.size - 3))
        return (self.skewness**2 + 1) / (self.kurtosis + whole)

    @property
    def skewness_error(self) -> float:
        """Standard error of the skewness of so many normal scores."""
        n = self.size
        return math.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))

    @property
    def long(self) -> bool:
        """Whether a tail is so long that intervals may not hold."""
        n = self.size
        error = self.skewness_error
        of_kurtosis = 2 * error * math.sqrt((n * n - 1) / ((n - 3) * (n + 5)))
        return abs(self.skewness) > max(MOST_SKEWNESS, SURE_SKEWNESS * error) or self.kurtosis > max(
            MOST_KURTOSIS, SURE_KURTOSIS * of_kurtosis
        )

    @property
    def two_groups(self) -> bool:
        """Whether the scores fall into two groups of about the same size."""
        return self.bimodality > TWO_GROUPS and self.kurtosis < 0

    def metrics(self) -> dict[str, float]:
        """Return the numbers of the golden runs, as ``importance.json`` names them."""
        return {
            "score_skewness": self.skewness,
            "score_kurtosis": self.kurtosis,
            "score_bimodality": self.bimodality,
        }


def tails(scores: FloatArray) -> Tails | None:
    """Return the moments of the scores that are not missing; None if they are too few, or all equal."""
    finite_scores = scores[np.isfinite(scores)]
    n = len(finite_scores)
    if n < FEWEST or constant(finite_scores):
        return None
    centred = finite_scores - finite_scores.mean()
    centred /= np.abs(centred).max()  # powers of tiny scores would be 0
    variance = float(np.square(centred).mean())
    third, fourth = float((centred**3).mean()) / variance**1.5, float((centred**4).mean()) / variance**2 - 3
    skewness = third * math.sqrt(n * (n - 1)) / (n - 2)
    return Tails(n, skewness, (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * fourth + 6))


def tails_of_rows(table: FloatArray) -> Tails | None:
    """Return the moments of the row means of a table; None likewise."""
    rows = with_scores(table)
    return tails(np.nanmean(rows, axis=1)) if rows.size else None


def long_tails(golden: FloatArray, table: FloatArray) -> bool:
    """Return whether golden runs, or the rows of a table, have long tails."""
    return any(moments is not None and moments.long for moments in (tails(golden), tails_of_rows(table)))

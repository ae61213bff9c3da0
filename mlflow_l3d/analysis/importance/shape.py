"""The shape of scores: whether intervals hold with such tails, two parts if runs collapse, the distance of two runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import constant, known_std, with_scores
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, known, t_quantile, wilson_interval, with_interval

FEWEST: Final = 8
"""Below this many scores nothing is said of their shape."""
MOST_SKEWNESS: Final = 1.0
MOST_KURTOSIS: Final = 2.0
"""Beyond these, intervals of simulated tables cover clearly less than they claim."""
SURE_SKEWNESS: Final = 2.58
SURE_KURTOSIS: Final = 3.5
"""Standard errors under normal scores that both must exceed, too, which one normal sample in a hundred does."""
FEWEST_FOR_QUANTILE: Final = 20
"""Fewer runs do not show a quantile of their distances."""
MOST_COMPARED: Final = 2000
"""Of more runs every second, third, ... one is compared: all pairs would take gigabytes."""
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
        return {"score_skewness": self.skewness, "score_kurtosis": self.kurtosis, "score_bimodality": self.bimodality}


def tails(scores: FloatArray) -> Tails | None:
    """Return the moments of the scores that are not missing; None if they are too few, or all equal."""
    finite_scores = scores[np.isfinite(scores)]
    n = len(finite_scores)
    if n < FEWEST or constant(finite_scores):
        return None
    centred = finite_scores - finite_scores.mean()
    scaled = pd.Series(centred / np.abs(centred).max())  # powers of tiny scores would be 0
    return Tails(n, *np.array([scaled.skew(), scaled.kurt()]).tolist())


def tails_of_rows(table: FloatArray) -> Tails | None:
    """Return the moments of the row means of a table; None likewise."""
    rows = with_scores(table)
    return tails(np.nanmean(rows, axis=1)) if rows.size else None


def long_tails(golden: FloatArray, table: FloatArray) -> bool:
    """Return whether golden runs, or the rows of a table, have long tails."""
    return any(moments is not None and moments.long for moments in (tails(golden), tails_of_rows(table)))


MANY: Final = 0.5
"""From this share of collapsed runs on they come before all luck, even if their scores lie close to all others."""
APART: Final = 3.0
"""Standard deviations of the other runs between chance and their mean. A model that is barely better than chance scores
below it now and then; that is a tail, and to cut it off would make the others look alike."""


@dataclass(frozen=True, slots=True)
class Collapse:
    """Evidence if some runs score below chance.

    A few such runs make up most of a standard deviation, and no interval of the whole score holds: of 95 % intervals
    0 to 75 % did if one run in ten collapsed, those of the two parts 92 to 99 % (docs/evidence/simulations.md).

    Attributes
    ----------
    runs, collapsed
        Runs that are independent of each other and draw every factor (golden runs; base runs of the radial design), and
        how many of them collapsed; both 0 if there are none.
    causes
        Factor -> importance for "the run collapsed" (0 or 1) in place of the score: above 0 if the factor decides
        more than all others which runs collapse.
    rest
        Factor -> importance among the runs that did not collapse, the others taken for missing.
    level
        Confidence level of all intervals.
    """

    runs: int
    collapsed: int
    causes: Mapping[str, Importance]
    rest: Mapping[str, Importance]
    level: float = LEVEL

    def share_interval(self) -> tuple[float, float]:
        """Return Wilson's interval of the share of runs that collapses, at the level of the records."""
        return wilson_interval(self.collapsed, self.runs, level=self.level)

    def metrics(self, group: str) -> dict[str, float]:
        """Return the metrics of a factor, or of ``golden``; those that are nan are left out."""
        if group == "golden":
            share = self.collapsed / self.runs if self.runs else math.nan
            low, high = self.share_interval()
            values = {"collapsed_share": share, "collapsed_share_ci_low": low, "collapsed_share_ci_high": high}
            std = next((record.golden_std for record in self.rest.values()), math.nan)
            return known(values | {"golden_std_uncollapsed": std})
        corrected = with_interval("importance_corrected")
        cause, rest = self.causes[group], self.rest[group]
        values = {name.replace("importance", "collapse_importance"): getattr(cause, name) for name in corrected}
        return known(values | {f"{name}_uncollapsed": getattr(rest, name) for name in ("importance", *corrected)})


def collapsed(scores: FloatArray, chance: float) -> FloatArray:
    """Return 1 for every score below chance, 0 for the others; scores may be nan."""
    return np.where(np.isfinite(scores), (scores < chance).astype(np.float64), math.nan)


def apart(rest: FloatArray, chance: float) -> bool:
    """Return whether chance lies so far below the scores of the other runs that lower ones are another kind of run.

    A few others, where nearly all runs score below chance, lie close together by luck.
    """
    finite_scores = rest[np.isfinite(rest)]
    return len(finite_scores) >= FEWEST and float(finite_scores.mean()) - chance > APART * float(finite_scores.std())


def many_or_apart(scores: FloatArray, low: npt.NDArray[np.bool_], chance: float) -> bool:
    """Return whether the marked scores, at or below chance, show that their runs are no better than guessing.

    They are half of all or more, or lie apart from the others: scores near chance have low ones among them by luck.
    Only predictions show whether such a run names one class for everything.
    """
    return bool(low.any()) and (float(low.mean()) >= MANY or apart(scores[~low], chance))


def guessing_runs(scores: FloatArray, chance: float | None) -> int:
    """Return how many runs are no better than guessing, if that comes before all luck; scores may be nan."""
    scores = scores[np.isfinite(scores)]
    low = scores <= (-math.inf if chance is None else chance)
    return int(low.sum()) if many_or_apart(scores, low, chance or 0.0) else 0


def single_run_limit(
    scores: FloatArray, std: float | None = None, degrees: float | None = None, *, span: float = math.inf
) -> float:
    """Return the distance that two runs which differ by luck alone exceed one time in twenty.

    Parameters
    ----------
    scores
        Shape (n,): at least two finite scores.
    std, degrees
        Standard deviation of a run and its degrees of freedom, if the scores are not independent; else those of the
        scores, with ddof=1.
    span
        Largest distance that the metric allows.

    Returns
    -------
    float
        t √2 standard deviations, t being Student's quantile: few runs barely show their spread. For scores with long
        tails or in two groups, the 95 % quantile of the distances of all pairs.

    Examples
    --------
    >>> round(single_run_limit(np.array([0.7, 0.8])), 3)
    1.271
    """
    shape = tails(scores) if len(scores) >= FEWEST_FOR_QUANTILE else None
    if shape is None or not (shape.long or shape.two_groups):
        std = known_std(scores, ddof=1) if std is None else std
        return min(t_quantile(len(scores) - 1 if degrees is None else degrees) * math.sqrt(2) * std, span)
    some = scores[:: -(-len(scores) // MOST_COMPARED)]
    first, second = np.triu_indices(len(some), 1)
    return float(np.quantile(np.abs(some[first] - some[second]), 0.95))

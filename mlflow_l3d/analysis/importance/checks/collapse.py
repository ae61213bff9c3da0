"""A score in two parts: how many runs collapse and which factor decides that, and the luck of those that do not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.checks.tails import FEWEST
from mlflow_l3d.analysis.importance.checks.words import points
from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.jackknife import LEVEL
from mlflow_l3d.analysis.typing import FloatArray, known, with_interval

APART: Final = 3.0
"""Standard deviations of the other runs between chance and their mean. A model that is hardly better than chance scores
below it now and then; that is a tail, and to cut it off would make the others look alike."""


@dataclass(frozen=True, slots=True)
class Collapse:
    """Evidence if some runs score below chance.

    A few such runs make up most of a standard deviation, and no interval of the whole score holds: of 95 % intervals
    0 to 75 % did where one run in ten collapsed. Those of the two parts did in 92 to 99 % (see docs/statistics.md).

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


def in_two_parts(check: Check, found: Collapse, record: Importance | None) -> Check:
    """Return L3D005 with what is known of the two parts of the score; `record` is that of its factor."""
    if record is None:
        ends = found.share_interval()
        more = f" Of all runs that could be drawn, {points(ends[0])} to {points(ends[1])} % collapse "
        more += f"({100 * found.level:.4g} % interval)."
        return check if math.isnan(ends[0]) else replace(check, message=check.message + more)
    cause, rest = found.causes[record.factor], found.rest[record.factor]
    message = (
        f"{points(record.collapsed_share)} % of the cells score below chance." if found.collapsed else check.message
    )
    if math.isfinite(cause.importance_corrected):
        message += f" For which runs collapse its importance is {_score(cause)}."
    if math.isfinite(rest.importance):
        message += (
            f" Among the runs that do not, the published score is {rest.importance:+.2f}, the corrected one "
            f"{_score(rest)}, the golden standard deviation {points(rest.golden_std)} points."
        )
    return replace(check, message=message)


def _score(record: Importance) -> str:
    low, high = record.corrected_interval
    ends = f" ({low:+.2f} to {high:+.2f})" if math.isfinite(low) else ""
    return f"{record.importance_corrected:+.2f}{ends}"


def collapsed(scores: FloatArray, chance: float) -> FloatArray:
    """Return 1 for every score below chance, 0 for the others; nan if there is none."""
    return np.where(np.isfinite(scores), (scores < chance).astype(np.float64), math.nan)


def apart(rest: FloatArray, chance: float) -> bool:
    """Return whether chance lies so far below the scores of the other runs that lower ones are another kind of run.

    A few others, where nearly all runs score below chance, lie close together by luck.
    """
    finite_scores = rest[np.isfinite(rest)]
    return len(finite_scores) >= FEWEST and float(finite_scores.mean()) - chance > APART * float(finite_scores.std())


def wilson_interval(count: float, of: float, *, level: float = LEVEL) -> tuple[float, float]:
    """Return Wilson's (1927) interval of the share of `count` in `of` independent draws; nan if there are none."""
    from scipy.special import ndtri

    if not of:
        return math.nan, math.nan
    z = float(ndtri((1 + level) / 2))
    share, spread = count / of, z * z / of
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / of + spread / (4 * of)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)

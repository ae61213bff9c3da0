"""Several factors at once: which are important or not with one error rate for all, and which can be distinguished."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from string import ascii_lowercase

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate, excludes_zero, importances_of_variances, smallest_tail
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, combined_error, t_p_value, t_quantile


def holm(p_values: npt.ArrayLike, *, kept: float = 0.0) -> FloatArray:
    """Return p-values adjusted for their number (Holm 1979), in the order given.

    Parameters
    ----------
    p_values
        Shape (K,), in [0, 1]; nan if there is none: it stays nan and does not count.
    kept
        Part of its alpha / K that a claim does not pass on: that of another statement about the same parameter.

    Returns
    -------
    FloatArray
        Shape (K,). Claims with an adjusted value of at most alpha are all true with probability 1 - alpha at least,
        whatever the dependence between them.
    """
    values = pd.Series(np.asarray(p_values, dtype=np.float64).reshape(-1))
    ordered = values.dropna().sort_values(kind="stable")
    count, claimed = len(ordered), np.arange(len(ordered))
    steps = ordered * count * (count - claimed) / (count - kept * claimed)
    return np.asarray(steps.cummax().clip(upper=1.0).reindex(values.index), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Difference of the corrected importance of two factors, from the rows they share.

    Attributes
    ----------
    first, second
        The factors.
    difference
        Corrected importances, and first minus second.
    low, high
        Interval of the difference for this pair alone.
    p
        Two-sided p-value of "no difference".
    rows
        Shared rows.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    rows: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """Factors in the order of their corrected importance, and which of them can be distinguished.

    Attributes
    ----------
    factors
        Most important first; factors without a corrected importance last.
    importances
        Corrected importances in that order.
    groups
        Largest sets of factors that cannot be distinguished, each in that order. A factor may be in several; one that
        could be compared with no other is in none.
    differences
        Every pair, the more important factor first.
    level
        Confidence level; Holm's adjustment makes it hold for all pairs together.
    """

    factors: tuple[str, ...]
    importances: tuple[float, ...]
    groups: tuple[tuple[str, ...], ...]
    differences: tuple[PairedDifference, ...]
    level: float

    def to_frame(self) -> pd.DataFrame:
        """Return one row per factor: factor, importance_corrected, group (letters; equal factors share one)."""
        group = [letters(self.factors, self.groups)[name] for name in self.factors]
        return pd.DataFrame({"factor": self.factors, "importance_corrected": self.importances, "group": group})

    def differences_frame(self) -> pd.DataFrame:
        """Return one row per pair: first, second, difference, low, high, p, p_holm, different."""
        frame = pd.DataFrame(self.differences, columns=list(PairedDifference.__dataclass_fields__))
        adjusted = holm(frame["p"].to_numpy(dtype=np.float64))
        return frame.assign(p_holm=adjusted, different=adjusted <= 1 - self.level)


def rank_factors(
    importances: Mapping[str, Importance],
    estimated: Callable[[Mapping[str, FloatArray], str], Estimate | None],
    *,
    level: float = LEVEL,
) -> Ranking:
    """Rank factors by corrected importance, from paired differences on the rows they share.

    Parameters
    ----------
    importances
        Factor -> importance, all of one design and with the same rows: row i puts the factors that are not
        investigated at the same configurations in every table.
    estimated
        Returns the corrected importance of one factor from the tables of all: the same rows, each with a score in both
        tables of a pair.
    level
        Confidence level for all pairs together.

    Returns
    -------
    Ranking
        Two factors can be distinguished where Holm's adjusted p-value of their difference is at most ``1 - level``.
        Each pair is compared on the rows with a score in both tables. Factors without an interval are compared with
        none.
    """
    scores = {name: record.importance_corrected for name, record in importances.items()}
    ordered = sorted(scores, key=lambda name: -scores[name] if math.isfinite(scores[name]) else math.inf)
    rows_with_scores = {name: np.isfinite(record.table).any(axis=1) for name, record in importances.items()}

    @cache
    def of(name: str, mask: bytes) -> Estimate | None:
        rows = np.frombuffer(mask, dtype=bool)
        return estimated({other: record.table[rows] for other, record in importances.items()}, name)

    pairs = []
    for pair in combinations(ordered, 2):
        shared = rows_with_scores[pair[0]] & rows_with_scores[pair[1]]
        estimates = {name: of(name, shared.tobytes()) for name in pair}
        pairs.append(paired_difference(*pair, estimates, rows=int(shared.sum()), level=level))
    adjusted = holm([pair.p for pair in pairs])
    apart = {frozenset((pair.first, pair.second)) for pair, p in zip(pairs, adjusted, strict=True) if p <= 1 - level}
    compared = {name for pair in pairs if math.isfinite(pair.p) for name in (pair.first, pair.second)}
    return Ranking(
        factors=tuple(ordered),
        importances=tuple(scores[name] for name in ordered),
        groups=alike([name for name in ordered if name in compared], apart),
        differences=tuple(pairs),
        level=level,
    )


def paired_difference(
    first: str, second: str, estimates: Mapping[str, Estimate | None], *, rows: int, level: float = LEVEL
) -> PairedDifference:
    """Return the difference of two factors.

    Parameters
    ----------
    first, second
        The factors.
    estimates
        Factor -> corrected importance, from tables of the same rows.
    rows
        How many these are.
    level
        Confidence level of the interval.

    Returns
    -------
    PairedDifference
        Numbers are nan if a table is too small or constant.

    Notes
    -----
    Jackknife over rows, a row being left out of both tables together. Where columns are draws, too, those of the two
    tables are draws of different factors, so the jackknife variance over columns of each is added; degrees of freedom
    by Welch and Satterthwaite. It is taken on the scale of the importance, which is nearly that of the arcsine of
    sqrt(S_T): its error barely depends on its value. If one of the two has no usable error (rows that do not differ
    significantly), or lies at the end of the scale, leaving rows out understates the error, and the intervals of the
    two are set against each other instead (squares of their half-widths added, as for independent estimates).
    """
    one, other = estimates[first], estimates[second]
    difference = math.nan if one is None or other is None else one.importance - other.importance
    low = high = p = math.nan
    if one is None or other is None or one.limits is None or other.limits is None:
        pass
    elif one.at_the_end or other.at_the_end:
        low, high = _against(one, other, level)
        p = min(1.0, 2 * smallest_tail(lambda at: excludes_zero(*_against(one, other, at))))
    else:
        without = [[importances_of_variances(*each) for each in found.without] for found in (one, other)]
        left_out = [without[0][0] - without[1][0], *without[0][1:], *without[1][1:]]
        error, degrees = combined_error(left_out)
        half = t_quantile(degrees, level) * error
        low, high = difference - half, difference + half
        p = t_p_value(difference, error, degrees) if error > 0 else float(difference == 0)
    return PairedDifference(first, second, difference, low, high, p, rows)


def _against(one: Estimate, other: Estimate, level: float) -> tuple[float, float]:
    """Return the interval of a difference from the intervals of its two parts."""
    (low, high), (other_low, other_high) = one.interval(level), other.interval(level)
    difference = one.importance - other.importance
    return (
        difference - math.hypot(one.importance - low, other_high - other.importance),
        difference + math.hypot(high - one.importance, other.importance - other_low),
    )


def alike(ordered: Sequence[str], apart: set[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the largest sets of factors of which no two are apart (insert and absorb, Piepho 2004)."""
    groups = {frozenset(ordered)} - {frozenset()}
    for pair in apart:
        split = {group - {name} if pair <= group else group for group in groups for name in pair}
        groups = {group for group in split if not any(group < other for other in split)}
    places = sorted(sorted(map(ordered.index, group)) for group in groups)
    return tuple(tuple(ordered[place] for place in group) for group in places)


def letters(names: Sequence[str], groups: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the letters of each name: a, b, ..., z, a2, b2, ... for the groups that it is in."""
    texts = [
        ascii_lowercase[place % 26] + (str(place // 26 + 1) if place >= 26 else "") for place in range(len(groups))
    ]
    return {name: "".join(text for text, group in zip(texts, groups, strict=True) if name in group) for name in names}

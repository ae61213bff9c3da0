"""Several factors at once: which are important for certain, and which can be told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.differences import Compared, PairedDifference, paired_difference
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.jackknife import LEVEL, check_level
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Return p-values adjusted for their number (Holm 1979), in the order given.

    Parameters
    ----------
    p_values
        Shape (K,), in [0, 1]; nan where there is none: it stays nan and does not count.

    Returns
    -------
    FloatArray
        Shape (K,). Claims with an adjusted value of at most alpha are all true with probability 1 - alpha at least,
        whatever the dependence between them.
    """
    values = np.asarray(p_values, dtype=np.float64).reshape(-1)
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(values[known], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted = np.full(len(values), math.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def important_factors(importances: Mapping[str, Importance], *, alpha: float = 0.05) -> pd.DataFrame:
    """Return which factors are important for certain, all claims together.

    Parameters
    ----------
    importances
        Factor -> importance, of any design.
    alpha
        Probability of one or more false claims that is accepted.

    Returns
    -------
    pandas.DataFrame
        One row a factor, in the order given: ``factor``, ``importance_corrected``, ``p`` (one-sided, from the
        jackknife t of logit(S_T) > 0), ``p_holm``, ``important`` (<NA> where there is no p-value).
    """
    check_level(1 - alpha)
    p = np.array([record.importance_p for record in importances.values()], dtype=np.float64)
    adjusted = holm(p)
    frame = pd.DataFrame(
        {
            "factor": list(importances),
            "importance_corrected": [record.importance_corrected for record in importances.values()],
            "p": p,
            "p_holm": adjusted,
        }
    )
    important = pd.array(adjusted <= alpha, dtype="boolean")
    important[np.isnan(adjusted)] = pd.NA
    return frame.assign(important=important)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Factors in the order of their corrected importance, and which of them can be told apart.

    Attributes
    ----------
    factors
        Most important first; factors without a corrected score last.
    importances
        Corrected scores in that order, from the rows that all factors share.
    groups
        Largest sets of factors that cannot be told apart, each in that order. A factor may stand in several.
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
        """Return one row a factor: factor, importance_corrected, group (letters: factors that share one are alike)."""
        letters = {
            name: "".join(_letter(place) for place, group in enumerate(self.groups) if name in group)
            for name in self.factors
        }
        return pd.DataFrame(
            {
                "factor": list(self.factors),
                "importance_corrected": list(self.importances),
                "group": [letters[name] for name in self.factors],
            }
        )

    def differences_frame(self) -> pd.DataFrame:
        """Return one row a pair: first, second, difference, low, high, p, p_holm, different."""
        names = list(PairedDifference.__dataclass_fields__)
        rows = [[getattr(pair, name) for name in names] for pair in self.differences]
        frame = pd.DataFrame(rows, columns=names)
        adjusted = holm(frame["p"].to_numpy(dtype=np.float64))
        return frame.assign(p_holm=adjusted, different=adjusted <= 1 - self.level)


def rank_factors(
    importances: Mapping[str, Importance],
    compared: Callable[[Mapping[str, FloatArray], str], Compared],
    *,
    level: float = LEVEL,
) -> Ranking:
    """Rank factors by corrected importance, from paired differences on the rows they share.

    Parameters
    ----------
    importances
        Factor -> importance, all of one design and with the same rows: row i puts the factors that are not
        investigated at the same configurations in every table.
    compared
        Returns what the comparison of one factor needs, from the tables of all: the same rows, without missing cells.
    level
        Confidence level for all pairs together.

    Returns
    -------
    Ranking
        Two factors can be told apart where Holm's adjusted p-value of their difference is at most ``1 - level``.
        Factors without a corrected score are told apart from none.

    Raises
    ------
    ParameterError
        If designs or numbers of rows differ, or `level` is not allowed.
    """
    check_level(level)
    records = dict(importances)
    if len({record.design for record in records.values()}) > 1:
        designs = ", ".join(sorted({record.design for record in records.values()}))
        raise ParameterError("importances", designs, "must all be of one design")
    if len({len(record.table) for record in records.values()}) > 1:
        rows = ", ".join(str(len(record.table)) for record in records.values())
        raise ParameterError("importances", f"{rows} rows", "must have the same rows", "Rank factors of one plan.")
    shared = _shared_rows(list(records.values()))
    tables = {name: record.table[shared] for name, record in records.items()}
    parts = [compared(tables, name) for name in records]
    pairs = [paired_difference(*pair, level=level) for pair in combinations(parts, 2)]
    scores = {name: records[name].importance_corrected for name in records}
    for pair in pairs:
        scores[pair.first], scores[pair.second] = pair.first_importance, pair.second_importance
    ordered = sorted(records, key=lambda name: -scores[name] if math.isfinite(scores[name]) else math.inf)
    pairs = [pair if ordered.index(pair.first) < ordered.index(pair.second) else pair.turned() for pair in pairs]
    pairs.sort(key=lambda pair: (ordered.index(pair.first), ordered.index(pair.second)))
    adjusted = holm([pair.p for pair in pairs])
    apart = {frozenset((pair.first, pair.second)) for pair, p in zip(pairs, adjusted, strict=True) if p <= 1 - level}
    return Ranking(
        factors=tuple(ordered),
        importances=tuple(scores[name] for name in ordered),
        groups=_alike(ordered, apart),
        differences=tuple(pairs),
        level=level,
    )


def _shared_rows(records: Sequence[Importance]) -> npt.NDArray[np.bool_]:
    if not records:
        return np.zeros(0, dtype=np.bool_)
    complete = [np.isfinite(record.table).all(axis=1) for record in records]
    shared: npt.NDArray[np.bool_] = np.logical_and.reduce(complete)
    return shared


def _alike(ordered: Sequence[str], apart: set[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the largest sets of factors of which no two are apart (Bron and Kerbosch 1973)."""
    neighbours = {
        name: {other for other in ordered if other != name and frozenset((name, other)) not in apart}
        for name in ordered
    }
    found: list[tuple[str, ...]] = []

    def extend(members: set[str], candidates: set[str], excluded: set[str]) -> None:
        if not candidates and not excluded:
            found.append(tuple(name for name in ordered if name in members))
        for name in [each for each in ordered if each in candidates]:
            extend(members | {name}, candidates & neighbours[name], excluded & neighbours[name])
            candidates = candidates - {name}
            excluded = excluded | {name}

    extend(set(), set(ordered), set())
    return tuple(sorted((group for group in found if group), key=lambda group: [ordered.index(n) for n in group]))


def _letter(place: int) -> str:
    """Return a, b, ..., z, a2, b2, ..."""
    turn, letter = divmod(place, 26)
    return chr(ord("a") + letter) + (str(turn + 1) if turn else "")

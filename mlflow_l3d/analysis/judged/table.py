"""The table of judgements, as every analysis takes it: one line per judgement, of one scorer."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.checks.shape import wilson_interval
from mlflow_l3d.analysis.intervals import FloatArray, IntArray, t_quantile
from mlflow_l3d.errors import ParameterError

DESCRIBED: Final = ("row", "answer", "judge", "value", "repeat", "scorer", "judgement", "failed", "run_id")
"""Columns with a meaning; any other column is a factor of the answer."""


class Usable(NamedTuple):
    """Judgements that count.

    Attributes
    ----------
    table
        Lines with a value; ``row``, ``answer`` and ``judge`` are texts.
    factors
        Columns of further factors that have several values.
    failed_answers, failed_judgements
        Left out: answers of which the application raised, and judgements without a value.
    """

    table: pd.DataFrame
    factors: tuple[str, ...]
    failed_answers: int
    failed_judgements: int


def usable_judgements(table: pd.DataFrame) -> Usable:
    """Return the judgements with a value.

    Raises
    ------
    ParameterError
        If the table has several scorers, or an answer belongs to several rows or has several values of a factor.
    """
    if "scorer" in table and table["scorer"].nunique() > 1:
        named = ", ".join(map(str, table["scorer"].unique()[:5]))
        raise ParameterError("table", named, "has several scorers", "Analyse each scorer alone.")
    failed = table["failed"].fillna("") if "failed" in table else pd.Series("", index=table.index)
    raised, counts = failed.eq("answer"), failed.eq("") & table["value"].notna()
    names = [name for name in table.columns if name not in DESCRIBED]
    texts = ["row", "answer", "judge", *names]
    kept = table[counts].reset_index(drop=True).astype({**dict.fromkeys(texts, str), "value": np.float64})
    for name in ("row", *names):
        several = kept.groupby("answer")[name].nunique() > 1
        if several.any():
            wrong, fix = "this answer has several values", "Give each answer its own id."
            raise ParameterError(name, several.idxmax(), wrong, fix)
    factors = tuple(name for name in names if kept[name].nunique() > 1)
    return Usable(kept, factors, table["answer"][raised].nunique(), int((~raised & ~counts).sum()))


def level_codes(*columns: pd.Series[str] | IntArray) -> IntArray:
    """Return the number of the combination of values in each line: 0, 1, ..."""
    codes, *more = (pd.factorize(column, use_na_sentinel=False)[0].astype(np.int64) for column in columns)
    for values in more:
        codes = np.unique(codes * (1 + values.max(initial=0)) + values, return_inverse=True)[1].astype(np.int64)
    return codes


def rows_apart(row: IntArray, first: IntArray, second: IntArray) -> int:
    """Return in how many rows two partitions of the judgements differ; each of their levels lies in one row."""
    levels = [np.bincount(row[np.unique(code, return_index=True)[1]]) for code in (first, second)]
    both = np.bincount(row[np.unique(level_codes(first, second), return_index=True)[1]])
    return int(((levels[0] != both) | (levels[1] != both)).sum())


def mean_interval(values: FloatArray, *, shares: bool) -> tuple[float, float]:
    """Return the interval of the mean over independent rows.

    Parameters
    ----------
    values
        Shape (rows,).
    shares
        Whether all lie in [0, 1]: then the interval is Wilson's (1927), with as many draws as have the standard error
        of the mean (Korn and Graubard 1998) and Student's quantile; it has a width also if all values are equal.

    Returns
    -------
    tuple of float
        Both nan below two values, or if numbers that are not shares are all equal.
    """
    rows = len(values)
    if rows < 2:
        return math.nan, math.nan
    mean, error, quantile = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(rows), t_quantile(rows - 1)
    if not shares:
        return (mean - quantile * error, mean + quantile * error) if error > 0 else (math.nan, math.nan)
    mean = min(1.0, max(0.0, mean))
    # Half a row at the far end stands for rare rows that were not seen.
    variance = error**2 + (max(mean, 1 - mean) / rows) ** 2 / 2
    draws = mean * (1 - mean) / variance if 0 < mean < 1 else float(rows)
    return wilson_interval(mean * draws, draws, quantile)


def scale_notes(who: str, ends: pd.DataFrame, result: str) -> list[str]:
    """Return a note if some judges or sides have values in [0, 1] only, and others not; `ends`: min and max of each."""
    is_share = ends["min"].ge(0) & ends["max"].le(1)
    if is_share.all() or not is_share.any():
        return []
    scales = ", ".join(f"{name} from {low:g} to {high:g}" for name, low, high in ends.itertuples())
    return [f"{who} {scales}. If these are different scales, their {result} says nothing: give them one."]

"""The table of judgements of one scorer, as every analysis takes it; and those of two systems side by side."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.results import counted
from mlflow_l3d.analysis.intervals import FloatArray, IntArray, t_quantile, wilson_interval
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
    raised = failed.eq("answer")
    counts = failed.eq("") & table["value"].notna()
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
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(rows)
    quantile = t_quantile(rows - 1)
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


class Sides(NamedTuple):
    """Two systems on the rows of both.

    Attributes
    ----------
    rows
        ``first``, ``second`` and their ``gap``: means of each row, over the cells (judge, prompt and so on) that both
        sides have.
    width
        Range of all values, at least 1 if they are 0 and 1.
    drawn
        Variance and degrees of freedom that each factor brings of which a side has levels of its own.
    answer_variances, answer_shares
        Of either side: variance of the answers to a row (nan if neither side has several), and what it counts in the
        difference of a row.
    cells
        Of either side: prompts (combinations of factors).
    fields
        Those of :class:`mlflow_l3d.analysis.judged.JudgedDifference` that are known without an interval.
    """

    rows: pd.DataFrame
    width: float
    drawn: tuple[tuple[float, float], ...]
    answer_variances: list[float]
    answer_shares: list[float]
    cells: list[int]
    fields: dict[str, Any]


def pair_sides(a: pd.DataFrame, b: pd.DataFrame) -> Sides:
    """Return two tables of judgements side by side."""
    usable = usable_judgements(a), usable_judgements(b)
    shared, drawn, obstacle, notes = _shared_factors(usable)
    tables = [each.table for each in usable]
    if "judge" in shared:
        judges = set(tables[0]["judge"]) & set(tables[1]["judge"])
        tables = [table[table["judge"].isin(judges)] for table in tables]
    cell = ["row", *shared]
    of_answers = [table.groupby([*cell, "answer"])["value"].mean() for table in tables]
    of_cells = [values.groupby(cell).mean() for values in of_answers]
    both = pd.concat(of_cells, axis=1, join="inner", keys=["first", "second"])
    both["gap"] = both["first"] - both["second"]
    rows = both.groupby("row").mean()
    kept = [table[table["row"].isin(rows.index)] for table in tables]
    factors = [[name for name in each.factors if name in table] for each, table in zip(usable, kept, strict=True)]
    luck = [_answer_variance(table, names) for table, names in zip(kept, factors, strict=True)]
    answers = [table.groupby("row")["answer"].nunique() for table in kept]
    cells = [len(table[names].drop_duplicates()) if names else 1 for table, names in zip(kept, factors, strict=True)]
    values = pd.concat([table["value"] for table in tables], keys=["first", "second"])
    notes += scale_notes("Values of the sides:", values.groupby(level=0).agg(["min", "max"]), "difference")
    fields: dict[str, Any] = {"rows": len(rows), "obstacle": obstacle, "notes": tuple(notes)}
    fields["ties"] = int(np.isclose(rows["gap"], 0, atol=1e-9).sum())
    fields["largest"] = 1.0 if values.isin((0, 1)).all() else math.inf
    for side, each, count, size in zip(("first", "second"), usable, answers, cells, strict=True):
        fields[f"{side}_mean"] = float(rows[side].mean())
        fields[f"unpaired_{side}"] = each.table["row"].nunique() - len(rows)
        fields[f"repeats_{side}"] = float(count.mean()) / size
    return Sides(
        rows=rows,
        width=float(np.ptp(values)) if fields["largest"] > 1 else 1.0,
        drawn=tuple(part for name in drawn for table in kept if name in table for part in _levels_drawn(table, name)),
        answer_variances=[other if math.isnan(own) else own for own, other in zip(luck, luck[::-1], strict=True)],
        answer_shares=[float((1 / each).mean()) for each in answers],
        cells=cells,
        fields=fields,
    )


def _shared_factors(usable: tuple[Usable, Usable]) -> tuple[list[str], list[str], str, list[str]]:
    """Return factors that both sides share, those that they drew for themselves, an obstacle and notes."""
    tables = [each.table for each in usable]
    obstacle, notes, shared, drawn = "", [], [], []
    names = {str(name) for table in tables for name in table if name not in DESCRIBED}
    for name in ("judge", *sorted(names)):
        first, second = (set(table[name]) if name in table else {""} for table in tables)
        if name == "judge" and first & second:
            shared.append(name)
            if first != second:
                notes.append(f"Only the judgements of judges that rated both sides count: {len(first & second)}.")
        elif first == second:
            if len(first) > 1:
                shared.append(name)
        else:
            drawn.append(name)
            if name == "judge" and not (first and second):
                obstacle = "a side has no judgement that counts"
            elif min(len(first), len(second)) < 2 and name == "judge":
                obstacle = "the sides have different judges, one on a side: a difference may be the judge's"
            elif min(len(first), len(second)) < 2:
                luck = "its luck is part of the difference and not in the interval"
                notes.append(f"{name}: a side has one only, so {luck}.")
    if not {*shared, *drawn} - {"judge"}:
        notes.append("Each side has one prompt and model, so their luck is not in the interval.")
    if set(tables[0]["answer"]) & set(tables[1]["answer"]):
        notes.append("Both sides judged the same answers: the difference is one of judgements, not of answers.")
    for side, each in zip(("first", "second"), usable, strict=True):
        failed = {"failed answer": each.failed_answers, "failed judgement": each.failed_judgements}
        if said := " and ".join(counted(number, what) for what, number in failed.items() if number):
            notes.append(f"Left out of the {side}: {said}.")
    return shared, drawn, obstacle, notes


def _answer_variance(table: pd.DataFrame, factors: list[str]) -> float:
    """Return the variance of answers to the same row (and prompt); nan if no row has several."""
    cell = ["row", *factors]
    within = table["value"] - table.groupby([*cell, "judge"])["value"].transform("mean")
    of_answers = within.groupby([*(table[name] for name in cell), table["answer"]]).mean()
    degrees = int((of_answers.groupby(cell).size() - 1).sum())
    return float(np.square(of_answers).sum()) / degrees if degrees else math.nan


def _levels_drawn(table: pd.DataFrame, name: str) -> list[tuple[float, float]]:
    """Return the variance, and its degrees of freedom, that levels of a side's own bring to its mean."""
    means = table.groupby(["row", name])["value"].mean().unstack()
    count = means.shape[1]
    return [(float(means.mean().var(ddof=1)) / count, count - 1.0)] if count > 1 else []

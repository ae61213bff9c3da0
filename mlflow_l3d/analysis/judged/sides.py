"""The judgements of two systems, set side by side row by row."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.analysis.judged.table import DESCRIBED, Usable, usable_judgements


class Sides(NamedTuple):
    """Two systems on the rows of both.

    Attributes
    ----------
    first, second
        Shape (rows,): mean of each row on either side, over the cells (judge, prompt and so on) that both have.
    width
        Range of all values, at least 1 if they are 0 and 1.
    drawn
        Variance and degrees of freedom that each factor brings of which a side has levels of its own.
    answer_variances, answer_shares
        Of either side: variance of the answers to a row (nan if neither side has several), and what it counts in the
        difference of a row.
    judge_std
        See :class:`mlflow_l3d.analysis.judged.results.JudgedDifference`.
    unpaired, repeats, cells
        Of either side: rows that the other lacks, answers per row and prompt, prompts (combinations of factors).
    obstacle
        Why the sides cannot be compared; else empty.
    notes
        What a reader must know.
    """

    first: FloatArray
    second: FloatArray
    width: float
    drawn: tuple[tuple[float, float], ...]
    answer_variances: tuple[float, float]
    answer_shares: tuple[float, float]
    judge_std: float
    unpaired: tuple[int, int]
    repeats: tuple[float, float]
    cells: tuple[int, int]
    obstacle: str
    notes: tuple[str, ...]


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
    of_rows = both.groupby("row").mean()
    kept = [table[table["row"].isin(of_rows.index)] for table in tables]
    factors = [[name for name in each.factors if name in table] for each, table in zip(usable, kept, strict=True)]
    luck = [_answer_variance(table, names) for table, names in zip(kept, factors, strict=True)]
    luck = [other if math.isnan(own) else own for own, other in zip(luck, luck[::-1], strict=True)]
    answers = [table.groupby("row")["answer"].nunique() for table in kept]
    cells = [len(table[names].drop_duplicates()) if names else 1 for table, names in zip(kept, factors, strict=True)]
    values = np.concatenate([table["value"].to_numpy() for table in tables])
    return Sides(
        first=of_rows["first"].to_numpy(),
        second=of_rows["second"].to_numpy(),
        width=1.0 if np.isin(values, (0, 1)).all() else float(np.ptp(values)) if len(values) else 0.0,
        drawn=tuple(part for name in drawn for table in kept if name in table for part in _levels_drawn(table, name)),
        answer_variances=(luck[0], luck[1]),
        answer_shares=(float((1 / answers[0]).mean()), float((1 / answers[1]).mean())),
        judge_std=_judge_std(both["gap"]) if "judge" in shared and len(of_rows) > 1 else math.nan,
        unpaired=tuple(each.table["row"].nunique() - len(of_rows) for each in usable),  # type: ignore[arg-type]
        repeats=tuple(float(each.mean()) / size for each, size in zip(answers, cells, strict=True)),  # type: ignore[arg-type]
        cells=(cells[0], cells[1]),
        obstacle=obstacle,
        notes=tuple(notes),
    )


def _shared_factors(usable: tuple[Usable, Usable]) -> tuple[list[str], list[str], str, list[str]]:
    """Return factors that both sides share, those that they drew for themselves, an obstacle and notes."""
    first, second = (each.table for each in usable)
    obstacle, notes, shared, drawn = "", [], [], []
    judges = [set(table["judge"]) for table in (first, second)]
    if judges[0] & judges[1]:
        shared.append("judge")
        if judges[0] != judges[1]:
            count = len(judges[0] & judges[1])
            notes.append(f"Only the judgements of judges that rated both sides count: {count}.")
    elif judges[0] and judges[1]:
        drawn.append("judge")
        if min(map(len, judges)) < 2:
            obstacle = "the sides have different judges, one on a side: a difference may be the judge's"
    names = {name for table in (first, second) for name in table.columns if name not in DESCRIBED}
    for name in sorted(names):
        levels = [set(table[name]) if name in table else {""} for table in (first, second)]
        if levels[0] == levels[1]:
            shared += [name] * (len(levels[0]) > 1)
            continue
        drawn.append(name)
        if min(map(len, levels)) < 2:
            notes.append(f"{name}: a side has one only, so its luck is part of the difference and not in the interval.")
    if not {*shared, *drawn} - {"judge"}:
        notes.append("Each side has one prompt and model, so their luck is not in the interval.")
    if set(first["answer"]) & set(second["answer"]):
        notes.append("Both sides judged the same answers: the difference is one of judgements, not of answers.")
    for side, each in zip(("first", "second"), usable, strict=True):
        if each.failed_answers or each.failed_judgements:
            failed = f"{each.failed_answers} failed answers and {each.failed_judgements} failed judgements"
            notes.append(f"{failed} of the {side} do not count.")
    return shared, drawn, obstacle, notes


def _answer_variance(table: pd.DataFrame, factors: list[str]) -> float:
    """Return the variance of answers to the same row (and prompt); nan if no row has several."""
    cell = ["row", *factors]
    within = table["value"] - table.groupby([*cell, "judge"])["value"].transform("mean")
    of_answers = within.groupby([*(table[name] for name in cell), table["answer"]]).mean()
    counts = of_answers.groupby(cell).size()
    degrees = int((counts - 1).sum())
    return float(np.square(of_answers).sum()) / degrees if degrees else math.nan


def _levels_drawn(table: pd.DataFrame, name: str) -> list[tuple[float, float]]:
    """Return the variance, and its degrees of freedom, that levels of a side's own bring to its mean."""
    means = table.groupby(["row", name])["value"].mean().unstack()
    count = means.shape[1]
    return [(float(means.mean().var(ddof=1)) / count, count - 1.0)] if count > 1 else []


def _judge_std(gaps: pd.Series[float]) -> float:
    """Return what judges add to the standard error of a difference if they are drawn again; nan with one."""
    table = gaps.groupby(["row", "judge"]).mean().unstack()
    judges = table.shape[1]
    if judges < 2:
        return math.nan
    apart = table.sub(table.mean(axis=1), axis=0)
    noise = float((apart.var(ddof=1) / apart.count()).sum()) / (judges - 1)
    return math.sqrt(max(0.0, float(table.mean().var(ddof=1)) - noise) / judges)

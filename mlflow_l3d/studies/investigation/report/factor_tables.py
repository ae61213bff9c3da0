"""What the report says of the factors: their numbers, order and variances, and the looks of a stopping rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.multiplicity import Ranking
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.numbers import MISSING, between, bracketed, percent, plain, points, probability, signed
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.investigation.report.prediction_tables import prediction_text
from mlflow_l3d.studies.investigation.report.verdicts import Shown, golden_share

INTERIM_SHOWN: Final = 12
"""Interim analyses of one factor that are shown at most: the rule of Appendix B.3 has one after every row."""

_YES_OR_NO: Final = {True: "yes", False: "no", None: MISSING}


def factor_texts(shown: Shown) -> list[dict[str, str]]:
    """Return the numbers of each factor as texts, in the order of the report."""
    analysis, score = shown.analysis, shown.unit.text
    letters = {} if analysis.ranking is None else analysis.ranking.to_frame().set_index("factor")["group"].to_dict()
    rows = []
    for record in shown.records:
        name = record.factor
        agreement, numbers = shown.agreement(name), analysis.regression.get(name, {})
        corrected, bounds = signed(record.importance_corrected), record.corrected_interval
        rows.append(
            {
                "factor": name,
                "verdict": shown.verdict(record),
                "important": _YES_OR_NO[shown.is_important(record)],
                "importance": signed(record.importance),
                "published": between(record.importance_ci_low, record.importance_ci_high),
                "moves": score(record.moves_by_std),
                "interval": MISSING if corrected == MISSING else f"{corrected} {bracketed(*bounds)}",
                "corrected": corrected,
                "bounds": "" if corrected == MISSING else between(*bounds),
                "contributed": score(record.contributed_std),
                "mitigated": score(record.mitigated_std),
                "golden": score(record.golden_std),
                "share": plain(golden_share(record)),
                "mean": score(record.score_mean),
                "std": score(record.score_std),
                "consistency": points(getattr(agreement, "consistency", math.nan), 1),
                "correct": points(getattr(agreement, "correct_consistency", math.nan), 1),
                "missing": str(record.cells_missing),
                "letters": letters.get(name) or MISSING,
                "uneven": plain(record.unevenness),
                "predictions": prediction_text(shown.prediction_importance(name)),
                "kappa": plain(getattr(agreement, "fleiss_kappa", math.nan)),
                "iqr": score(record.score_iqr),
                "golden_iqr": score(record.golden_iqr),
                "collapsed": points(record.collapsed_share, 1),
                "pearson": plain(numbers.get("consistency_pearson", math.nan)),
                "ccc": plain(numbers.get("consistency_ccc", math.nan)),
            }
        )
    return rows


def further_numbers(shown: Shown, columns: Mapping[str, tuple[str, str]]) -> Table | None:
    """Return what else is known of each factor; None where nothing is. Columns without a number are left out.

    Parameters
    ----------
    shown
        The analysis.
    columns
        Key of :func:`factor_texts` -> head of the column, and what it means. A share of collapsed runs alone is no
        reason for a table.
    """
    notes = {shown.say(head): note for head, note in columns.values()}
    rows = tuple((texts["factor"], *[texts[key] for key in columns]) for texts in factor_texts(shown))
    table = Table(("factor", *notes), rows).without_empty(notes)
    if set(table.head) <= {"factor", "collapsed %"}:
        return None
    return replace(table, note=shown.say(" ".join(notes[head] for head in table.head[1:] if notes[head])))


def ranking_tables(ranking: Ranking | None, helps: str = "") -> tuple[Table, ...]:
    """Return the order of the factors, and the differences of all pairs; nothing without a ranking.

    `helps` says what to do where factors cannot be told apart.
    """
    if ranking is None:
        return ()
    lettered = {name for group in ranking.groups for name in group}
    if not lettered:
        return (
            Table(
                ("factor", "corrected importance"),
                tuple((name, signed(value)) for name, value in zip(ranking.factors, ranking.importances, strict=True)),
                "No two factors could be compared: there are too few rows or columns with scores.",
            ),
        )
    order = Table(
        ("factor", "corrected importance", "letters"),
        tuple((name, signed(value), group or MISSING) for name, value, group in _rows(ranking.to_frame())),
        "Factors that share a letter cannot be told apart."
        + (helps if any(len(group) > 1 for group in ranking.groups) else "")
        + (f" {MISSING}: could be compared with no other factor." if len(lettered) < len(ranking.factors) else ""),
    )
    pairs = [
        {
            "pair": f"{pair.first} \N{MINUS SIGN} {pair.second}",
            "difference": signed(pair.difference),
            f"{percent(ranking.level)} interval": between(pair.low, pair.high),
            "p, Holm": probability(pair.p_holm),
            "told apart?": ("yes" if pair.different else "no") if math.isfinite(pair.p_holm) else MISSING,
        }
        for pair in _rows(ranking.differences_frame())
    ]
    if not pairs:
        return (order,)
    note = (
        "Differences of corrected importances, paired by row. The interval holds for the pair by itself; the p-value "
        f"is adjusted for all {len(pairs)} pairs."
    )
    return order, Table.of(pairs, note)


def _rows(frame: pd.DataFrame) -> list[Any]:
    """Return the rows of a frame as named tuples."""
    return list(frame.itertuples(index=False))


def component_table(shown: Shown) -> Table | None:
    """Return the variances behind the corrected importances; None where there are none.

    In the squared unit of the scores. Columns without a number are left out.
    """
    squared, word = shown.unit.squared, shown.golden_word
    alone, golden = "alone\n(main effect)", f"variance of\n{word} runs"
    found = [(record, record.components) for record in shown.records if record.components is not None]
    if not found:
        return None
    rows = []
    for record, parts in found:
        known = record.golden[np.isfinite(record.golden)]
        # A design whose own runs stand for golden runs took its total from these.
        variance = float(known.var(ddof=1)) if len(known) >= 2 and not shown.design.tables_are_golden else math.nan
        rows.append(
            {
                "factor": record.factor,
                alone: squared(parts.main),
                "with others,\nand noise": squared(parts.interaction),
                "contributed": squared(parts.contributed),
                "mitigated": squared(parts.mitigated),
                "total": squared(parts.total),
                golden: squared(variance),
                "alone, share\nof the total": _share(
                    record.first_order_index, record.first_order_ci_low, record.first_order_ci_high
                ),
                f"total /\n{word}": plain(parts.total / variance if variance > 0 else math.nan),
                "contributed,\nshare": _share(parts.total_index, *map(total_index_of, record.corrected_interval)),
                "method": parts.method,
            }
        )
    table = Table.of(rows)
    table = table.without_empty(table.head)
    notes = [
        f"Squared {shown.unit.name}, not cut at zero. Contributed: what the factor brings about, alone and together "
        "with the others; mitigated: what all other factors do by themselves; total: their sum (mitigated at least 0). "
        f"The share contributed / total decides: above 50 % the factor dominates. Below shares stands their "
        f"{percent(shown.level)} interval, both cut at 0 and 100 %, between which every true share lies.",
        "Main effect and interaction add up to contributed."
        if alone in table.head
        else "This design cannot tell a main effect from interactions.",
    ]
    if golden in table.head:
        notes.append(
            "The golden runs estimate the total too: a ratio far from 1 hints at a seed that leaks (check L3D006)."
            if word == "golden"
            else "Pooled runs are the same cells, so that their variance confirms nothing."
        )
    below = [f"{name} of {record.factor}" for record, parts in found for name in parts.truncated]
    if below:
        notes.append(f"Below zero, by chance; the best estimate is 0: {', '.join(below)}.")
    return replace(table, note=" ".join(notes))


def collapse_table(shown: Shown) -> Table | None:
    """Return the two parts of the score, a row a factor; None where no run collapsed."""
    found = shown.analysis.collapse
    if found is None:
        return None
    level = shown.say("{level} interval")
    rows = []
    for record in shown.records:
        cause, rest = found.causes[record.factor], found.rest[record.factor]
        rows.append(
            {
                "factor": record.factor,
                "collapsed\n% of cells": points(record.collapsed_share, 1),
                "importance for\nwhich collapse": f"{signed(cause.importance_corrected)}\n{_bounds(cause)}",
                "importance of\nthe others": signed(rest.importance),
                f"corrected\n{level}": f"{signed(rest.importance_corrected)}\n{_bounds(rest)}",
                f"their\n{shown.golden_word} std": shown.unit.text(rest.golden_std),
            }
        )
    share = ""
    if found.runs:
        low, high = (points(end, 1) for end in found.share_interval())
        share = f"{found.collapsed} of {found.runs} runs that draw every factor score below chance "
        share += f"({level}: {low} to {high} %). "
    note = (
        f"{share}A score with collapsed runs has two parts: which runs collapse, and how far the others differ. "
        "Importance for which collapse takes 1 for a collapsed run and 0 for another in place of the score. For the "
        "others, collapsed runs are left out as if they were missing. These intervals hold where those of the whole "
        "score do not."
    )
    return Table.of(rows, note)


def _bounds(record: Importance) -> str:
    return between(*record.corrected_interval)


def _share(share: float, low: float, high: float) -> str:
    """Return a share in per cent, and below it its interval; cut at 0 and 1, between which every true share lies."""
    if not math.isfinite(share):
        return MISSING
    ends = tuple(points(min(max(end, 0.0), 1.0), 0) if math.isfinite(end) else MISSING for end in (low, high))
    return f"{points(min(max(share, 0.0), 1.0), 1)} %" + ("" if MISSING in ends else f"\n({ends[0]} to {ends[1]})")


def interim_table(analysis: Analysis) -> Table | None:
    """Return the looks of the stopping rule, those of one factor together; None without any."""
    looks = analysis.interim_analyses
    if looks is None or not len(looks):
        return None
    spends = bool(np.isfinite(looks["alpha"].to_numpy(dtype=np.float64)).any())
    by_factor = looks.groupby("factor", sort=False)
    last = [look for _, own in by_factor for look in own.tail(INTERIM_SHOWN).to_dict("records")]
    rows = []
    for look in last:
        numbers = {"importance": signed(look["importance"]), "change": _small(look["change"])}
        if spends:
            numbers = {"interval": between(look["low"], look["high"]), "alpha spent": _small(look["alpha"])}
        words = {"decision": str(look["decision"]), "reason": str(look["reason"])}
        rows.append({"factor": str(look["factor"]), "rows": str(look["rows"]), **numbers, **words})
    note = "A change may be small by chance, so this rule says nothing about the error of the score."
    if spends:
        note = (
            "The interval of a look holds at the level 1 - alpha spent, so that all claims of all looks hold together."
        )
    if left_out := len(looks) - len(last):
        note += f" {left_out} earlier looks are left out."
    return Table.of(rows, note, texts=frozenset({4, 5}))


def _small(value: float) -> str:
    return f"{value:.3g}" if pd.notna(value) and math.isfinite(value) else MISSING

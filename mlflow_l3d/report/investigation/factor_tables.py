"""What the report says of the factors: their numbers, order and variances, and the looks of a stopping rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.multiplicity import Ranking
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.investigation.prediction_tables import prediction_text
from mlflow_l3d.report.investigation.verdicts import (
    by_importance,
    golden_record,
    golden_share,
    golden_word,
    interval,
    verdict,
)
from mlflow_l3d.report.numbers import MISSING, between, percent, plain, points, probability, signed, squared_points
from mlflow_l3d.report.table import Table

INTERIM_SHOWN: Final = 12
"""Interim analyses of one factor that are shown at most: the rule of Appendix B.3 has one after every row."""


def factor_texts(analysis: Analysis) -> list[dict[str, str]]:
    """Return the numbers of each factor as texts, the most important factor first."""
    letters = ranking_letters(analysis.ranking)
    rows = []
    for record in by_importance(analysis):
        name = record.factor
        agreement, numbers = analysis.consistencies.get(name), analysis.regression.get(name, {})
        corrected = math.isfinite(record.importance_corrected)
        rows.append(
            {
                "factor": name,
                "important": verdict(record).yes_or_no,
                "importance": signed(record.importance),
                "interval": interval(record),
                "corrected": signed(record.importance_corrected),
                "bounds": between(record.importance_ci_low, record.importance_ci_high) if corrected else "",
                "contributed": points(record.contributed_std),
                "mitigated": points(record.mitigated_std),
                "golden": points(record.golden_std),
                "share": plain(golden_share(record)),
                "mean": points(record.score_mean),
                "std": points(record.score_std),
                "consistency": points(getattr(agreement, "consistency", math.nan), 1),
                "correct": points(getattr(agreement, "correct_consistency", math.nan), 1),
                "missing": str(record.cells_missing),
                "letters": letters.get(name, "") or MISSING,
                "p_holm": probability(analysis.p_holm.get(name, math.nan)),
                "predictions": prediction_text(analysis.prediction_importances.get(name)),
                "kappa": plain(getattr(agreement, "fleiss_kappa", math.nan)),
                "iqr": points(record.score_iqr),
                "golden_iqr": points(record.golden_iqr),
                "collapsed": points(record.collapsed_share, 1),
                "pearson": plain(numbers.get("consistency_pearson", math.nan)),
                "ccc": plain(numbers.get("consistency_ccc", math.nan)),
            }
        )
    return rows


def further_numbers(analysis: Analysis) -> Table | None:
    """Return what else is known of each factor; None where nothing is. Columns without a number are left out."""
    keys = {
        "told apart\n(letters)": "letters",
        "p, Holm": "p_holm",
        "importance for\npredictions": "predictions",
        "kappa": "kappa",
        "IQR of cells": "iqr",
        f"IQR of {golden_word(golden_record(analysis))} runs": "golden_iqr",
        "collapsed %": "collapsed",
    }
    rows = tuple((texts["factor"], *[texts[key] for key in keys.values()]) for texts in factor_texts(analysis))
    table = Table(("factor", *keys), rows).without_empty(keys)
    if set(table.head) <= {"factor", "collapsed %"}:
        return None
    notes = {
        "told apart\n(letters)": "Factors that share a letter cannot be told apart.",
        "p, Holm": "p: probability of such a corrected score, or a higher one, if the factor were not important, "
        "adjusted for the number of factors (Holm).",
        "importance for\npredictions": "Importance for predictions: the same scale, for single predictions in place of "
        "the score; below it the share of their variance that the factor alone brings about, with its 95 % interval.",
        "kappa": "kappa: agreement of two runs beyond chance (Fleiss).",
        "IQR of cells": "IQR: distance of the quartiles in points, which a few collapsed runs do not move.",
        "collapsed %": "Collapsed: runs that score below chance.",
    }
    return replace(table, note=" ".join(text for head, text in notes.items() if head in table.head))


def ranking_letters(ranking: Ranking | None) -> dict[str, str]:
    """Return factor -> the letters of its groups; empty without a ranking."""
    if ranking is None:
        return {}
    frame = ranking.to_frame()
    return dict(zip(frame["factor"].astype(str), frame["group"].astype(str), strict=True))


def ranking_tables(ranking: Ranking | None) -> tuple[Table, ...]:
    """Return the order of the factors, and the differences of all pairs; nothing without a ranking."""
    if ranking is None:
        return ()
    frame, pairs = ranking.to_frame(), ranking.differences_frame()
    order = Table(
        ("factor", "corrected score", "letters"),
        tuple(
            (str(name), signed(value), str(group) or MISSING)
            for name, value, group in zip(frame["factor"], frame["importance_corrected"], frame["group"], strict=True)
        ),
        "Factors that share a letter cannot be told apart. Scores are from the rows that all factors share, so they "
        "may differ a little from those above.",
    )
    differences = Table(
        ("pair", "difference", f"{percent(ranking.level)} interval", "p, Holm", "told apart?"),
        tuple(
            (
                f"{pair.first} \N{MINUS SIGN} {pair.second}",
                signed(pair.difference),
                between(pair.low, pair.high),
                probability(float(adjusted)),
                ("yes" if apart else "no") if math.isfinite(adjusted) else MISSING,
            )
            for pair, adjusted, apart in zip(ranking.differences, pairs["p_holm"], pairs["different"], strict=True)
        ),
        "Differences of the corrected scores, paired by row. The interval holds for the pair by itself; the p-value is "
        f"adjusted for all {len(pairs)} pairs.",
    )
    return (order, differences) if len(pairs) else (order,)


def component_table(analysis: Analysis) -> Table | None:
    """Return the variances behind the corrected scores, in squared percentage points; None where there are none."""
    records = [record for record in by_importance(analysis) if record.components is not None]
    if not records:
        return None
    split = any(record.components and math.isfinite(record.components.main) for record in records)
    # A design whose own runs stand for golden ones takes its total from them: nothing to compare.
    closes = any(not design_named(record.design).own_golden for record in records)
    golden = f"variance of\n{golden_word(records[0])} runs"
    head = [
        "factor",
        *(["alone\n(main effect)", "with others,\nand noise"] if split else []),
        "contributed",
        "mitigated",
    ]
    head += [
        "total",
        *([golden, "total /\n" + golden_word(records[0])] if closes else []),
        "share of\nthe total",
        "method",
    ]
    rows = []
    for record in records:
        parts = record.components
        assert parts is not None
        variance = _variance(record)
        cells = [record.factor]
        cells += [squared_points(parts.main), squared_points(parts.interaction)] if split else []
        cells += [squared_points(value) for value in (parts.contributed, parts.mitigated, parts.total)]
        if closes:
            ratio = parts.total / variance if variance > 0 else math.nan
            cells += [squared_points(variance), plain(ratio)]
        rows.append((*cells, f"{points(parts.total_index, 1)} %", parts.method))
    return Table(tuple(head), tuple(rows), _component_note(records, split=split, closes=closes))


def _component_note(records: Sequence[Importance], *, split: bool, closes: bool) -> str:
    parts = [
        "Squared percentage points, not cut at zero. Contributed: what the factor brings about, alone and together "
        "with the others; mitigated: what all other factors do by themselves; total: their sum (mitigated at least 0). "
        "The share contributed / total decides: above 50 % the corrected score is above 0."
    ]
    if split:
        parts.append("Main effect and interaction add up to contributed.")
    else:
        parts.append("This design cannot tell a main effect from interactions.")
    if closes:
        parts.append(
            f"The {golden_word(records[0])} runs estimate the total too: a ratio far from 1 hints at a seed that leaks "
            "(check L3D006)."
            if golden_word(records[0]) == "golden"
            else "Pooled runs are the same cells, so that their variance confirms nothing."
        )
    below = [
        f"{name} of {record.factor}" for record in records if record.components for name in record.components.truncated
    ]
    if below:
        parts.append(f"Below zero, by chance; the best estimate is 0: {', '.join(below)}.")
    return " ".join(parts)


def _variance(record: Importance) -> float:
    known = record.golden[np.isfinite(record.golden)]
    own = design_named(record.design).own_golden
    return float(known.var(ddof=1)) if len(known) >= 2 and not own else math.nan


def interim_table(analysis: Analysis) -> Table | None:
    """Return the looks of the stopping rule, those of one factor together; None without any."""
    interim_analyses = analysis.interim_analyses
    if interim_analyses is None or not len(interim_analyses):
        return None
    spends = bool(np.isfinite(interim_analyses["alpha"].to_numpy(dtype=np.float64)).any())
    middle = ("interval", "alpha spent") if spends else ("importance", "change")
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for factor, own in interim_analyses.groupby("factor", sort=False):
        left_out += max(0, len(own) - INTERIM_SHOWN)
        for interim in own.tail(INTERIM_SHOWN).to_dict("records"):
            numbers = (
                (between(interim["low"], interim["high"]), _small(interim["alpha"]))
                if spends
                else (signed(interim["importance"]), _small(interim["change"]))
            )
            rows.append((str(factor), str(interim["rows"]), *numbers, str(interim["decision"]), str(interim["reason"])))
    note = "The interval of a look holds at the level 1 - alpha spent, so that all claims of all looks hold together."
    if not spends:
        note = "A change may be small by chance, so this rule says nothing about the error of the score."
    if left_out:
        note += f" {left_out} earlier looks are left out."
    return Table(("factor", "rows", *middle, "decision", "reason"), tuple(rows), note, frozenset({4, 5}))


def _small(value: float) -> str:
    return f"{value:.3g}" if pd.notna(value) and math.isfinite(value) else MISSING

"""What the report says of the factors below its first table: further numbers, order, variances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlflow_l3d.analysis.importance.multiplicity import Ranking
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.report.investigation.sections.predictions import prediction_text
from mlflow_l3d.report.investigation.sections.table import Table, between
from mlflow_l3d.report.investigation.verdicts import (
    MISSING,
    by_importance,
    golden_word,
    percent,
    plain,
    points,
    probability,
    signed,
    squared_points,
)


def further_numbers(analysis: Analysis) -> Table | None:
    """Return what else is known of each factor; None where nothing is. Columns without a number are left out."""
    records = by_importance(analysis)
    letters = ranking_letters(analysis.ranking)
    columns: dict[str, list[str]] = {
        "told apart\n(letters)": [letters.get(record.factor, MISSING) or MISSING for record in records],
        "p, Holm": [probability(analysis.p_holm.get(record.factor, math.nan)) for record in records],
        "importance for\npredictions": [
            prediction_text(analysis.prediction_importances.get(r.factor)) for r in records
        ],
        "kappa": [plain(_kappa(analysis.consistencies.get(record.factor))) for record in records],
        "IQR of cells": [points(record.score_iqr) for record in records],
        f"IQR of {_golden(records)} runs": [points(record.golden_iqr) for record in records],
        "collapsed %": [points(record.collapsed_share, 1) for record in records],
    }
    shown = {head: cells for head, cells in columns.items() if set(cells) - {MISSING}}
    if set(shown) <= {"collapsed %"}:
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
    return Table(
        ("factor", *shown),
        tuple((record.factor, *(cells[at] for cells in shown.values())) for at, record in enumerate(records)),
        " ".join(text for head, text in notes.items() if head in shown),
    )


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
    # A radial design takes its total from the very runs that stand for golden ones: nothing to compare.
    closes = any(record.design != "radial" for record in records)
    golden = f"variance of\n{_golden(records)} runs"
    head = [
        "factor",
        *(["alone\n(main effect)", "with others,\nand noise"] if split else []),
        "contributed",
        "mitigated",
    ]
    head += ["total", *([golden, "total /\n" + _golden(records)] if closes else []), "share of\nthe total", "method"]
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
            f"The {_golden(records)} runs estimate the total too: a ratio far from 1 hints at a seed that leaks "
            "(check L3D006)."
            if _golden(records) == "golden"
            else "Pooled runs are the same cells, so that their variance confirms nothing."
        )
    below = [
        f"{name} of {record.factor}" for record in records if record.components for name in record.components.truncated
    ]
    if below:
        parts.append(f"Below zero, by chance; the best estimate is 0: {', '.join(below)}.")
    return " ".join(parts)


def _kappa(group: Consistency | None) -> float:
    return math.nan if group is None else group.fleiss_kappa


def _golden(records: Sequence[Importance]) -> str:
    return golden_word(records[0]) if records else "golden"


def _variance(record: Importance) -> float:
    known = record.golden[np.isfinite(record.golden)]
    return float(known.var(ddof=1)) if len(known) >= 2 and record.design != "radial" else math.nan

"""Tables behind the answers: how much predictions agree, the order of the factors, variances, collapsed runs, looks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.results import PredictionImportance
from mlflow_l3d.analysis.importance.multiplicity import Ranking
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.numbers import (
    MISSING,
    between,
    counted,
    percent,
    plain,
    points,
    probability,
    signed,
    with_limits,
)
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.investigation.report.verdicts import Shown

_LETTERS: Final = "[[letters|letters]]"


def agreement_table(shown: Shown) -> Table | None:
    """Return how much runs agree on single predictions, a row for each group; None without predictions."""
    analysis = shown.analysis
    names = dict.fromkeys([*analysis.consistencies, *analysis.regression])
    groups = [record.factor for record in shown.records if record.factor in names]
    groups += [name for name in names if name not in analysis.importances]
    if not groups:
        return None
    whole = Table.of([_agreement_row(shown, name) for name in groups])
    # Without classes some columns have no meaning; of the others, an empty one shows that nothing is known.
    table = whole.without_empty(whole.head[6:] if analysis.agreement is None else whole.head[1:])
    return replace(table, note=_agreement_note(shown, table.head))


def _agreement_row(shown: Shown, name: str) -> dict[str, str]:
    group = shown.analysis.reported_agreement(name)
    numbers = shown.analysis.regression.get(name, {})
    every = "pooled runs" if shown.golden_word == "pooled" else shown.design.words.examples

    def shared(attribute: str) -> float:
        return float(getattr(group, attribute, math.nan))

    common, importance, ratio = shared("common_examples"), MISSING, MISSING
    if (record := shown.prediction_importance(name)) is not None and math.isfinite(record.share):
        importance = with_limits(signed(record.importance), between(*record.importance_interval))
        ratio = _ratio_text(record)
    return {
        "what changes": f"every factor ({every})" if name == "golden" else name,
        "[[CON|agree]] %": points(shared("consistency"), 1),
        "[[CCON|right]] %": points(shared("correct_consistency"), 1),
        "agree on\nwrong %": MISSING if shown.graded else points(shared("agreement_on_wrong"), 1),
        "[[kappa|kappa]]": plain(shared("fleiss_kappa")),
        "common\nexamples": f"{common:,.0f}" if math.isfinite(common) else MISSING,
        "importance for\npredictions": importance,
        "share of\n[[disagreement|disagreement]]": ratio,
        "accuracy\nstd": points(shared("accuracy_std")),
        "larger\ntest set": points(shared("accuracy_std_population")),
        "Pearson": plain(numbers.get("consistency_pearson", math.nan)),
        "concor-\ndance": plain(numbers.get("consistency_ccc", math.nan)),
    }


def _agreement_note(shown: Shown, head: Sequence[str]) -> str:
    agreement = shown.analysis.agreement
    parts = []
    if agreement not in (None, "regression"):
        parts.append(f"Predictions are compared by {agreement}.")
    if shown.graded and "[[CCON|right]] %" in head:
        parts.append("CON: mean agreement of two runs; CCON: the same against the truth.")
    if agreement is None:
        parts.append(
            "Accuracy std: standard deviation of the accuracy between runs that are compared, in points; larger test "
            "set: what would be left of it without the noise of a finite test set. Where few runs are compared at a "
            "time, the latter may be 0 by chance."
        )
    if "Pearson" in head:
        parts.append(
            "Correlations of the numbers that two runs predict, mean over pairs: Pearson's is blind to shift and "
            "scale; Lin's concordance is 1 only for equal predictions."
        )
    if shown.analysis.prediction_importances:
        parts.append(
            "Importance for predictions: above 0 the factor changes more predictions, interactions included, than all "
            "others without it. Share of disagreement, with its 95 % interval: estimates the share of the predictions' "
            "variance that the factor causes; both parts come from different runs, so luck may put it above 100 %."
        )
    return " ".join(parts)


def _ratio_text(record: PredictionImportance) -> str:
    """Return the ratio behind importance for predictions in per cent, and below it its interval."""
    low, high = record.share_ci_low, record.share_ci_high
    # With few rows the interval has no upper end.
    limits = f"{points(low, 0)} to {'any' if high >= 10 else points(high, 0)}" if math.isfinite(low) else MISSING
    return with_limits(f"{points(record.share, 0)} %", limits)


def ranking_tables(ranking: Ranking | None, helps: str = "") -> tuple[Table, ...]:
    """Return the order of the factors, and the differences of all pairs; nothing without a ranking.

    `helps` says what to do if factors cannot be distinguished.
    """
    if ranking is None:
        return ()
    letters = ranking.to_frame()["group"].tolist()
    rows = [
        {"factor": name, "corrected importance": signed(importance), _LETTERS: group or MISSING}
        for name, importance, group in zip(ranking.factors, ranking.importances, letters, strict=True)
    ]
    order = Table.of(rows).without_empty([_LETTERS])
    if _LETTERS not in order.head:
        note = "No two factors could be compared: there are too few rows or columns with scores."
        return (replace(order, note=note),)
    alone = any(row[_LETTERS] == MISSING for row in rows)
    note = (
        "Factors that share a letter do not differ significantly."
        + (helps if any(len(group) > 1 for group in ranking.groups) else "")
        + (f" {MISSING}: could be compared with no other factor." if alone else "")
    )
    pairs = [
        {
            "pair": f"{pair['first']} \N{MINUS SIGN} {pair['second']}",
            "difference": signed(pair["difference"]),
            f"{percent(ranking.level)} interval": between(pair["low"], pair["high"]),
            "p, Holm": probability(pair["p_holm"]),
            "different?": ("yes" if pair["different"] else "no") if math.isfinite(pair["p_holm"]) else MISSING,
        }
        for pair in ranking.differences_frame().to_dict("records")
    ]
    about = (
        "Differences of corrected importances, paired by row. The interval holds for the pair by itself; the p-value "
        f"is adjusted for {counted(len(pairs), 'pair')}."
    )
    return replace(order, note=note), *([Table.of(pairs, about)] if pairs else [])


def component_table(shown: Shown) -> Table | None:
    """Return the variances behind the corrected importances; None if there are none.

    In the squared unit of the scores. Columns without a number are left out.
    """
    squared, word = shown.unit.squared, shown.golden_word
    alone, golden = "alone\n(main effect)", f"variance of\n{word} runs"
    rows, below = [], []
    for record in shown.records:
        if (parts := record.components) is None:
            continue
        scores = record.golden[np.isfinite(record.golden)]
        # A design whose own runs stand for golden runs took its total from these.
        variance = float(scores.var(ddof=1)) if len(scores) >= 2 and not shown.design.tables_are_golden else math.nan
        below += [f"{name} of {record.factor}" for name in parts.truncated]
        rows.append(
            {
                "factor": record.factor,
                alone: squared(parts.main),
                "with others,\nand noise": squared(parts.interaction),
                "contributed": squared(parts.contributed),
                "mitigated": squared(parts.mitigated),
                "total": squared(parts.total),
                golden: squared(variance),
                f"total /\n{word}": plain(parts.total / variance if variance > 0 else math.nan),
                "method": parts.method,
            }
        )
    if not rows:
        return None
    table = Table.of(rows)
    table = table.without_empty(table.head)
    notes = [
        f"Squared {shown.unit.name}, not cut at zero. Contributed: what the factor causes, alone and together "
        "with the others; mitigated: what all other factors do by themselves; total: their sum (mitigated at least 0). "
        "The share contributed / total decides: above 50 % the factor dominates.",
        "Main effect and interaction add up to contributed."
        if alone in table.head
        else "This design cannot separate a main effect from interactions.",
    ]
    if golden in table.head:
        notes.append(
            "The golden runs estimate the total too: a ratio far from 1 hints at a seed that leaks (check L3D006)."
            if word == "golden"
            else "Pooled runs are the same cells, so that their variance confirms nothing."
        )
    if below:
        notes.append(f"Below zero, by chance; the best estimate is 0: {', '.join(below)}.")
    return replace(table, note=" ".join(notes))


def collapse_table(shown: Shown) -> Table | None:
    """Return the two parts of the score, a row per factor; None where no run collapsed."""
    collapse = shown.analysis.collapse
    if collapse is None:
        return None
    level = shown.say("{level} interval")
    rows = []
    for record in shown.records:
        cause, rest = collapse.causes[record.factor], collapse.rest[record.factor]
        intervals = [between(*part.corrected_interval) for part in (cause, rest)]
        rows.append(
            {
                "factor": record.factor,
                "collapsed\n% of cells": points(record.collapsed_share, 1),
                "importance for\nwhich collapse": f"{signed(cause.importance_corrected)}\n{intervals[0]}",
                "importance of\nthe others": signed(rest.importance),
                f"corrected\n{level}": f"{signed(rest.importance_corrected)}\n{intervals[1]}",
                f"their\n{shown.golden_word} std": shown.unit.text(rest.golden_std),
            }
        )
    note = (
        "A score with collapsed runs has two parts: which runs collapse, and how much the others differ. "
        "Importance for which collapse takes 1 for a collapsed run and 0 for another in place of the score. For the "
        "others, collapsed runs are left out as if they were missing. These intervals hold where those of the whole "
        "score do not."
    )
    return Table.of(rows, note)


def interim_table(analysis: Analysis) -> Table | None:
    """Return the looks of the stopping rule, those of one factor together; None without any."""
    looks = analysis.interim_analyses
    if looks is None or not len(looks):
        return None
    spends = bool(np.isfinite(looks["alpha"].to_numpy(dtype=np.float64)).any())
    groups = looks.groupby("factor", sort=False)
    # The rule of Appendix B.3 has one after every row.
    last = [look for _, group in groups for look in group.tail(12).to_dict("records")]
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

"""The tables of the report below the first one: what they show, as texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.multiplicity import Ranking
from mlflow_l3d.analysis.prediction_importance import PredictionImportance
from mlflow_l3d.analysis.results import Analysis, Consistency, Importance
from mlflow_l3d.report.verdicts import (
    MISSING,
    by_importance,
    golden_record,
    golden_word,
    percent,
    plain,
    points,
    probability,
    signed,
    squared_points,
)

FRAGILE_SHOWN: Final = 15
LOOKS_SHOWN: Final = 12
"""Looks of one factor that are shown at most: the rule of Appendix B.3 looks after every row."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its head, its rows (the first cell names the row), and a sentence below it.

    A cell may hold a second, smaller line after a line break.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    texts: frozenset[int] = frozenset()
    """Columns of words, which stand at the left and may break."""


def further_numbers(analysis: Analysis) -> Table | None:
    """Return what else is known of each factor; None where nothing is. Columns without a number are left out."""
    records = by_importance(analysis)
    letters = ranking_letters(analysis.ranking)
    columns: dict[str, list[str]] = {
        "told apart\n(letters)": [letters.get(record.factor, MISSING) or MISSING for record in records],
        "p, Holm": [probability(analysis.p_holm.get(record.factor, math.nan)) for record in records],
        "importance for\npredictions": [_prediction(analysis.prediction_importances.get(r.factor)) for r in records],
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
                _between(pair.low, pair.high),
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


def agreement_table(analysis: Analysis) -> Table | None:
    """Return how far runs agree on single predictions, a row for each group; None without predictions."""
    groups = [analysis.consistencies[r.factor] for r in by_importance(analysis) if r.factor in analysis.consistencies]
    groups += [group for name, group in analysis.consistencies.items() if name not in analysis.importances]
    if not groups:
        return None
    record = golden_record(analysis)
    label = "base runs" if analysis.design == "radial" else "golden runs"
    if record is not None and record.golden_pooled:
        label = "pooled runs"
    note = (
        "Accuracy std: standard deviation of the accuracy between runs that are compared, in points; larger test set: "
        "what would be left of it without the noise of a finite test set. Where few runs are compared at a time, the "
        "latter may be 0 by chance."
    )
    if analysis.prediction_importances:
        note += (
            " Importance for predictions: above 0 the factor changes more predictions than all others together; below "
            "it its share of their variance, with the 95 % interval."
        )
    whole = Table(
        (
            "what changes",
            "CON %",
            "CCON %",
            "agree on\nwrong %",
            "kappa",
            "common\nexamples",
            "importance for\npredictions",
            "accuracy\nstd",
            "larger\ntest set",
        ),
        tuple(
            (
                f"every factor ({label})" if group.group == "golden" else group.group,
                points(group.consistency, 1),
                points(group.correct_consistency, 1),
                points(group.agreement_on_wrong, 1),
                plain(group.fleiss_kappa),
                f"{group.common_examples:,.0f}" if math.isfinite(group.common_examples) else MISSING,
                _prediction(analysis.prediction_importances.get(group.group)),
                points(group.accuracy_std),
                points(group.accuracy_std_population),
            )
            for group in groups
        ),
        note,
    )
    return _without_empty(whole, "importance for\npredictions", "accuracy\nstd", "larger\ntest set")


def _without_empty(table: Table, *names: str) -> Table:
    """Return the table without those of the named columns that hold no number."""
    gone = {at for at, head in enumerate(table.head) if head in names and all(r[at] == MISSING for r in table.rows)}

    def keep(cells: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cell for at, cell in enumerate(cells) if at not in gone)

    return Table(keep(table.head), tuple(keep(row) for row in table.rows), table.note)


def fragile_table(analysis: Analysis) -> Table | None:
    """Return the examples on which runs differ most: ids and votes, no texts; None where there are none."""
    if analysis.examples is None:
        return None
    worst = analysis.examples.most_fragile(FRAGILE_SHOWN)
    if worst.empty:
        return None
    return Table(
        ("example", "true class", "votes", "runs", "right %", "entropy (bits)"),
        tuple(
            (
                str(row["example_id"]),
                str(row["label"]),
                _votes(row["votes"], int(row["unparsed"])),
                str(row["runs"]),
                points(float(row["share_right"]), 0),
                plain(float(row["entropy"])),
            )
            for row in worst.to_dict("records")
        ),
        "Votes: how many runs predict each class, as class: runs. Entropy is 0 where all runs agree.",
        frozenset({2}),
    )


def look_table(analysis: Analysis) -> Table | None:
    """Return the looks of the stopping rule, those of one factor together; None without any."""
    looks = analysis.looks
    if looks is None or not len(looks):
        return None
    spends = bool(np.isfinite(looks["alpha"].to_numpy(dtype=np.float64)).any())
    middle = ("interval", "alpha spent") if spends else ("importance", "change")
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for factor, own in looks.groupby("factor", sort=False):
        left_out += max(0, len(own) - LOOKS_SHOWN)
        for look in own.tail(LOOKS_SHOWN).to_dict("records"):
            numbers = (
                (_between(look["low"], look["high"]), _small(look["alpha"]))
                if spends
                else (signed(look["importance"]), _small(look["change"]))
            )
            rows.append((str(factor), str(look["rows"]), *numbers, str(look["decision"]), str(look["reason"])))
    note = "The interval of a look holds at the level 1 - alpha spent, so that all claims of all looks hold together."
    if not spends:
        note = "A change may be small by chance, so this rule says nothing about the error of the score."
    if left_out:
        note += f" {left_out} earlier looks are left out."
    return Table(("factor", "rows", *middle, "decision", "reason"), tuple(rows), note, frozenset({4, 5}))


def shares(analysis: Analysis) -> tuple[tuple[str, str, float], ...]:
    """Return kind, name and share of robust, fragile and never right examples; empty without examples."""
    votes = analysis.examples
    if votes is None or not math.isfinite(votes.robust_share):
        return ()
    return (
        ("robust", "right in every run", votes.robust_share),
        ("fragile", "right in some", votes.fragile_share),
        ("never", "right in none", votes.never_right_share),
    )


def prediction_pair(record: PredictionImportance | None) -> tuple[str, str]:
    """Return importance for predictions, and the share with its interval."""
    if record is None or not math.isfinite(record.share):
        return MISSING, ""
    ends = points(record.share_ci_low, 0), points(record.share_ci_high, 0)
    bounds = "" if MISSING in ends else f" ({ends[0]} to {ends[1]})"
    return signed(record.importance), f"{points(record.share, 0)} %{bounds}"


def _prediction(record: PredictionImportance | None) -> str:
    return "\n".join(part for part in prediction_pair(record) if part)


def _kappa(group: Consistency | None) -> float:
    return math.nan if group is None else group.fleiss_kappa


def _golden(records: Sequence[Importance]) -> str:
    return golden_word(records[0]) if records else "golden"


def _variance(record: Importance) -> float:
    known = record.golden[np.isfinite(record.golden)]
    return float(known.var(ddof=1)) if len(known) >= 2 and record.design != "radial" else math.nan


def _between(low: float, high: float) -> str:
    ends = signed(low), signed(high)
    return MISSING if MISSING in ends else f"{ends[0]} to {ends[1]}"


def _small(value: float) -> str:
    return f"{value:.3g}" if pd.notna(value) and math.isfinite(value) else MISSING


def _votes(votes: Sequence[int], unparsed: int) -> str:
    named = sorted(((count, name) for name, count in enumerate(votes) if count), key=lambda pair: (-pair[0], pair[1]))
    parts = [f"{name}: {count}" for count, name in named[:6]]
    if len(named) > 6:
        parts.append(f"{len(named) - 6} more classes: {sum(count for count, _ in named[6:])}")
    return ", ".join([*parts, *([f"no class: {unparsed}"] if unparsed else [])])

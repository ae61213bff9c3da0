"""The tables of a sweep; in LaTeX, for a paper: booktabs, percentage points, (*) as in Pecher et al. 2024."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.importance.verdicts import DECIDED
from mlflow_l3d.report.numbers import MISSING, between, percent, probability, signed
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.sweep.numbers.interactions import Interaction
from mlflow_l3d.studies.sweep.numbers.measured import GOLDEN_STD
from mlflow_l3d.studies.sweep.numbers.point import value_text
from mlflow_l3d.studies.sweep.numbers.trends import Trend
from mlflow_l3d.studies.sweep.report.shown import ShownSweep, per, short

_SCOPES: Final = {"one task": "one task", "these tasks": "these two tasks", "tasks": "{tasks} tasks"}
_TREND_NOTE: Final = (
    "Change of the importance (no unit), or of the golden standard deviation in per cent. Claims: whether there is a "
    "trend, by a p-value {tests} of trends and choices (Holm). Points are compared with points that are alike in all "
    "other choices."
)
_INTERACTION_NOTE: Final = (
    "Whether all values of a choice have one importance, or one golden standard deviation. Std: how much they differ, "
    "without what their errors add. Claims: whether they differ, by a p-value {tests} of trends and choices (Holm). It "
    "is about these points: whether other tasks or models would show the same is another question."
)


def trend_table(shown: ShownSweep) -> Table | None:
    """Return the slopes of all trends, claims first; None if there is none."""
    rows = [
        {
            "choice": one.choice,
            "of": _of(one.of),
            "per": per(one),
            "change": shown.change(one.of, one.slope),
            percent(shown.sweep.level): between(one.low, one.high, partial(shown.change, one.of)),
            "p, Holm": probability(one.p_holm),
            "claim": _claim(shown, one),
            "points": str(one.points),
            "over": _SCOPES.get(one.scope, "{tasks} tasks, a slope each").format(tasks=one.tasks),
        }
        for one in sorted(shown.sweep.trends, key=lambda one: not shown.claimed(one.p_holm))
    ]
    note = _TREND_NOTE.format(tests=shown.tests)
    return Table.of(rows, note, texts=frozenset({1, 2, 6, 8})) if rows else None


def interaction_table(shown: ShownSweep) -> Table | None:
    """Return the tests of all choices and factors, the surest first; None if there is none."""
    rows = []
    for one in [*shown.moved(), *(one for one in shown.sweep.interactions if not shown.claimed(one.p_holm))]:
        ends = [f"{short(value_text(value))} {shown.level(one.of, mean)}" for value, mean in one.extremes()]
        spread = partial(shown.change, one.of, sign=False)
        rows.append(
            {
                "choice": one.choice,
                "of": _of(one.of),
                **dict(zip(("lowest", "highest"), ends, strict=True)),
                "std": spread(one.test.spread),
                percent(shown.sweep.level): between(one.test.spread_low, one.test.spread_high, spread),
                "p, Holm": probability(one.p_holm),
                "claim": _claim(shown, one),
                "points": str(one.test.points),
            }
        )
    note = _INTERACTION_NOTE.format(tests=shown.tests)
    return Table.of(rows, note, texts=frozenset({1, 2, 3, 7})) if rows else None


def _claim(shown: ShownSweep, one: Trend | Interaction) -> str:
    return MISSING if math.isnan(one.p_holm) else "yes" if shown.claimed(one.p_holm) else "no"


def _of(name: str) -> str:
    return "golden std" if name == GOLDEN_STD else name


_WORDS: Final = dict(
    zip('\\~^<>|"', ("backslash", "asciitilde", "asciicircum", "less", "greater", "bar", "quotedbl"), strict=True)
)
_ESCAPED: Final = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {sign: rf"\text{word}{{}}" for sign, word in _WORDS.items()}
    | {"\n": " "}
)
_HEADS: Final = ("score", r"$s_{golden}$", r"$s_{contr.}$", r"$s_{mitig.}$", "importance", "corrected", "interval")
_STDS: Final = ("score_mean", "golden_std", "contributed_std", "mitigated_std")
_MOST: Final = 45
"""Rows that fit on a page."""


def escape(text: str) -> str:
    """Return a text as LaTeX sets it: nothing in it is a command."""
    return text.translate(_ESCAPED)


def latex_table(shown: ShownSweep, *, title: str) -> str:
    r"""Return the table of all points and factors.

    A factor that is important by the published rule has ``(*)``, as in the paper; undecided ones are in italics. Needs
    ``\usepackage{booktabs}``, and ``longtable`` if rows do not fit on a page.
    """
    choices = list(shown.sweep.choices)
    names = shown.labels[choices].map(escape)
    new = names.ne(names.shift()).any(axis=1) if choices else shown.rows["point"].diff().ne(0)
    numbers = pd.DataFrame([_cells(shown, row) for row in shown.rows.to_dict("records")], index=names.index)
    frame = pd.concat([names.where(new, ""), numbers], axis=1)
    frame.iloc[:, 0] = frame.iloc[:, 0].where(~new | (frame.index == 0), "\\addlinespace " + frame.iloc[:, 0])
    frame.columns = pd.Index([*map(escape, choices), "factor", *_HEADS])
    long = len(frame) > _MOST
    caption = (
        f"{escape(title)}. Scores and standard deviations in {shown.unit.name}. (*) important as published; "
        f"in italics: undecided; interval: of the corrected importance, {100 * shown.sweep.level:.4g}\\,\\% for all "
        "factors."
    )
    columns, at = "l" * (len(choices) + 1) + "r" * len(_HEADS), None if long else "htbp"
    layout: dict[str, Any] = {"column_format": columns, "caption": caption, "position": at, "longtable": long}
    text = frame.to_latex(index=False, escape=False, **layout)
    return "% Needs \\usepackage{booktabs}" + (" and \\usepackage{longtable}" if long else "") + f"\n{text}"


def _cells(shown: ShownSweep, row: Mapping[Hashable, Any]) -> list[str]:
    """Return factor and numbers of one row."""
    if not row["factor"]:
        return [r"\textit{no score}", *[""] * len(_HEADS)]
    stds = [shown.unit.text(row[name]).replace(MISSING, "--") for name in _STDS]
    mark = "(*) " if row["importance"] > 0 else ""
    low, high = (_math(row[f"importance_corrected_ci_{end}"]) for end in ("low", "high"))
    interval = "--" if "--" in (low, high) else f"[{low}, {high}]"
    scores = [mark + _math(row["importance"]), _math(row["importance_corrected"]), interval]
    if row["verdict"] not in DECIDED:
        scores = [text if text == "--" else rf"\textit{{{text}}}" for text in scores]
    return [escape(str(row["factor"])), *stds, *scores]


def _math(value: float) -> str:
    """Return a number with a true minus; text, so that italics hold."""
    return signed(value).replace("-", r"\textminus{}") if math.isfinite(value) else "--"

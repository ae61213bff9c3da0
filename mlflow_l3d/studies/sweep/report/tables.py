"""The tables of a sweep; in LaTeX, for a paper: booktabs, percentage points, (*) as in Pecher et al. 2024."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, Final

from mlflow_l3d.analysis.importance.verdicts import DECIDED
from mlflow_l3d.report.numbers import between, percent, plain, probability, signed
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.sweep.numbers.measured import GOLDEN_STD
from mlflow_l3d.studies.sweep.numbers.point import FACTOR, value_text
from mlflow_l3d.studies.sweep.report.shown import ShownSweep, per, short

_TREND_NOTE = (
    "Change of the importance (no unit), or of the golden standard deviation in per cent. p: adjusted for all trends "
    "and choices (Holm). Points are set against points that are alike in all other choices."
)
_INTERACTION_NOTE = (
    "Whether all values of a choice have one importance, or one golden standard deviation. Std: how far they differ, "
    "without what their errors add. p: adjusted for all trends and choices (Holm). It is about these points: whether "
    "other tasks or models would show the same is another question."
)


def trend_table(shown: ShownSweep) -> Table | None:
    """Return the slopes of all trends; None where there is none."""
    rows = [
        {
            "choice": one.choice,
            "of": _of(one.of),
            "per": per(one),
            "change": shown.change(one.of, one.slope),
            percent(shown.sweep.level): between(one.low, one.high, partial(shown.change, one.of)),
            "p, Holm": probability(one.p_holm),
            "points": str(one.points),
            "tasks": str(one.tasks),
        }
        for one in shown.sweep.trends
    ]
    return Table.of(rows, _TREND_NOTE, texts=frozenset({1, 2})) if rows else None


def interaction_table(shown: ShownSweep) -> Table | None:
    """Return the tests of all choices and factors; None where there is none."""
    rows = []
    for one in shown.sweep.interactions:
        ends = [f"{short(value_text(value))} {shown.level(one.of, mean)}" for value, mean in one.extremes()]
        spread = partial(shown.change, one.of, sign=False)
        rows.append(
            {
                "choice": one.choice,
                "of": _of(one.of),
                "lowest": ends[0].removesuffix(f" {shown.unit.noun}"),
                "highest": ends[1].removesuffix(f" {shown.unit.noun}"),
                "std": spread(one.test.spread),
                percent(shown.sweep.level): between(one.test.spread_low, one.test.spread_high, spread),
                "p, Holm": probability(one.p_holm),
                "points": str(one.test.points),
            }
        )
    return Table.of(rows, _INTERACTION_NOTE, texts=frozenset({1, 2, 3})) if rows else None


def score_table(shown: ShownSweep, most: int = 60) -> Table | None:
    """Return the corrected importance of every point and factor for the terminal; None where no point has one."""
    (panel,) = shown.panels()
    golden = shown.rows.drop_duplicates("point").set_index("point")["golden_std"]
    rows = []
    for at, point in enumerate(panel.points[:most]):
        scores = zip(panel.columns, panel.values[at].tolist(), panel.uncertain[at].tolist(), strict=True)
        cells = {factor: f"({signed(score)})" if unsure else f"{signed(score)} " for factor, score, unsure in scores}
        rows.append(
            {shown.names_head: shown.names[point], **cells, "golden std": shown.unit.text(float(golden[point]))}
        )
    note = f"Corrected importance, in parentheses if the factor is undecided. Golden std in {shown.unit.name}."
    if len(panel.rows) > most:
        note += f" {len(panel.rows) - most} more points stand in the table of the run."
    return Table.of(rows, note) if shown.sweep.factors else None


def _of(name: str) -> str:
    return "golden std" if name == GOLDEN_STD else name


_ESCAPED: Final = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "\n": " ",
    }
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
    ``\usepackage{booktabs}``, and ``longtable`` where rows do not fit on a page.
    """
    choices = [name for name in shown.values if name != FACTOR]
    long = len(shown.rows) > _MOST
    columns = "l" * (len(choices) + 1) + "r" * len(_HEADS)
    head = " & ".join([*map(escape, choices), "factor", *_HEADS]) + r" \\"
    caption = (
        f"{escape(title)}. Scores and standard deviations in {shown.unit.name}. (*) important as published; "
        f"in italics: undecided; interval: of the corrected importance, {100 * shown.sweep.level:.4g}\\,\\% for all "
        "factors."
    )
    body = []
    before: tuple[str, ...] = ()
    for place, row in enumerate(shown.rows.to_dict("records")):
        own = tuple(shown.labels[name].iloc[place] for name in choices)
        names = [""] * len(own) if own == before else [escape(each) for each in own]
        if before and own != before:
            body.append(r"\addlinespace")
        before = own
        body.append(" & ".join([*names, *_cells(shown, row)]) + r" \\")
    comment = "% Needs \\usepackage{booktabs}" + (" and \\usepackage{longtable}" if long else "")
    if long:
        begin = [rf"\begin{{longtable}}{{{columns}}}", rf"\caption{{{caption}}} \\", r"\toprule", head, r"\midrule"]
        begin += [r"\endfirsthead", r"\toprule", head, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"]
        return "\n".join([comment, *begin, *body, r"\end{longtable}", ""])
    begin = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{{columns}}}",
    ]
    end = [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([comment, *begin, r"\toprule", head, r"\midrule", *body, *end])


def _cells(shown: ShownSweep, row: Mapping[Hashable, Any]) -> list[str]:
    """Return factor and numbers of one row."""
    if not row["factor"]:
        return [r"\multicolumn{" + str(len(_HEADS) + 1) + r"}{l}{\textit{no score}}"]

    unsure = row["verdict"] not in DECIDED
    mark = "(*) " if row["importance"] > 0 else ""
    texts = [_set(shown.unit.text(row[name])) for name in _STDS]
    scores = mark + _math(row["importance"]), _math(row["importance_corrected"])
    low, high = row["importance_corrected_ci_low"], row["importance_corrected_ci_high"]
    interval = f"[{_math(low)}, {_math(high)}]" if math.isfinite(low) else "--"
    wrapped = [rf"\textit{{{text}}}" if unsure and text != "--" else text for text in (*scores, interval)]
    return [escape(str(row["factor"])), *texts, *wrapped]


def _set(text: str) -> str:
    return "--" if text == plain(math.nan) else text


def _math(value: float) -> str:
    """Return a number with a true minus; text, so that italics hold."""
    return signed(value).replace("-", r"\textminus{}") if math.isfinite(value) else "--"

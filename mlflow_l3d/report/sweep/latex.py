"""The table of a sweep in LaTeX, for a paper: booktabs, percentage points, (*) as in Pecher et al. 2024."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, Final

from mlflow_l3d.analysis.sweep.point import FACTOR
from mlflow_l3d.report.numbers import plain, signed
from mlflow_l3d.report.sweep.shown import DECIDED, ShownSweep

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

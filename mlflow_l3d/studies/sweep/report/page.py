"""The report of a sweep: text, and one HTML file whose heat map and table are filtered by a script in the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.report.numbers import between, counted, percent
from mlflow_l3d.report.page import Picture, Section, page
from mlflow_l3d.report.table import Part, document
from mlflow_l3d.report.text import heading
from mlflow_l3d.studies.sweep.numbers.point import FACTOR
from mlflow_l3d.studies.sweep.numbers.results import Sweep
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.studies.sweep.report.tables import interaction_table, score_table, trend_table
from mlflow_l3d.studies.sweep.report.words import answers, interaction_sentence, trend_sentence, watch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEAT: Final = (
    "Corrected importance. Orange: the factor makes up more than half of the variance; blue: less. Pale, hatched: "
    "undecided."
)
_TREND: Final = (
    "Each dot is a point with its interval; points that are alike in all other choices are joined. Line: the slope "
    "through their mean, dashed where it is not certain. Adjusted p-value."
)

_SENTENCES: Final = 8
"""More tests than this are not all put into words: the table has them."""


def render(
    shown: ShownSweep,
    figures: Mapping[str, Figure],
    *,
    title: str,
    notes: Sequence[str] = (),
    links: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the report of a sweep as one HTML page.

    Parameters
    ----------
    shown
        The sweep.
    figures
        What :func:`mlflow_l3d.studies.sweep.report.figures.drawn` returned.
    title, notes
        As in :func:`mlflow_l3d.report.page.page`.
    links
        Run id -> address of the run; run ids without one are shown alone.
    """
    sweep = shown.sweep
    slopes = sorted(sweep.trends, key=lambda one: not shown.claimed(one.p_holm))
    surest = [*shown.moved(), *(one for one in sweep.interactions if not shown.claimed(one.p_holm))]
    moves = [interaction_sentence(shown, one) for one in surest]
    lines = [trend_sentence(shown, one) for one in slopes]
    certain = sum(shown.claimed(one.p_holm) for one in slopes)
    trends = [
        Picture.of(figure, f"trend-{at}", f"Trend over {name.removeprefix('trend-')}", _TREND)
        for at, (name, figure) in enumerate(figures.items())
        if name.startswith("trend-")
    ]
    drawn = figures.get("golden_std")
    caption = "Every factor varies in golden runs: the whole luck of a score."
    label = "Golden standard deviation of each point"
    golden = None if drawn is None else Picture.of(drawn, "golden", label, caption)
    sections = [
        Section("What choices move", [*_short(moves, len(shown.moved())), interaction_table(shown)]),
        Section("Trends", [*_short(lines, certain), *trends, trend_table(shown)]),
        Section("Golden standard deviation", [golden]),
    ]
    still = figures.get("importance")
    return page(
        title,
        template="sweep.html",
        notes=notes,
        answers=answers(shown),
        sections=sections,
        watch=watch(shown),
        level=percent(sweep.level),
        data=page_data(shown, links),
        heat=None if still is None else Picture.of(still, "heat", "Importance of each factor at each point", _HEAT),
    )


def _short(sentences: list[str], claims: int) -> list[str]:
    """Return all sentences where they are few, else the claims, which come first."""
    if len(sentences) <= _SENTENCES:
        return sentences
    return [*sentences[:claims], f"{counted(len(sentences) - claims, 'test')} found nothing certain: see the table."]


def page_data(shown: ShownSweep, links: Mapping[str, str]) -> dict[str, Any]:
    """Return what the script of the page filters and draws; JSON types only."""
    unit, names = shown.unit, [name for name in shown.values if name != FACTOR]
    rows = [
        {
            "point": row["point"],
            "run": row["run_id"],
            "link": links.get(row["run_id"], ""),
            "of": {FACTOR: row["factor"], **{name: shown.labels[name].iloc[place] for name in names}},
            "corrected": _number(row["importance_corrected"]),
            "published": _number(row["importance"]),
            "interval": between(row["importance_corrected_ci_low"], row["importance_corrected_ci_high"]),
            "moves": unit.text(row["moves_by_std"]),
            "golden": unit.text(row["golden_std"]),
            "score": unit.text(row["score_mean"]),
            "verdict": row["verdict"],
            "error": row["error"],
        }
        for place, row in enumerate(shown.rows.to_dict("records"))
    ]
    return {"names": list(shown.values), "dimensions": shown.values, "unit": unit.short, "rows": rows}


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def summary(sweep: Sweep, *, title: str) -> str:
    """Return a sweep as text: answers, importance of every point, trends, what choices move, what to watch."""
    shown = ShownSweep(sweep)
    said = [answer.text for answer in answers(shown)]
    parts: list[Part] = [*said, score_table(shown)]
    for name, sentences in (
        ("Trends", [trend_sentence(shown, one) for one in sweep.trends]),
        ("What choices move", [interaction_sentence(shown, one) for one in sweep.interactions]),
        ("What to watch", watch(shown)),
    ):
        if sentences:
            parts += [["", *heading(name, "-")], *sentences]
    return document(title, (), parts)

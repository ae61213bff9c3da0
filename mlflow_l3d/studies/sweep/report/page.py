"""The document of a sweep, whose page has a heat map and a table that are filtered by a script in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from mlflow_l3d.report.numbers import interval_of, percent
from mlflow_l3d.report.page import Document, Item, Picture, Section, Snippet
from mlflow_l3d.report.table import Part, heading
from mlflow_l3d.studies.sweep.numbers.point import FACTOR
from mlflow_l3d.studies.sweep.numbers.results import Sweep
from mlflow_l3d.studies.sweep.report import figures as draw
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.studies.sweep.report.tables import interaction_table, score_table, trend_table
from mlflow_l3d.studies.sweep.report.words import answers, watch

_HEAT: Final = (
    "Corrected importance. Orange: the factor makes up more than half of the variance; blue: less. Pale, hatched: "
    "undecided."
)
_TREND: Final = (
    "Each dot is a point with its interval; points that are alike in all other choices are joined. Line: the slope "
    "through their mean, dashed where it is not certain. Adjusted p-value."
)


def sweep_document(sweep: Sweep, *, title: str, links: Mapping[str, str] = MappingProxyType({})) -> Document:
    """Return a sweep as people read it.

    Parameters
    ----------
    sweep
        The records.
    title
        Its heading.
    links
        Run id -> address of the run; run ids without one are shown alone.
    """
    shown = ShownSweep(sweep)
    opening, watched = answers(shown), watch(shown)
    slopes, moves = trend_table(shown), interaction_table(shown)
    choices = list(sweep.choices) if sweep.factors else []
    trended = list(dict.fromkeys(one.choice for one in sweep.trends)) if sweep.factors else []
    heat = Picture(partial(draw.heatmap, shown), "importance", "Importance of each factor at each point", _HEAT)
    by_choice = [
        Picture(partial(draw.heatmap, shown, columns=choice, panel=FACTOR), f"importance-by-{choice}")
        for choice in choices
    ]
    trends = [
        Picture(partial(draw.trends, shown, choice), f"trend-{choice}", f"Trend over {choice}", _TREND)
        for choice in trended
    ]
    golden = Picture(
        partial(draw.golden_stds, shown),
        "golden_std",
        "Golden standard deviation of each point",
        "Every factor varies in golden runs: the whole luck of a score.",
    )
    data, level = page_data(shown, links), percent(sweep.level)
    sections = [
        Section(
            "Importance of each factor at each point",
            [Snippet("sweep_heat.html", {"heat": heat}) if sweep.factors else "No point has a score."],
        ),
        Section("What to watch", [[Item(note, kind="warning") for note in watched]]),
        Section("What choices move", [moves]),
        Section("Trends", [*trends, slopes]),
        Section("Golden standard deviation", [golden if sweep.rows["golden_std"].notna().any() else None]),
        Section("All points", [Snippet("sweep_points.html")]),
        Section("How to read this", [Snippet("sweep_reading.html", {"level": level, "data": data})]),
    ]
    text: list[Part] = [*[answer.text for answer in opening], score_table(shown)]
    for name, table in (("Trends", slopes), ("What choices move", moves)):
        text.append(table and replace(table, title=name))
    text += [["", *heading("What to watch", "-")], *watched] if watched else []
    files = [heat, *by_choice] if len(choices) > 1 else [heat] if sweep.factors else []
    return Document(title=title, answers=opening, text=text, sections=sections, files=files)


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
            "interval": interval_of(row, "importance_corrected"),
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

"""A sweep as people read it: its sentences, and a page with a heat map and a table that a script in it filters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from mlflow_l3d.report.numbers import MISSING, counted, interval_of, percent, shorten
from mlflow_l3d.report.page import Document, Item, Picture, Section, Snippet
from mlflow_l3d.report.table import Part
from mlflow_l3d.report.text import Answer, heading
from mlflow_l3d.studies.sweep.numbers.measured import GOLDEN_STD
from mlflow_l3d.studies.sweep.numbers.point import FACTOR, TASK
from mlflow_l3d.studies.sweep.numbers.results import Sweep
from mlflow_l3d.studies.sweep.report import figures as draw
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.studies.sweep.report.tables import interaction_table, score_table, trend_table


def answers(shown: ShownSweep) -> tuple[Answer, Answer, Answer]:
    """Return which factors matter, what moves them, and where luck is largest."""
    return _factors(shown), _moves(shown), _luck(shown)


def _factors(shown: ShownSweep) -> Answer:
    question = "Which factors matter?"
    if not shown.sweep.factors:
        return Answer(question, MISSING, ("No point has a score.",))
    verdicts = pd.crosstab(shown.rows["factor"], shown.rows["verdict"])
    counts = verdicts.reindex(index=shown.sweep.factors, columns=["dominates", "minor", "undecided"], fill_value=0)
    sentences = []
    for _, alike in counts.groupby(list(counts), sort=False):
        yes, no, unsure = (int(count) for count in alike.iloc[0])
        total = counted(yes + no + unsure, "point")
        verdict = f"dominates at {yes} of {total}, minor at {no}, undecided at {unsure}"
        sentences.append(f"{', '.join(alike.index)}: {verdict if yes or no else f'undecided at all of {total}'}.")
    dominant = counts.index[2 * counts["dominates"] > counts.sum(axis=1)]
    decided = bool(counts["minor"].eq(counts.sum(axis=1)).all())
    short = ", ".join(dominant) or ("none of them" if decided else "none at most points")
    sentences.append(
        "A factor dominates if it makes up more than half of the variance of the score, and is minor if less. The "
        "verdicts of one point hold together; of many points one may be wrong by luck."
    )
    return Answer(question, short, tuple(sentences))


def _moves(shown: ShownSweep) -> Answer:
    question = "Does it depend on the choices?"
    idle = [f"{choice} changed no score: does it have an effect?" for choice in shown.sweep.without_effect]
    if not (shown.sweep.interactions or shown.sweep.trends):
        nothing = "No two points with a score are alike in all choices but one."
        return Answer(question, "no score changed" if idle else MISSING, tuple(idle) or (nothing,))
    moved = shown.moved()
    trends = [one for one in shown.sweep.trends if shown.claimed(one.p_holm)]
    if not (moved or trends):
        text = "No choice is shown to move the importance of a factor or the golden standard deviation"
        more = "Choices may still have an effect: the intervals show how large it may be."
        return Answer(question, "not established", (*idle, f"{text} ({shown.tests}).", more))
    sentences = [
        f"{choice} moves {_listed(shown, [one.of for one in moved if one.choice == choice])}."
        for choice in dict.fromkeys(one.choice for one in moved)
    ]
    for one in trends:
        verb = "rises" if one.slope > 0 else "falls"
        sentences.append(f"{_first(shown.what(one.of))} {verb} with {one.choice}.")
    named = dict.fromkeys([one.choice for one in moved] + [one.choice for one in trends])
    return Answer(question, f"on {', '.join(named)}", (*sentences, *idle))


def _listed(shown: ShownSweep, names: list[str]) -> str:
    """Return what a choice moves: factors, and the golden standard deviation."""
    factors = [name for name in names if name != GOLDEN_STD]
    parts = [f"the importance of {', '.join(factors)}"] if factors else []
    return " and ".join([*parts, *[shown.what(GOLDEN_STD)] * (GOLDEN_STD in names)])


def _luck(shown: ShownSweep) -> Answer:
    question = "Where is luck largest?"
    rows = shown.rows.dropna(subset=["golden_std"]).drop_duplicates("point")
    if rows.empty:
        return Answer(question, MISSING, ("No point has a golden standard deviation.",))
    ordered = rows.sort_values("golden_std", ascending=False, kind="stable").to_dict("records")
    most = shown.unit.amount(ordered[0]["golden_std"])
    if len(ordered) > 1 and ordered[0]["golden_std"] == ordered[-1]["golden_std"]:
        return Answer(question, "nowhere", (f"All points have a golden standard deviation of {most}.",))
    sentences = []
    for word, row in (("Most", ordered[0]), ("Least", ordered[-1]))[: len(ordered)]:
        limits = interval_of(row, "golden_std", shown.unit.text)
        ends = "" if limits == MISSING else f", {limits}"
        sentences.append(f"{word}: {shown.names[row['point']]} ({shown.unit.amount(row['golden_std'])}{ends}).")
    return Answer(question, most, (*sentences, "Golden standard deviation: every factor varies."))


def watch(shown: ShownSweep) -> list[str]:
    """Return what a reader must know: points without a score, cells without one, collapsed runs, one task only."""
    sweep = shown.sweep
    notes = [
        f"{shorten(point.name, 100)} has no score{f': {shorten(point.error, 300)}' if point.error else ''}."
        for point in sweep.failed
    ]
    analyses = [point.analysis for point in sweep.points if point.analysis is not None]
    if lacking := [each.cells_failed for each in analyses if each.cells_failed]:
        verb = "has" if sum(lacking) == 1 else "have"
        notes.append(f"{counted(sum(lacking), 'cell')} of {counted(len(lacking), 'point')} {verb} no score.")
    if down := sum(each.collapse is not None for each in analyses):
        notes.append(
            f"Runs collapse at {counted(down, 'point')}. Trends and tests take the runs that did not; heat map and "
            "table show all runs."
        )
    if len(metrics := sorted({each.metric.name for each in analyses})) > 1:
        notes.append(
            f"Points have different metrics ({', '.join(metrics)}): golden standard deviations do not compare."
        )
    bound: dict[str, list[str]] = {}
    for name, other in sweep.follows.items():
        bound.setdefault(other, []).append(name)
    for other, followers in bound.items():
        verb = "follows" if len(followers) == 1 else "follow"
        notes.append(f"{' and '.join(followers)} {verb} from {other}: what {other} moves may be moved by that instead.")
    if TASK not in sweep.choices and analyses:
        notes.append("All points are of one task: what another task would show is not known.")
    seen = Counter(
        found
        for each in analyses
        for found in {(one.code, one.title) for one in each.checks if one.severity == "warning"}
    )
    notes += [f"{title} ({code}) at {counted(number, 'point')}." for (code, title), number in sorted(seen.items())]
    return notes


def _first(text: str) -> str:
    return text[0].upper() + text[1:]


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
        Section("How to read this", [Snippet("sweep_reading.html", {"level": level})]),
    ]
    text: list[Part] = [*[answer.text for answer in opening], score_table(shown)]
    for name, table in (("Trends", slopes), ("What choices move", moves)):
        text.append(table and replace(table, title=name))
    text += [["", *heading("What to watch", "-")], *watched] if watched else []
    files = [heat, *by_choice] if len(choices) > 1 else [heat] if sweep.factors else []
    return Document(title=title, answers=opening, text=text, sections=sections, files=files, data=data)


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

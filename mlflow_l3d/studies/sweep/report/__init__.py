"""The report of a sweep: its document, with the tables of points, trends and choices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.analysis.importance.verdicts import DECIDED
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.report.draw import amount_bar
from mlflow_l3d.report.html import Snippet
from mlflow_l3d.report.numbers import MISSING, between, cell_of, counted, percent, probability, shorten, signed
from mlflow_l3d.report.page import Document, Item, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import SIGNS, UNDECIDED, Drawn, Table
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.investigation.report import share_cell
from mlflow_l3d.studies.investigation.report.details import escaped
from mlflow_l3d.studies.sweep.numbers import Sweep
from mlflow_l3d.studies.sweep.numbers.interactions import Interaction
from mlflow_l3d.studies.sweep.numbers.point import GOLDEN_STD, TASK, value_text
from mlflow_l3d.studies.sweep.numbers.trends import Trend
from mlflow_l3d.studies.sweep.report.shown import FAILED, ShownSweep, short
from mlflow_l3d.studies.sweep.report.words import answers, headline, short_notes, steps, watch

_RULE: Final = (
    "Share of the variance with its interval; those of a point hold together with {}. "
    f"{SIGNS['dominates']} dominates: above 50 %; {SIGNS['minor']} minor: below; {UNDECIDED} [[undecided|verdict]]."
)
_VERDICT: Final = Markup(
    '<span class="verdict {0}" title="{0}"><span aria-hidden="true">{1}</span> {2}</span> <small>{3}</small>'
)
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
_LINK: Final = Markup('<a href="{}" target="_blank" rel="noopener">{}</a>')


def sweep_document(
    sweep: Sweep, *, title: str, source: Source | None = None, links: Mapping[str, str] | None = None
) -> Document:
    """Return a sweep as people read it.

    Parameters
    ----------
    sweep
        The records.
    title
        As in :class:`mlflow_l3d.report.page.Document`.
    source
        Where it comes from.
    links
        Run id -> address of the run; run ids without one are shown alone.
    """
    shown, source, links = ShownSweep(sweep), source or Source(), links or {}
    rule = "Share of variance: dominates above 50 %; undecided in parentheses."
    table = first_table(shown, links)
    every = first_table(shown, links, (len(sweep.points), len(sweep.factors)))
    task = ", ".join(dict.fromkeys(point.task for point in sweep.points))
    metrics = f"{', '.join(shown.metrics)}{' in %' if shown.behind else ''}" if shown.metrics else ""
    about = (task, source.approach, source.model, metrics)
    sections = [
        Section("Luck and shares at every point", [every if table and every and every.note != table.note else None]),
        Section("What to watch", [[Item(note, kind="warning") for note in watch(shown)]], name="watch"),
        Section("What choices move", [interaction_table(shown)]),
        Section("Trends", [trend_table(shown)]),
        Section("All points in numbers", [all_points(shown, links)], name="points"),
        Section("How to read this", [Snippet("sweep_reading.html", {"level": percent(sweep.level)})]),
    ]
    return Document(
        title=title,
        headline=headline(shown),
        about=" · ".join(shorten(part, 60) for part in about if part),
        place=source.place(counted(len(sweep.points), "point"), counted(shown.runs, "run")),
        answers=answers(shown),
        table=table,
        steps=steps(shown, source),
        short_table=first_table(shown, {}, (6, 3), rule=rule),
        notes=short_notes(shown),
        sections=sections,
    )


def first_table(
    shown: ShownSweep, links: Mapping[str, str], most: tuple[int, int] = (12, 5), *, rule: str = _RULE
) -> Table | None:
    """Return a row for each point: how large its luck is, and the verdict on each factor; None if none has a score.

    Parameters
    ----------
    shown
        The sweep.
    links
        Run id -> address of the run.
    most
        How many points, those with the most luck, and factors, those with the largest shares, it has at most.
    rule
        How to read it.
    """
    rows, factors = shown.rows.to_dict("records"), shown.factors[: most[1]]
    lines = [(name, places, rows[min(places.values())]) for name, places in shown.lines.items() if places]
    if not lines:
        return None
    largest_first = sorted(lines, key=lambda line: -np.nan_to_num(line[2]["run_std"], nan=-1.0))
    kept = lines if len(lines) <= most[0] else largest_first[: most[0]]
    ends = shown.rows[["run_std", "golden_std_ci_high"]].to_numpy()
    largest = float(ends[np.isfinite(ends)].max(initial=0.0)) if len(shown.metrics) == 1 else 0.0
    cells = tuple(
        (
            _linked(name, links.get(row["run_id"])),
            shown.unit.text(row["run_mean"], 1),
            _luck(shown, row, largest),
            *(_verdict(shown, places.get(factor)) for factor in factors),
        )
        for name, places, row in kept
    )
    order = f" {len(kept)} of {counted(len(lines), 'point')}, most luck first." if kept is not lines else ""
    hidden = len(shown.factors) - len(factors)
    absent = f" Not shown: {counted(hidden, 'factor')}." if hidden else ""
    note = rule.format(percent(shown.sweep.level)) + order + absent
    head = (
        shown.names_head,
        f"mean{' (%)' if shown.behind else ''}",
        f"luck, [[typically|std]]{f' ({shown.unit.short})' if shown.behind else ''}",
        *("+\n".join(shorten(part, 30) for part in name.split("+")) for name in factors),
    )
    return Table(head, cells, note, texts=frozenset({2}), kind="points")


def _luck(shown: ShownSweep, row: Mapping[Any, Any], largest: float) -> str:
    std, low, high = (row[name] for name in ("run_std", *with_interval("golden_std")[1:]))
    words = shown.unit.typical(std) if math.isfinite(std) else MISSING
    return Drawn(amount_bar(std / largest, low / largest, high / largest, words), words) if largest > 0 else words


def _verdict(shown: ShownSweep, at: int | None) -> str:
    """Return share and verdict of a row of the table; in the terminal what is undecided is in parentheses."""
    if at is None or not math.isfinite(shown.shares[0][at]):
        return MISSING
    word = shown.rows["verdict"][at]
    share, _, interval = share_cell(*shown.shares.loc[at], digits=0).partition("\n")
    drawn = _VERDICT.format(word, SIGNS.get(word, UNDECIDED), share, interval)
    return Drawn(drawn, share if word in DECIDED else f"({share})")


def _linked(name: str, address: str | None) -> str:
    return Drawn(_LINK.format(address, name), name) if address else name


def all_points(shown: ShownSweep, links: Mapping[str, str]) -> Table:
    """Return all numbers: a row for each point and factor."""
    unit, rows = shown.unit, list[dict[str, str]]()
    for at, row in enumerate(shown.rows.to_dict("records")):
        names = {name: shown.labels[name][at] for name in shown.sweep.choices} or {TASK: row["task"]}
        word = row["verdict"]
        numbers = {
            "factor": row["factor"] or MISSING,
            "verdict": f"{word}\n{shorten(row['error'], 300)}" if word == FAILED else word,
            "[[share of variance|share]]": share_cell(*shown.shares.iloc[at], digits=0),
            "[[corrected importance|corrected]]": cell_of(row, "importance_corrected", signed),
            "[[importance|published]]": cell_of(row, "importance", signed),
            f"[[moves score by|moves]] ({unit.short})": unit.text(row["moves_by_std"]),
            f"golden std ({unit.short})": cell_of({**row, "golden_std": row["run_std"]}, "golden_std", unit.text),
            f"mean score{' (%)' if shown.behind else ''}": unit.text(row["run_mean"]),
            "run": _linked(row["run_id"][:8], links.get(row["run_id"])),
        }
        rows.append(names | numbers)
    texts = frozenset(range(len(rows[0]) - 7))
    kinds = tuple(shown.rows["verdict"].where(shown.rows["verdict"].isin(DECIDED), "undecided"))
    return Table.of(rows, kind="trials sortable filtered", texts=texts, kinds=kinds)


def latex_table(shown: ShownSweep, *, title: str) -> str:
    """Return the table of all numbers for a paper, in LaTeX; one that does not fit on a page breaks over pages."""
    table = all_points(shown, {})
    cells = [[cell.partition("\n")[0] if cell.startswith(FAILED) else cell for cell in row[:-1]] for row in table.rows]
    frame = pd.DataFrame(cells, columns=[*map(marked, table.head[:-1])]).replace("\n", " ", regex=True)
    long = len(frame) > 45  # rows that fit on a page of paper
    layout: dict[str, Any] = {"longtable": long, "position": None if long else "htbp", "caption": escaped(title)}
    packages = "".join(f"% Needs \\usepackage{{{name}}}\n" for name in ("booktabs", *(["longtable"] if long else [])))
    text: str = frame.to_latex(index=False, escape=True, **layout)
    return packages + text


def trend_table(shown: ShownSweep) -> Table | None:
    """Return the slopes of all trends, the surest first; None if there is none."""
    rows = []
    for one in shown.trends:
        per = "doubling" if one.scale == "log2" else f"{value_text(one.step)} more"
        size = {"per": per, "change": shown.change(one.of, one.slope)}
        row = _test_row(shown, one, size, one.low, one.high, one.low * one.high)
        over = _SCOPES.get(one.scope, "{tasks} tasks, a slope each").format(tasks=one.tasks)
        rows.append({**row, "points": str(one.points), "over": over})
    return Table.of(rows, _TREND_NOTE.format(tests=shown.tests), texts=frozenset({1, 2, 6, 8})) if rows else None


def interaction_table(shown: ShownSweep) -> Table | None:
    """Return the tests of all choices and factors, the surest first; None if there is none."""
    rows = []
    for one in shown.moves:
        ends = [f"{short(value_text(value))} {shown.level(one.of, mean)}" for value, mean in one.extremes()]
        test, size = one.test, dict(zip(("lowest", "highest"), ends, strict=True))
        size["std"] = shown.change(one.of, test.spread, sign="")
        row = _test_row(shown, one, size, test.spread_low, test.spread_high, test.spread_low, sign="")
        rows.append({**row, "points": str(test.points)})
    return Table.of(rows, _INTERACTION_NOTE.format(tests=shown.tests), texts=frozenset({1, 2, 3, 7})) if rows else None


def _test_row(
    shown: ShownSweep,
    one: Trend | Interaction,
    size: Mapping[str, str],
    low: float,
    high: float,
    distance: float,
    sign: str = "+",
) -> dict[str, str]:
    """Return what a test found; if its own interval excludes 0 (`distance` above 0) without a claim, also why."""
    claim = "yes" if shown.claimed(one) else f"no\n({shown.tests})" if distance > 0 else "no"
    return {
        "choice": one.choice,
        "of": "golden std" if one.of == GOLDEN_STD else one.of,
        **size,
        percent(shown.sweep.level): between(low, high, partial(shown.change, one.of, sign=sign)),
        "p, Holm": probability(one.p_holm),
        "claim": MISSING if math.isnan(one.p_holm) else claim,
    }

"""The document of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import pandas as pd
from markupsafe import Markup

from mlflow_l3d.analysis.comparison import SelfCheck
from mlflow_l3d.analysis.comparison.results import Comparison, Difference
from mlflow_l3d.report.draw import Axis, difference_cell
from mlflow_l3d.report.numbers import counted, metric_text, percent, points, unit_of
from mlflow_l3d.report.page import Document, Drawing, Section, legend_text
from mlflow_l3d.report.plots import marks_text, strip
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Drawn, Table, verdict_cell
from mlflow_l3d.studies.comparison.report import tables, words

_MOST: Final = 5
"""Rows of the first table at most."""


def comparison_document(
    comparison: Comparison,
    scores: pd.DataFrame,
    importances: pd.DataFrame,
    checks: Sequence[SelfCheck] = (),
    *,
    parents: Sequence[words.ComparedParent] = (),
    source: Source | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Return a comparison as people read it.

    Parameters
    ----------
    comparison
        The record.
    scores
        One row per run: task, system, score.
    importances
        As :func:`mlflow_l3d.studies.comparison.report.tables.factor_table` has it.
    checks
        A/A comparisons.
    parents
        The compared runs.
    source
        The run that holds the comparison, and its command.
    settings
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    source = source or Source()
    notes = [*filter(None, [words.differing_sentence(comparison, parents)]), *_false_claims(checks), *comparison.notes]
    letters = {short: name for name, short in words.short_names(comparison).items() if len(short) < len(name)}
    systems = legend_text(letters) or counted(len(comparison.systems), "system")
    return Document(
        title=comparison.title,
        headline=words.headline(comparison),
        about=" \N{MIDDLE DOT} ".join([", ".join(comparison.tasks), systems, metric_text(comparison.metric)]),
        place=source.place(counted(len(scores), "run")),
        answers=words.answers(comparison),
        table=first_table(comparison),
        steps=[*words.steps(comparison, parents, source)],
        legend=letters,
        lines=source.lines,
        notes=notes,
        sections=[
            Section("Every pair in numbers", [tables.difference_table(comparison)]),
            Section("Ranks", [tables.rank_table(comparison)]),
            Section("Every run", score_strips(comparison, scores)),
            Section("What the difference varies by, and what would settle it", [tables.luck_table(comparison)]),
            Section("Single runs and test examples", [tables.wins_table(comparison)]),
            Section("Which luck decides the difference?", [tables.factor_table(comparison, importances)]),
            Section("A/A: how often is a claim false?", [tables.check_table(checks)]),
        ],
        settings=settings,
    )


def first_table(comparison: Comparison) -> Table:
    """Return the pairs as a first screen has them: verdict, interval around 0, and the difference.

    Of many pairs those with the best system; of several tasks the mean over them, and every task if there is room.
    """
    unit, names = unit_of(comparison.metric), words.short_names(comparison)
    pairs = [*words.judged(comparison), *(comparison.differences if comparison.over_tasks else ())]
    every = len(pairs)
    by_task = 1 < len(pairs) <= _MOST and len(words.judged(comparison)) == 1
    if len(pairs) > _MOST:
        best = words.overall_ranks(comparison)[0].system
        pairs = [pair for pair in words.judged(comparison) if best in (pair.first, pair.second)][:_MOST]
    views = [words.oriented(comparison, pair) for pair in pairs]
    margin = 0.0 if math.isnan(comparison.smallest_effect) else unit.scale * comparison.smallest_effect
    axis = Axis.over([0.0, margin, -margin, *(unit.scale * end for *_, ends, _ in views for end in ends)], ticks=4)
    written, rows = words.change(comparison), []
    for pair, (first, second, ends, verdict) in zip(pairs, views, strict=True):
        value, start, end = (unit.scale * each for each in ends)
        shown, low, high = map(written, ends)
        task = pair.task if isinstance(pair, Difference) else "all tasks"
        called = f"{names[first]} - {names[second]}"
        if len(called) > 24:
            called = Drawn(Markup("{} \N{MINUS SIGN}<br>{}").format(names[first], names[second]), called)
        said = f"{shown}\n({low} to {high})"
        bar = difference_cell(value, start, end, axis, said.replace("\n", " "), margin=margin)
        rows.append((task if by_task else called, verdict_cell(verdict), bar, said))
    grey = f" Grey on the page: up to {words.effect_text(comparison)}, too small to matter." if margin else ""
    hidden = f" Not shown: {counted(every - len(rows), 'row')}." if every > len(rows) else ""
    numbers_head = f"difference ({unit.short}, {percent(comparison.level)})"
    return Table(
        (called if by_task else "pair", "verdict", axis.head(unit.name), numbers_head),
        tuple(rows),
        f"{tables.direction_sentence(comparison)}{grey}{hidden}",
        texts=frozenset({1, 2}),
        kind="bars",
        kinds=tuple(verdict for *_, verdict in views),
    )


def _false_claims(checks: Sequence[SelfCheck]) -> list[str]:
    """Return which verdicts are not to be trusted, or else the largest share of claims if nothing differs."""
    failed = [
        f"Do not trust these verdicts: compared with itself, {each.what} differs in {points(each.rate, 1)} %, "
        f"not {points(each.nominal, 1)} %."
        for each in checks
        if not each.holds
    ]
    if failed or not checks:
        return failed
    most = max(checks, key=lambda each: each.rate)
    shares = f"{'at most ' if len(checks) > 1 else ''}{points(most.rate, 1)} % of {most.repeats:,} comparisons"
    return [f"A/A: if nothing differs, {shares} claim a difference ({points(most.nominal, 1)} % may)."]


def score_strips(comparison: Comparison, scores: pd.DataFrame) -> list[Drawing]:
    """Return the scores of every system on every task, on one axis per task."""
    unit, strips = unit_of(comparison.metric), []
    axes = {str(task): Axis.over(unit.scale * every["score"]) for task, every in scores.groupby("task")}
    for (task, system), runs in scores.groupby(["task", "system"], sort=False):
        values = unit.scale * runs["score"].to_numpy()
        names = [f"run {at + 1}" for at in range(len(runs))]
        title = f"{system}, {task}" if len(comparison.tasks) > 1 else str(system)
        shown = partial(unit.written, digits=1)
        drawn = strip(values, names, band=None, label=title, shown=shown, axis=axes[str(task)])
        strips.append(Drawing(drawn, f"{title}. {marks_text(values, 'run')}"))
    return strips

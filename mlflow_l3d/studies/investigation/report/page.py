"""The document of an investigation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.metrics.known import assumed_direction
from mlflow_l3d.report.examples import MOST, fragile_examples, shares_bar
from mlflow_l3d.report.html import Snippet
from mlflow_l3d.report.numbers import counted, percent, points, shorten
from mlflow_l3d.report.page import Document, Drawing, Item, Section
from mlflow_l3d.report.remedies import remedy_bars
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.strip import score_strip
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.investigation.report import cite, factor_tables, more_tables
from mlflow_l3d.studies.investigation.report.details import early_stops, stable_group
from mlflow_l3d.studies.investigation.report.runs import Runs, convergence, scores_table, script_data
from mlflow_l3d.studies.investigation.report.verdicts import Shown, by_code
from mlflow_l3d.studies.investigation.report.words import answers, headline, steps

if TYPE_CHECKING:
    import pandas as pd


def investigation_document(
    analysis: Analysis,
    *,
    title: str,
    source: Source | None = None,
    runs: Runs | None = None,
    lines: Sequence[str] = (),
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
    paths: Callable[[], Mapping[str, pd.DataFrame]] = dict,
) -> Document:
    """Return the result of an investigation as people read it.

    Parameters
    ----------
    analysis
        The records.
    source, runs
        The origin of the result, and the runs behind it.
    title, lines, notes, settings
        As in :class:`mlflow_l3d.report.page.Document`.
    paths
        Returns factor -> how its importance settled; a factor without a path has no such picture.
    """
    shown, source, runs = Shown(analysis), source or Source(), runs or Runs()
    worst = None if analysis.examples is None else analysis.examples.most_fragile(MOST)
    data = script_data(shown, runs, address=source.address, classes=source.classes)
    opens = any(factor["predicted"] for factor in data["factors"].values())
    voters = "pooled runs" if shown.golden_word == "pooled" else shown.golden_runs
    examples = fragile_examples(
        worst, classes=source.classes, texts=source.texts, runs=voters, opens=opens, are_rows=source.are_numbered
    )
    votes = Drawing(shares_bar(bar)) if (bar := more_tables.shares(analysis)) else None
    reading, checks = {"shown": shown, "level": percent(shown.level)}, len(by_code(analysis.checks))
    sections = [
        Section(
            f"Checks{f' ({checks})' * bool(checks)}",
            [_checks(shown) or "No check found anything doubtful."],
            name="checks",
        ),
        Section("Factors in numbers", [factor_tables.numbers_table(shown)], name="factors"),
        *_factor_sections(shown, paths(), source),
        Section("Fragile examples", [votes, more_tables.agreement_table(shown), examples], name="examples"),
        Section("Runs that collapse", [more_tables.collapse_table(shown)]),
        Section("When to stop", [*early_stops(analysis), more_tables.interim_table(analysis)]),
        Section("Which factors differ", more_tables.ranking_tables(analysis.ranking, shown.design.words.apart)),
        Section("Variance components", [more_tables.component_table(shown)]),
        Section("How to read this", [Snippet("investigation_reading.html", reading)]),
        Section("Cite this", [Snippet("cite.html", {"parts": cite.parts(shown, source)})], name="cite"),
    ]
    assumed = [note] if (note := assumed_direction(analysis.metric)) else []
    failed = [f"{analysis.cells_failed} cells of the plan have no score."] if analysis.cells_failed else []
    return Document(
        title=title,
        headline=headline(shown),
        about=source.about(analysis.metric),
        place=source.place(counted(shown.runs, "run")),
        answers=answers(shown, source),
        drawing=golden_strip(shown, runs),
        table=factor_tables.first_table(shown),
        second_table=help_table(shown),
        steps=steps(shown, source, runs),
        lines=lines,
        remarks=[*failed, *assumed, *notes, _check_lines(shown)],
        notes=[*_short_notes(shown), *assumed, *(note for note in notes if " has no effect and is left out: " in note)],
        in_full=[*filter(None, [doubts(shown)]), *notes],
        sections=sections,
        settings=settings,
        data=data,
    )


def doubts(shown: Shown) -> list[Item]:
    """Return why the verdict on a factor is not that of its interval, and what to do about it."""
    factors = [] if shown.design.baseline else [record.factor for record in shown.records]
    verdicts = {name: shown.analysis.verdict(name) for name in factors}
    advice = {name: each.text for name, each in shown.analysis.advice.items()}
    return [
        Item(f"{verdict.word}: {verdict.reason}. {advice.get(name, '')}".rstrip(), name)
        for name, verdict in verdicts.items()
        if verdict.doubt
    ]


def golden_strip(shown: Shown, runs: Runs) -> Drawing | None:
    """Return every golden score as a dot on one line; None if there are fewer than two."""
    scores, word = shown.golden_scores, shown.golden_word
    if len(scores) < 2:
        return None
    names = [name for name, _ in runs.golden] if len(runs.golden) == len(scores) else ()
    std = shown.golden_deviation
    return score_strip(scores, shown.analysis.metric, std=std, run=f"{word} run", term=word, names=names)


def help_table(shown: Shown) -> Table | None:
    """Return the remedies that help; None if there are none."""
    remedies = shown.analysis.remedies
    return remedy_bars(remedies.best, shown.analysis.metric) if remedies is not None and remedies.best else None


def _short_notes(shown: Shown) -> list[str]:
    failed = shown.analysis.cells_failed
    golden = ", golden runs included," if shown.golden_runs == "golden runs" else ""
    warnings = [check for check in by_code(shown.analysis.checks) if check.severity == "warning"]
    notes = [f"{failed} runs of the plan{golden} have no score; the verdicts are from the rest."] if failed else []
    if (group := stable_group(shown)) is not None and group.unparsed_share > 0.02:
        notes.append(f"{points(group.unparsed_share, 1)} % of {group.runs} runs' predictions are unreadable, so wrong.")
    if warnings:
        notes.append("To watch: " + "; ".join(f"{check.title} ({check.code})" for check in warnings[:4]) + ".")
    return notes


def _checks(shown: Shown) -> list[Item]:
    return [
        Item(check.message, check.title, ", ".join([check.code, check.severity, *check.factors]), check.severity)
        for check in by_code(sorted(shown.analysis.checks, key=lambda check: check.severity != "warning"))
    ]


def _check_lines(shown: Shown) -> list[str]:
    warnings = [check for check in by_code(shown.analysis.checks) if check.severity == "warning"]
    factors = [f" [{', '.join(shorten(name, 30) for name in each.factors)}]" * bool(each.factors) for each in warnings]
    return [shorten(f"{each.code}{of}: {each.title}", 100) for each, of in zip(warnings, factors, strict=True)]


def _factor_sections(shown: Shown, paths: Mapping[str, pd.DataFrame], source: Source) -> list[Section]:
    """Return the runs of each factor, and how its share settled."""
    sections = []
    for at, record in enumerate(shown.records):
        steps_done = paths.get(record.factor)
        settled = None
        if steps_done is not None and not shown.design.baseline:
            settled = convergence(record, steps_done.sort_values("rows"))
        caption = shown.design.words.table.format(factor=record.factor)
        heading = Snippet("subheading.html", {"text": "How it settled"}) if settled else None
        parts: list[str | Drawing | Snippet | None] = [scores_table(shown, record, source), caption, heading, settled]
        sections.append(Section(f"Every run of {record.factor}", parts, name=f"factor-{at + 1}"))
    return sections

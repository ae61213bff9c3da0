"""The document of an investigation, and its tables of factors: that of the first screen, and that of all numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.metrics.known import assumed_direction
from mlflow_l3d.report.draw import share_bar, svg, text
from mlflow_l3d.report.html import Snippet, fragile_examples, shares_bar
from mlflow_l3d.report.numbers import (
    MISSING,
    between,
    counted,
    listed,
    percent,
    plain,
    points,
    share_texts,
    shorten,
    signed,
    with_limits,
)
from mlflow_l3d.report.page import Document, Drawing, Item, Section
from mlflow_l3d.report.plots import score_strip
from mlflow_l3d.report.remedies import remedy_bars
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Drawn, Table, verdict_cell
from mlflow_l3d.studies.investigation.report import more_tables
from mlflow_l3d.studies.investigation.report.details import citations, early_stops, stable_group
from mlflow_l3d.studies.investigation.report.runs import Runs, factor_sections, script_data
from mlflow_l3d.studies.investigation.report.verdicts import Shown, by_code, golden_share
from mlflow_l3d.studies.investigation.report.words import answers, headline, steps


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
    every = None if analysis.examples is None else analysis.examples.frame
    data = script_data(shown, runs, address=source.address, classes=source.classes)
    opens = any(factor["predicted"] for factor in data["factors"].values())
    voters = "pooled runs" if shown.golden_word == "pooled" else shown.golden_runs
    examples = fragile_examples(
        every, classes=source.classes, texts=source.texts, runs=voters, opens=opens, are_rows=source.are_numbered
    )
    bar = shares_bar(analysis.examples, ("right in every run", "right in some", "right in none"))
    reading = {"shown": shown, "level": percent(shown.level)}
    checks = _checks(shown)
    count = f" ({len(checks)})" if checks else ""
    sections = [
        Section(f"Checks{count}", [checks or "No check found anything doubtful."], name="checks"),
        Section("Factors in numbers", [numbers_table(shown)], name="factors"),
        *factor_sections(shown, paths(), source),
        Section(
            "Fragile examples",
            [Drawing(bar) if bar else None, more_tables.agreement_table(shown), examples],
            name="examples",
        ),
        Section("Runs that collapse", [more_tables.collapse_table(shown)]),
        Section("When to stop", [*early_stops(analysis), more_tables.interim_table(analysis)]),
        Section("Which factors differ", more_tables.ranking_tables(analysis.ranking, shown.design.words.apart)),
        Section("Variance components", [more_tables.component_table(shown)]),
        Section("How to read this", [Snippet("investigation_reading.html", reading)]),
        Section("Cite this", [Snippet("cite.html", {"parts": citations(shown, source)})], name="cite"),
    ]
    assumed = [note] if (note := assumed_direction(analysis.metric)) else []
    failed = [f"{counted(analysis.cells_failed, 'cell')} of the plan got no score."] if analysis.cells_failed else []
    return Document(
        title=title,
        headline=headline(shown),
        about=source.about(analysis.metric),
        place=source.place(counted(shown.runs, "run")),
        answers=answers(shown, source),
        drawing=golden_strip(shown, runs),
        table=first_table(shown),
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
    items = []
    for record in () if shown.design.baseline else shown.records:
        if (verdict := shown.analysis.verdict(record.factor)).doubt:
            advice = shown.analysis.advice.get(record.factor)
            text = f"{verdict.word}: {verdict.reason}. {advice.text if advice else ''}".rstrip()
            items.append(Item(text, record.factor))
    return items


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
    notes = [f"{counted(failed, 'run')}{golden} got no score; the verdicts are from the rest."] if failed else []
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
    codes = [", ".join([each.code, *(shorten(name, 30) for name in each.factors)]) for each in warnings]
    return [shorten(f"To watch: {each.title} ({code})", 100) for each, code in zip(warnings, codes, strict=True)]


SHARES: Final = ("share of variance (%)", "share low (%)", "share high (%)")
"""Columns of a frame: the share of a factor, and its interval."""
OVERLAP: Final = (
    " Shares overlap and add up to more than 100 %: what factors cause only together counts for each of them."
)
"""Behind shares whose sum is above 1, beyond error: that of the lower ends, which hold together, is."""

FEW_BASE_RUNS: Final = 30
"""With fewer base runs the intervals may hold together with 89 % if effects multiply (docs/evidence/simulations.md)."""


def numbers_table(shown: Shown) -> Table | None:
    """Return the numbers of each factor, and behind a button those of the papers; columns without any are left out."""
    if not shown.records:
        return None
    score, golden = shown.unit.text, shown.golden_word
    rows, paper = [], dict[str, str]()
    for record in shown.records:
        index = record.first_order_index, record.first_order_ci_low, record.first_order_ci_high
        ends = record.importance_ci_low, record.importance_ci_high
        texts = {
            "factor": record.factor,
            "verdict": shown.verdict(record),
            "[[share of variance|share]]": share_cell(*shown.shares(record), digits=0),
            f"[[moves score by|moves]] ({shown.unit.short})": score(record.moves_by_std),
            "[[alone|alone]]": share_cell(*index),
            "mean ± std": f"{score(record.score_mean)}\n± {score(record.score_std)}",
            "[[agree|agree]] %": points(
                getattr(shown.analysis.reported_agreement(record.factor), "consistency", math.nan), 1
            ),
            "[[failed|failed]]": str(record.cells_missing),
        }
        paper = {
            "[[importance|published]]": with_limits(signed(record.importance), between(*ends)),
            "[[corrected|corrected]]": with_limits(
                signed(record.importance_corrected), between(*record.corrected_interval)
            ),
            "[[contr. std|contributed]]": score(record.contributed_std),
            "[[mitig. std|mitigated]]": score(record.mitigated_std),
            f"[[{golden} std|{golden}]]": score(record.golden_std),
            "unevenness\nof rows": plain(record.unevenness),
            "IQR": score(record.score_iqr),
            "collapsed %": points(record.collapsed_share, 1),
        }
        rows.append(texts | paper)
    table = Table.of(rows, shown.say(shown.design.words.note), kind="sortable")
    table = table.without_empty(table.head[1:])
    more = frozenset(at for at, head in enumerate(table.head) if head in paper)
    return replace(table, more=more, kinds=tuple(shown.verdict(record) for record in shown.records))


def factor_frame(shown: Shown) -> pd.DataFrame:
    """Return the main numbers of each factor in the order and units of the report; shares and their ends in %."""
    rows = []
    for record in shown.records:
        agreement = 100 * getattr(shown.analysis.reported_agreement(record.factor), "consistency", math.nan)
        row: dict[str, object] = {"factor": record.factor}
        if shown.design.baseline:
            row |= {"important": shown.is_important(record), "golden share": golden_share(record)}
        else:
            row |= {"verdict": shown.verdict(record)}
            row |= {head: 100 * share for head, share in zip(SHARES, shown.shares(record), strict=True)}
            row |= {"moves": record.moves_by_std, "importance": record.importance}
        rows.append({**row, "mean": record.score_mean, "std": record.score_std, "consistency (%)": agreement})
    heads = {"moves": "moves score by", "std": "std of score"}
    return shown.unit.heads(pd.DataFrame(rows), {"mean": "mean score"}, heads)


def first_table(shown: Shown) -> Table | None:
    """Return the factors as a first screen has them: verdict, share of the variance with its interval, and points."""
    table = _strategy_table if shown.design.baseline else _share_table
    return replace(table(shown), links="factor") if shown.records else None


def _share_table(shown: Shown) -> Table:
    ends = (("0", 0), ("50 %", 50), ("100 %", 100))
    axis = Drawn(svg(15, "from 0 to 100 %", *[text(at, 12, words) for words, at in ends]))
    level = percent(shown.analysis.level)
    rows = list[dict[str, str]]()
    doubts = dict[tuple[str, str, str], list[str]]()
    for record in shown.records:
        word, (share, low, high) = shown.verdict(record), shown.shares(record)
        said = share_cell(share, low, high, digits=0)
        moved = shown.unit.text(record.moves_by_std, 1)
        rows.append(
            {
                "factor": record.factor,
                "verdict": verdict_cell(word),
                axis: Drawn(share_bar(share, low, high, f"{record.factor}: {said}".replace("\n", " "))),
                f"[[share of variance|share]] ({level})": said,
                "[[moves score by|moves]]": moved if moved == MISSING else f"{moved}\n{shown.unit.noun}",
            }
        )
        verdict = shown.analysis.verdict(record.factor)
        if verdict.doubt and verdict.doubt not in ("contains_0", "no_interval"):
            doubts.setdefault(("is", "are", f"{word}: {verdict.reason}"), []).append(record.factor)
        most = shown.unit.text(shown.golden_deviation, 1)
        if most != moved and record.moves_by_std > shown.golden_deviation:
            errors = f"the score by more than ± {most}: two estimates, each with its own error"
            doubts.setdefault(("moves", "move", errors), []).append(record.factor)
    rule = f"{level} interval above 50 %: dominates; below: minor; else [[undecided|verdict]]."
    if len(shown.records) > 1:
        few = shown.design.tables_are_golden and shown.records[0].rows_used < FEW_BASE_RUNS
        less = ", somewhat less if factors interact strongly" if few else ""
        rule = f"The intervals of all factors hold together with {level}{less}. "
        rule += "Above 50 %: dominates; below: minor; else [[undecided|verdict]]."
        share, low = (sum(shown.shares(one)[at] for one in shown.records) for at in (0, 1))
        rule += OVERLAP * bool(low > 1) or (" Shares are estimates and need not add up to 100 %." if share > 1 else "")
    kinds = tuple(shown.verdict(record) for record in shown.records)
    notes = [f"{listed(of)} {one if len(of) == 1 else many} {what}." for (one, many, what), of in doubts.items()]
    return Table.of(rows, " ".join([rule, *notes]), kind="bars", texts=frozenset({1, 2}), kinds=kinds)


def _strategy_table(shown: Shown) -> Table:
    rows = [
        {
            "factor": record.factor,
            "important?": verdict_cell({True: "yes", False: "no", None: MISSING}[shown.is_important(record)]),
            "std of runs": shown.unit.amount(record.score_std),
            f"share of {shown.golden_word} std": plain(golden_share(record)),
        }
        for record in shown.records
    ]
    return Table.of(rows, shown.say(shown.design.words.note), texts=frozenset({1}))


def share_cell(share: float, low: float, high: float, *, digits: int = 1) -> str:
    """Return a share in per cent, and below it its interval; cut at 0 and 1, between which every true share lies."""
    if not math.isfinite(share):
        return MISSING
    share, low, high = (min(max(each, 0.0), 1.0) if math.isfinite(each) else math.nan for each in (share, low, high))
    text, *ends = share_texts(share, low, high, digits)
    return with_limits(f"{text} %", MISSING if MISSING in ends else " to ".join(ends), "({})")

"""The report of an investigation as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.investigation import factor_tables, prediction_tables
from mlflow_l3d.report.investigation import figures as draw
from mlflow_l3d.report.investigation.heatmap import heatmap
from mlflow_l3d.report.investigation.verdicts import (
    by_importance,
    golden_record,
    golden_runs,
    golden_word,
    is_graded,
    level_of,
    verdict,
)
from mlflow_l3d.report.investigation.words import answers, early_stops
from mlflow_l3d.report.numbers import percent, points
from mlflow_l3d.report.page import NO_TEXTS, Picture, Section, chip, page
from mlflow_l3d.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IMPORTANT = {
    "important": "yes",
    "important?": "yes, unsure",
    "not important": "no",
    "not important?": "no, unsure",
    "unknown": "n/a",
}


def drawn(analysis: Analysis, paths: Mapping[str, pd.DataFrame]) -> dict[str, Figure]:
    """Return the figures by name, those of a factor as in ``heatmap-data_order``.

    Parameters
    ----------
    analysis
        The records.
    paths
        Factor -> how its importance settled, see :func:`mlflow_l3d.report.investigation.figures.convergence`; a factor
        without a path, or with one of fewer than two rows, has no such figure.
    """
    records = by_importance(analysis)
    scores = draw.golden_distribution({record.factor: record for record in records}, metric=analysis.metric)
    made = {"importance": draw.importance_bars(analysis), "golden": scores}
    for record in records:
        factor = record.factor
        made[f"heatmap-{factor}"] = heatmap(record, metric=analysis.metric)
        if factor in paths and len(paths[factor]) > 1:
            made[f"convergence-{factor}"] = draw.convergence(paths[factor], factor, level=record.level)
    return made


def render(
    analysis: Analysis,
    figures: Mapping[str, Figure],
    *,
    settings: Mapping[str, str],
    title: str,
    notes: Sequence[str] = (),
    links: Mapping[str, str] = NO_TEXTS,
) -> str:
    """Return the report of an investigation as one HTML page.

    Parameters
    ----------
    analysis
        The records; fractions (0..1) are shown as percentage points.
    figures
        What :func:`drawn` returned.
    title, notes, links, settings
        As in :func:`mlflow_l3d.report.page.page`.
    """
    records = by_importance(analysis)
    golden = golden_record(analysis)
    pictures = _overview(analysis, records, figures)
    interim = factor_tables.interim_table(analysis)
    ranking = factor_tables.ranking_tables(analysis.ranking)
    components = factor_tables.component_table(analysis)
    return page(
        title,
        template="investigation.html",
        notes=[*notes, *early_stops(analysis)],
        links=links,
        settings=settings,
        answers=answers(analysis),
        reading=_reading(analysis),
        baseline=design_named(analysis.design).baseline,
        level=percent(level_of(records)),
        golden=golden_word(golden),
        golden_runs=golden_runs(golden),
        factors=_factor_table(analysis),
        verdicts=[(record.factor, verdict(record).sentence) for record in records],
        further=factor_tables.further_numbers(analysis),
        apart=[
            *([Section("When to stop", [interim])] if interim else []),
            *([Section("Which factors can be told apart", ranking)] if ranking else []),
        ],
        variances=[Section("Variance components", [components])] if components else [],
        agreement=prediction_tables.agreement_table(analysis),
        compared=analysis.agreement,
        graded=is_graded(analysis),
        shares=[
            (kind, name, points(share, 1), f"{100 * share:.3f}")
            for kind, name, share in prediction_tables.shares(analysis)
        ],
        fragile=prediction_tables.fragile_table(analysis),
        bars=pictures[:1],
        pictures=pictures[1:],
        of_factors=[(record.factor, _factor(record, figures, at)) for at, record in enumerate(records)],
        checks=sorted(analysis.checks, key=lambda check: check.severity != "warning"),
        cells_failed=analysis.cells_failed,
    )


def _factor_table(analysis: Analysis) -> Table:
    records = by_importance(analysis)
    golden = golden_word(golden_record(analysis))
    unit = f"Standard deviations and scores are percentage points of {analysis.metric}."
    if design_named(analysis.design).baseline:
        numbers = {"std of runs": "std", f"{golden} std": "golden", f"share of\n{golden} std": "share"}
        note = (
            f"missing: runs without a score. {unit} Important by the {analysis.design} strategy: a share of at least "
            "0.50; without an interval this stays unsure."
        )
    else:
        level = percent(level_of(records)).replace(" ", "\N{NO-BREAK SPACE}")
        numbers = {"importance": "importance", f"corrected\n{level} interval": "corrected"}
        numbers |= {"contr. std": "contributed", "mitig. std": "mitigated", f"{golden} std": "golden"}
        note = (
            f"contr., mitig.: contributed and mitigated; missing: cells without a score. {unit} Important by the "
            "published rule (score above 0); unsure where the interval does not confirm it."
        )
    numbers |= {"score\nmean ± std": "mean", "CON %": "consistency", "CCON %": "correct"}
    numbers["miss\N{SOFT HYPHEN}ing"] = "missing"
    rows = []
    for record, texts in zip(records, factor_tables.factor_texts(analysis), strict=True):
        status = verdict(record).status
        sure = chip(status.replace("?", "").replace(" ", "-"), _IMPORTANT[status])
        below = {"mean": f"\n± {texts['std']}", "corrected": f"\n{texts['bounds']}"}
        rows.append((record.factor, sure, *[texts[key] + below.get(key, "") for key in numbers.values()]))
    return Table(("factor", "important?", *numbers), tuple(rows), note)


def _overview(analysis: Analysis, records: Sequence[Importance], figures: Mapping[str, Figure]) -> list[Picture]:
    if not records:
        return []
    if design_named(analysis.design).baseline:
        label = "Std of every factor's runs"
        caption = (
            f"Std of the runs as a share of the {golden_word(records[0])} std. From half on (line) the "
            f"{analysis.design} strategy calls a factor important; it has no importance score and no interval."
        )
    else:
        label = "Importance of every factor"
        caption = (
            "Bars are the published score, points and lines the corrected score with its "
            f"{percent(level_of(records))} interval. A factor whose whole interval lies to the right of 0 matters more "
            "than all others together."
        )
    bars = Picture.of(figures["importance"], "bars", label, caption)
    words = design_named(analysis.design).words
    golden = Picture.of(
        figures["golden"],
        "golden",
        "Scores of single runs",
        f"Each tick is one training. {words.first_row or _RUNS[golden_runs(records[0])]} {words.rows} "
        "Numbers are mean ± standard deviation.",
    )
    return [bars, golden]


_RUNS = {
    "golden runs": "Golden runs change every factor.",
    "pooled runs": "Pooled runs are the cells of all tables together, in place of golden runs.",
}


def _reading(analysis: Analysis) -> list[tuple[str, str]]:
    """Return the terms of the design, and what they mean."""
    record = golden_record(analysis)
    given = {"design": analysis.design, "golden": golden_word(record), "runs": golden_runs(record)}
    return [(term.format(**given), text.format(**given)) for term, text in design_named(analysis.design).words.reading]


def _factor(record: Importance, figures: Mapping[str, Figure], at: int) -> list[Picture]:
    pictures = []
    if not design_named(record.design).baseline:
        caption = design_named(record.design).words.table.format(factor=record.factor)
        figure = figures[f"heatmap-{record.factor}"]
        pictures.append(Picture.of(figure, f"table-{at}", f"Scores of {record.factor}", caption))
    if (convergence := figures.get(f"convergence-{record.factor}")) is not None:
        caption = "A line that still moves at the right edge asks for more mitigation runs."
        pictures.append(Picture.of(convergence, f"path-{at}", f"Importance of {record.factor} over rows", caption))
    return pictures

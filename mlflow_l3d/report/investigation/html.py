"""The report: one HTML file without scripts, fonts or pictures from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.investigation import figures, sections
from mlflow_l3d.report.investigation.verdicts import (
    BASELINES,
    MISSING,
    by_importance,
    golden_record,
    golden_runs,
    golden_share,
    golden_word,
    interval,
    is_graded,
    level_of,
    percent,
    plain,
    points,
    shorten,
    signed,
    verdict,
)
from mlflow_l3d.report.investigation.words import answers, early_stops
from mlflow_l3d.report.style import to_svg

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure


def render(
    analysis: Analysis,
    *,
    paths: Mapping[str, pd.DataFrame],
    settings: Mapping[str, str],
    title: str,
    notes: Sequence[str] = (),
    links: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the report of an investigation as one HTML page.

    Parameters
    ----------
    analysis
        The records; fractions (0..1) are shown as percentage points.
    paths
        Factor -> how its importance settled, see :func:`mlflow_l3d.report.investigation.figures.convergence`; a factor
        without a path, or with one of fewer than two rows, has no such figure.
    settings
        Name -> value, shown as they are: leave out what must not be seen (tokens, private paths).
    title
        Heading of the page.
    notes
        Sentences shown below the heading.
    links
        Label -> address. An address that is not http or https is shown as text.

    Returns
    -------
    str
        A page that works offline and in a frame, follows the reader's light or dark setting, and prints. Every text
        that is passed in is escaped. Same input, same page.
    """
    records = by_importance(analysis)
    golden = golden_record(analysis)
    return (
        page_environment()
        .get_template("report.html")
        .render(
            title=title,
            notes=[*notes, *early_stops(analysis)],
            links=[(label, address, urlsplit(address).scheme in ("http", "https")) for label, address in links.items()],
            metric=analysis.metric,
            answers=answers(analysis),
            design=analysis.design,
            baseline=analysis.design in BASELINES,
            level=percent(level_of(records)),
            golden=golden_word(golden) if golden else "golden",
            golden_runs=golden_runs(golden) if golden else "golden runs",
            further=sections.further_numbers(analysis),
            ranking=sections.ranking_tables(analysis.ranking),
            components=sections.component_table(analysis),
            agreement=sections.agreement_table(analysis),
            compared=analysis.agreement,
            graded=is_graded(analysis),
            shares=[
                (kind, name, points(share, 1), f"{100 * share:.3f}") for kind, name, share in sections.shares(analysis)
            ],
            fragile=sections.fragile_table(analysis),
            interim_analyses=sections.interim_table(analysis),
            rows=[_row(analysis, record) for record in records],
            figures=_overview(analysis, records),
            factors=[_factor(analysis, record, paths.get(record.factor), at) for at, record in enumerate(records)],
            checks=sorted(analysis.checks, key=lambda check: check.severity != "warning"),
            cells_failed=analysis.cells_failed,
            settings=dict(settings),
        )
    )


@cache
def page_environment() -> Environment:
    """Return what renders a page of :mod:`mlflow_l3d.report`: every text is escaped, an unknown name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("mlflow_l3d.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["minus"] = _minus_before_digits
    return environment


def _row(analysis: Analysis, record: Importance) -> dict[str, Any]:
    agreement = analysis.consistencies.get(record.factor)
    found = verdict(record)
    corrected, _, bounds = interval(record).partition(" ")
    return {
        "factor": record.factor,
        "status": found.status,
        "kind": found.status.replace("?", "").replace(" ", "-"),
        "sentence": _minus(found.sentence),
        "importance": _minus(signed(record.importance)),
        "corrected": _minus(corrected),
        "bounds": _minus(bounds.strip("[]").replace(", ", " to ")),
        "contributed": points(record.contributed_std),
        "mitigated": points(record.mitigated_std),
        "golden": points(record.golden_std),
        "mean": points(record.score_mean),
        "std": points(record.score_std),
        "consistency": points(agreement.consistency, 1) if agreement else MISSING,
        "correct": points(agreement.correct_consistency, 1) if agreement else MISSING,
        "share": plain(golden_share(record)),
        "missing": record.cells_missing,
    }


def _minus(number: str) -> str:
    """Return a number with a true minus sign, which is as wide as a plus."""
    return number.replace("-", "\N{MINUS SIGN}")


def _minus_before_digits(text: str) -> str:
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)


def _overview(analysis: Analysis, records: Sequence[Importance]) -> list[dict[str, Any]]:
    if not records:
        return []
    if analysis.design in BASELINES:
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
    bars = picture(figures.importance_bars(analysis), "bars", label, caption)
    golden = picture(
        figures.golden_distribution({record.factor: record for record in records}, metric=analysis.metric),
        "golden",
        "Scores of single runs",
        f"Each tick is one training. {_RUNS[golden_runs(records[0])]} {_TABLES[analysis.design]} Numbers are mean ± "
        "standard deviation.",
    )
    return [bars, golden]


_RUNS = {
    "golden runs": "Golden runs change every factor.",
    "pooled runs": "Pooled runs are the cells of all tables together, in place of golden runs.",
    "base and swap runs": "The first row holds all base and swap runs.",
}
_OF_ONE_FACTOR = (
    "The other rows hold the table of one factor, in which it changes along a row and everything else from row to row."
)
_TABLES = {
    "crossed": _OF_ONE_FACTOR,
    "nested": _OF_ONE_FACTOR,
    "radial": "The other rows hold the base runs and those in which that factor was drawn anew.",
    "random": "The other rows hold the runs of one factor, in which every factor changes.",
    "fixed": "The other rows hold the runs of one factor, in which it alone changes.",
}


def _factor(analysis: Analysis, record: Importance, path: pd.DataFrame | None, at: int) -> dict[str, Any]:
    pictures = []
    if record.design not in BASELINES:
        pictures.append(
            picture(
                figures.heatmap(record, metric=analysis.metric),
                f"table-{at}",
                f"Scores of {record.factor}",
                _radial_caption(record) if record.design == "radial" else _table_caption(record),
            )
        )
    if path is not None and len(path) >= 2:
        pictures.append(
            picture(
                figures.convergence(path, record.factor, level=record.level),
                f"path-{at}",
                f"Importance of {record.factor} over rows",
                "A line that still moves at the right edge asks for more mitigation runs.",
            )
        )
    return {"name": record.factor, "figures": pictures}


def _table_caption(record: Importance) -> str:
    return (
        f"Along a row only {record.factor} changes; from row to row everything else does. The mean of the row stds "
        "is the contributed standard deviation, the std of the row means is the mitigated one."
    )


def _radial_caption(record: Importance) -> str:
    return (
        f"Each dot is a pair of runs that differ in {record.factor} only. Distance from the line is what it "
        "contributes, spread along the line is what all other factors do."
    )


def picture(figure: Figure, name: str, label: str, caption: str) -> dict[str, Any]:
    """Return a figure for a page, as SVG.

    Parameters
    ----------
    figure
        Drawn.
    name
        Makes the ids in the picture its own.
    label, caption
        What readers who cannot see it are told, and the line below it.
    """
    from markupsafe import Markup

    # Made by matplotlib, which escapes every text in it.
    svg = Markup(to_svg(figure, name))  # noqa: S704
    return {"svg": svg, "label": shorten(label, 200), "caption": caption}

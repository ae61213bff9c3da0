"""The report: one HTML file without scripts, fonts or pictures from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pandas as pd

from mlflow_l3d.analysis.results import Analysis, Importance
from mlflow_l3d.report import figures
from mlflow_l3d.report.style import to_svg
from mlflow_l3d.report.words import (
    MISSING,
    answers,
    by_importance,
    interval,
    points,
    shorten,
    signed,
    verdict,
)

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
        Factor -> how its importance settled, see :func:`mlflow_l3d.report.figures.convergence`; a factor without a
        path, or with one of fewer than two rows, has no such figure.
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
    return (
        _environment()
        .get_template("report.html")
        .render(
            title=title,
            notes=list(notes),
            links=[(label, address, urlsplit(address).scheme in ("http", "https")) for label, address in links.items()],
            metric=analysis.metric,
            answers=answers(analysis),
            rows=[_row(analysis, record) for record in records],
            figures=_overview(analysis, records),
            factors=[_factor(analysis, record, paths.get(record.factor), at) for at, record in enumerate(records)],
            checks=sorted(analysis.checks, key=lambda check: check.severity != "warning"),
            cells_failed=analysis.cells_failed,
            settings=dict(settings),
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("mlflow_l3d.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


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
        "missing": record.cells_missing,
    }


def _minus(number: str) -> str:
    """Return a number with a true minus sign, which is as wide as a plus."""
    return number.replace("-", "\N{MINUS SIGN}")


def _overview(analysis: Analysis, records: Sequence[Importance]) -> list[dict[str, Any]]:
    bars = _picture(
        figures.importance_bars(analysis),
        "bars",
        "Importance of every factor",
        "Bars are the published score, points and lines the corrected score with its 95 % interval. A factor whose "
        "whole interval lies to the right of 0 matters more than all others together.",
    )
    golden = _picture(
        figures.golden_distribution({record.factor: record for record in records}, metric=analysis.metric),
        "golden",
        "Scores of single runs",
        "Each tick is one training. Golden runs change every factor; the other rows hold the table of one factor, "
        "in which it changes along a row and everything else from row to row. Numbers are mean ± standard deviation.",
    )
    return [bars, golden] if records else []


def _factor(analysis: Analysis, record: Importance, path: pd.DataFrame | None, at: int) -> dict[str, Any]:
    pictures = [
        _picture(
            figures.heatmap(record, metric=analysis.metric),
            f"table-{at}",
            f"Scores of {record.factor}",
            f"Along a row only {record.factor} changes; from row to row everything else does. The mean of the row stds "
            "is the contributed standard deviation, the std of the row means is the mitigated one.",
        )
    ]
    if path is not None and len(path) >= 2:
        pictures.append(
            _picture(
                figures.convergence(path, record.factor),
                f"path-{at}",
                f"Importance of {record.factor} over rows",
                "A line that still moves at the right edge asks for more mitigation runs.",
            )
        )
    return {"name": record.factor, "figures": pictures}


def _picture(figure: Figure, name: str, label: str, caption: str) -> dict[str, Any]:
    from markupsafe import Markup

    # Made by matplotlib, which escapes every text in it.
    svg = Markup(to_svg(figure, name))  # noqa: S704
    return {"svg": svg, "label": shorten(label, 200), "caption": caption}

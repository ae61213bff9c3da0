"""``search.html``: what a search found, on one page that needs no network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mlflow_l3d.report.numbers import counted, duration
from mlflow_l3d.report.style import BLUE, GRID, INK, MUTED, ORANGE
from mlflow_l3d.studies.search.found import SearchResult
from mlflow_l3d.studies.search.report.figures import PALE
from mlflow_l3d.studies.search.report.plots import Plot, plots
from mlflow_l3d.studies.search.report.tables import level_table, other_values, setting_table, trial_rows
from mlflow_l3d.studies.search.report.words import search_answers

if TYPE_CHECKING:
    from jinja2 import Environment
    from optuna import Study

MOST_TRIALS: Final = 300
"""Rows of the table of trials; the artefact trials.json has all."""

_THEME: Final = {INK: "--ink", MUTED: "--muted", GRID: "--grid", BLUE: "--blue", ORANGE: "--orange", PALE: "--pale"}
_KINDS: Final = {
    "history": (
        "How the score rose",
        "One point a complete trial, in the order of the trials; the line is the best so far. Both levels have one "
        "scale.",
    ),
    "slice": (
        "Score by hyperparameter",
        "Each complete trial stands once in every panel; a stronger blue is a later trial.",
    ),
    "parallel_coordinate": (
        "All hyperparameters together",
        "One line a complete trial, stronger with a higher score; the thick orange one is the best.",
    ),
    "importances": (
        "Importance of the hyperparameters",
        "Share of the variance of the score over the coarse space that each one alone accounts for (fANOVA).",
    ),
    "intermediate_values": (
        "Validation score while training",
        "Thick orange: the best trial. Pale: trials that were pruned. With several configurations a trial, those "
        "follow each other.",
    ),
}
_ORDER: Final = ("importances", "history", "slice", "parallel_coordinate", "intermediate_values")


def render(
    result: SearchResult,
    studies: Mapping[str, Study],
    *,
    settings: Mapping[str, str] = MappingProxyType({}),
    links: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the page of a search.

    Parameters
    ----------
    result
        Scores in fractions (0..1), shown in percentage points.
    studies
        Level -> its Optuna study, for Optuna's own plots.
    settings
        Name -> value, shown as they are: leave out what must not be seen (tokens, private paths).
    links
        Label -> address. An address that is not http or https is shown as text.

    Returns
    -------
    str
        About 5 MB, nearly all of it plotly.js, once. It works offline and in a frame that allows scripts, follows the
        reader's light or dark setting, and prints. Every text that is passed in is escaped.

    Raises
    ------
    L3DError
        If optuna or plotly is not installed.
    """
    found = plots(studies, result.metric, result.importances)
    rows = trial_rows(result, MOST_TRIALS)
    return (
        _environment()
        .get_template("search.html")
        .render(
            title=result.title,
            took=f"{counted(result.trials_run, 'trial')} in {duration(result.seconds)}, each trained on "
            f"{counted(result.configurations, 'configuration')} and scored by {result.metric} on "
            f"{counted(result.validation_examples, 'validation example')}. Scores are percentage points.",
            notes=result.notes,
            links=[(label, address, urlsplit(address).scheme in ("http", "https")) for label, address in links.items()],
            answers=search_answers(result),
            settings_found=setting_table(result, "").rows,
            levels=[level.name for level in result.levels],
            others=other_values(result),
            run_id=result.run_id,
            level_rows=level_table(result).rows,
            sections=_sections(found),
            scripts=[plot.document() for _, plot in _placed(found)],
            theme=_THEME,
            plotly=_plotly() if found else "",
            searched=result.searched,
            spread=any(row["spread"] for row in rows),
            runs=any(row["run_id"] for row in rows),
            trials=rows,
            left_out=max(0, len(result.trials) - len(rows)),
            settings=dict(settings),
        )
    )


def _placed(found: list[Plot]) -> list[tuple[int, Plot]]:
    """Return the plots in the order of the page, numbered."""
    return list(enumerate(sorted(found, key=lambda plot: _ORDER.index(plot.kind))))


def _sections(found: list[Plot]) -> list[dict[str, Any]]:
    placed = _placed(found)
    sections = []
    for kind in _ORDER:
        heading, caption = _KINDS[kind]
        own = [
            {"id": at, "title": plot.title, "width": plot.width, "height": plot.figure.layout.height}
            for at, plot in placed
            if plot.kind == kind
        ]
        if own:
            wide = kind in ("slice", "parallel_coordinate") or len(own) == 1
            sections.append({"heading": heading, "caption": caption, "wide": wide, "plots": own})
    return sections


@cache
def _plotly() -> str:
    """Return plotly.js, which must not hold what would end its script element."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return re.sub(r"</(?=script)", r"<\\/", text, flags=re.IGNORECASE).replace("<!--", "<\\!--")


@cache
def _environment() -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader("mlflow_l3d.studies.search.report"), PackageLoader("mlflow_l3d.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["minus"] = lambda text: re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)
    return environment

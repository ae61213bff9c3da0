"""Optuna's own interactive plots of a search, in percentage points and in the look of the report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.search.report.figures import MAKERS, importances_figure
from mlflow_l3d.studies.search.studies import LEVEL_TITLES, complete_trials, in_points, varied

if TYPE_CHECKING:
    from optuna import Study

_NARROW: Final = 300
_COLUMN: Final = 140
_SIDES: Final = 110
"""Width of one hyperparameter below which its ticks run into each other, in pixels."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One interactive figure.

    Attributes
    ----------
    kind
        ``history``, ``slice``, ``parallel_coordinate``, ``importances`` or ``intermediate_values``.
    level
        ``coarse`` or ``fine``.
    title
        As in ``level 1: coarse``.
    figure
        A plotly figure, for tests and notebooks.
    width
        Pixels below which it is scrolled, not squeezed.
    """

    kind: str
    level: str
    title: str
    figure: Any
    width: int

    def document(self) -> str:
        """Return data and layout as JSON that may stand in a script of a page."""
        text = json.dumps({key: json.loads(self.figure.to_json())[key] for key in ("data", "layout")})
        return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def need_plotly() -> None:
    """Raise an :class:`~mlflow_l3d.errors.L3DError` where plotly is not installed."""
    from importlib.util import find_spec

    if find_spec("plotly") is None:
        msg = "The plots of a search need the package plotly. Run: pip install 'mlflow-l3d[search]'"
        raise L3DError(msg)


def plots(studies: Mapping[str, Study], metric: str, importances: Mapping[str, float]) -> list[Plot]:
    """Return the figures of a search, of each kind those of all levels that have something to show.

    Parameters
    ----------
    studies
        Level -> its study, which maximises a fraction.
    metric
        Name on the axes.
    importances
        Shares of the variance at the coarse level; shown as they are, where Optuna would make them sum to 1.
    """
    need_plotly()
    shown = {level: in_points(study) for level, study in studies.items()}
    shown = {level: study for level, study in shown.items() if complete_trials(study)}
    found = [
        Plot(kind, level, LEVEL_TITLES.get(level, level), figure, _width(kind, study))
        for kind, make in MAKERS.items()
        for level, study in shown.items()
        if (figure := make(study, metric)) is not None
    ]
    _same_scores([plot.figure for plot in found if plot.kind == "history"])
    if "coarse" in shown:
        figure = importances_figure(shown["coarse"], importances)
        if figure is not None:
            found.append(Plot("importances", "coarse", LEVEL_TITLES["coarse"], figure, _NARROW))
    return found


def _width(kind: str, study: Study) -> int:
    columns = {"slice": len(varied(study)), "parallel_coordinate": len(varied(study))}
    return max(_NARROW, _SIDES + _COLUMN * columns.get(kind, 0))


def _same_scores(figures: list[Any]) -> None:
    """Give the figures of both levels the same range of scores."""
    scores = [y for figure in figures for trace in figure.data if trace.name == "one trial" for y in trace.y]
    if scores:
        low, high = min(scores), max(scores)
        pad = 0.06 * (high - low) or 0.5
        for figure in figures:
            figure.update_yaxes(range=[low - pad, high + pad])

"""Optuna's own interactive plots of a search, in percentage points and in the look of the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import L3DError
from mlflow_l3d.report.style import BLUE, GRID, INK, MUTED, ORANGE
from mlflow_l3d.search.studies import LEVEL_TITLES, complete_trials, in_points, log_ticks, two_lines, values_of, varied

if TYPE_CHECKING:
    from optuna import Study

PALE: Final = "#a7b7c9"
"""Early and pruned trials."""
_WIDE: Final = 140
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
    found: list[Plot] = []
    for kind, make in _KINDS.items():
        for level, study in shown.items():
            if not complete_trials(study):
                continue
            figure = make(study, metric)
            if figure is None:
                continue
            columns = len(varied(study)) + (kind == "parallel_coordinate")
            per_column = kind in ("slice", "parallel_coordinate")
            width = max(300, _WIDE * columns) if per_column else 300
            found.append(Plot(kind, level, LEVEL_TITLES.get(level, level), figure, width))
        if kind == "history":
            _same_scores([plot.figure for plot in found])
            if importances and "coarse" in shown and complete_trials(shown["coarse"]):
                figure = _importances(shown["coarse"], importances)
                found.append(Plot("importances", "coarse", LEVEL_TITLES["coarse"], figure, 300))
    return found


def _history(study: Study, metric: str) -> Any:
    from optuna.visualization import plot_optimization_history

    figure = plot_optimization_history(study, target_name=metric)
    points, best = figure.data[0], figure.data[1]
    points.update(name="one trial", marker={"color": BLUE, "size": 8}, hovertemplate="trial %{x}: %{y:.2f}")
    best.update(name="best so far", line={"color": ORANGE, "width": 2, "shape": "hv"}, hoverinfo="skip", opacity=0.8)
    figure.data = [best, points]
    _dress(figure, height=330)
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"})
    numbers = len(study.get_trials(deepcopy=False))
    figure.update_xaxes(title_text="trial", showgrid=False, tickformat="d", dtick=_step(numbers))
    figure.update_yaxes(title_text=f"{metric}, points")
    return figure


def _step(numbers: int) -> int:
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 10**9) if numbers <= 11 * step)


def _same_scores(figures: list[Any]) -> None:
    """Give the figures of both levels the same range of scores."""
    scores = [y for figure in figures for trace in figure.data if trace.name == "one trial" for y in trace.y]
    if scores:
        low, high = min(scores), max(scores)
        pad = 0.06 * (high - low) or 0.5
        for figure in figures:
            figure.update_yaxes(range=[low - pad, high + pad])


def _importances(study: Study, importances: Mapping[str, float]) -> Any:
    from optuna.importance import BaseImportanceEvaluator
    from optuna.visualization import plot_param_importances

    class Known(BaseImportanceEvaluator):
        def evaluate(self, *_: object, **__: object) -> dict[str, float]:
            return dict(importances)

    figure = plot_param_importances(study, evaluator=Known())
    names = list(figure.data[0].y)
    shares = [100 * importances[name] for name in names]
    figure.update_traces(
        x=shares,
        text=[f"{share:.0f} %" if share >= 1 else "< 1 %" for share in shares],
        textposition="auto",
        marker_color=BLUE,
        width=0.6,
        hovertemplate="%{y}: %{x:.1f} %<extra></extra>",
        cliponaxis=False,
    )
    _dress(figure, height=110 + 38 * len(names))
    figure.update_xaxes(title_text="share of the variance, %", range=[0, max(10.0, 1.12 * max(shares))])
    figure.update_yaxes(title_text="", showgrid=False, automargin=True)
    return figure


def _slice(study: Study, metric: str) -> Any:
    from optuna.visualization import plot_slice

    names = varied(study)
    if not names:
        return None
    figure = plot_slice(study, params=names, target_name=metric)
    figure.update_traces(
        marker={"size": 8, "colorscale": [[0, PALE], [1, BLUE]], "line": {"width": 0.5, "color": MUTED}},
        hovertemplate="%{x}: %{y:.2f}, trial %{marker.color}<extra></extra>",
    )
    bar = {"title": {"text": "trial"}, "thickness": 12, "x": 1.0, "xpad": 14, "outlinewidth": 0}
    figure.data[0].marker.colorbar.update(bar)
    _dress(figure, height=340)
    figure.update_layout(width=None, showlegend=False)
    next(figure.select_yaxes()).update(title_text=f"{metric}, points")
    for axis, name in zip(figure.select_xaxes(), names, strict=False):
        if axis.type == "log":
            ticks = log_ticks(values_of(study, name))
            axis.update(tickvals=ticks, ticktext=[_short(tick) for tick in ticks], tickangle=0)
        elif axis.type != "category":
            axis.update(nticks=5)
    return figure


def _short(tick: float) -> str:
    text = f"{tick:.1e}" if tick < 0.001 or tick >= 10_000 else f"{tick:.2g}"
    return text.replace(".0e", "e").replace("e-0", "e-").replace("e+0", "e")


def _parallel(study: Study, metric: str) -> Any:
    from optuna.visualization import plot_parallel_coordinate

    names = varied(study)
    if not names:
        return None
    figure = plot_parallel_coordinate(study, params=names, target_name=metric)
    lines = sorted((trace for trace in figure.data if trace.mode == "lines"), key=lambda trace: trace.y[0])
    for trace in lines:
        best = trace is lines[-1]
        # On a light and on a dark page a high score stands out.
        opacity = 1.0 if best else 0.2 + 0.6 * trace.y[0]
        trace.update(line={"color": ORANGE if best else BLUE, "width": 3.5 if best else 1.4}, opacity=opacity)
    figure.data = lines
    _dress(figure, height=380)
    figure.update_layout(margin={"l": 58, "r": 46, "t": 14, "b": 48})
    figure.update_annotations(font={"size": 11, "color": MUTED})
    figure.update_shapes(line={"color": GRID, "width": 1})
    figure.update_xaxes(range=[-0.02, len(names) + 0.02], showline=False, ticks="", tickfont={"size": 12})
    texts = [f"{metric}<br>(points)", *(two_lines(name, "<br>") for name in names)]
    figure.update_xaxes(ticktext=texts)
    return figure


def _intermediate(study: Study, metric: str) -> Any:
    from optuna.visualization import plot_intermediate_values

    trials = study.get_trials(deepcopy=False)
    if not any(trial.intermediate_values for trial in trials):
        return None
    figure = plot_intermediate_values(study)
    best = max(complete_trials(study), key=lambda trial: (trial.value, -trial.number)).number
    pruned = {trial.number for trial in trials if trial.state.name == "PRUNED"}
    for trace in figure.data:
        number = int(str(trace.name).removeprefix("Trial"))
        colour, width = (ORANGE, 3) if number == best else (PALE, 1.2) if number in pruned else (BLUE, 1.4)
        trace.update(
            mode="lines" if len(trace.x) > 1 else "markers",
            line={"color": colour, "width": width},
            marker={"color": colour, "size": 6},
            opacity=1.0 if number == best else 0.7,
            hovertemplate=f"trial {number}{', pruned' if number in pruned else ''}, step %{{x}}: %{{y:.2f}}"
            "<extra></extra>",
        )
    figure.data = sorted(figure.data, key=lambda trace: trace.line.width)
    _dress(figure, height=330)
    figure.update_xaxes(title_text="step (epoch)", showgrid=False, tickformat="d")
    figure.update_yaxes(title_text=f"{metric}, points")
    return figure


_KINDS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "history": _history,
    "slice": _slice,
    "parallel_coordinate": _parallel,
    "intermediate_values": _intermediate,
}


def _dress(figure: Any, *, height: int) -> None:
    """Give a plotly figure the look of the report; the page puts in the colours of a dark one."""
    figure.update_layout(
        template={},
        title=None,
        height=height,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, -apple-system, Segoe UI, Roboto, Arial, sans-serif", "size": 12, "color": INK},
        margin={"l": 58, "r": 14, "t": 14, "b": 48},
        hovermode="closest",
    )
    figure.update_xaxes(gridcolor=GRID, linecolor=GRID, zeroline=False, automargin=True, title_font_color=MUTED)
    figure.update_yaxes(gridcolor=GRID, linecolor=GRID, zeroline=False, automargin=True, title_font_color=MUTED)

"""One figure of Optuna each, for plotly: restyled, with the words of this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.report.numbers import share_text
from mlflow_l3d.report.style import BLUE, GRID, INK, MUTED, ORANGE
from mlflow_l3d.studies.search.studies import complete_trials, log_ticks, two_lines, values_of, varied

if TYPE_CHECKING:
    from optuna import Study

PALE: Final = "#a7b7c9"
"""Early and pruned trials."""


def _history(study: Study, metric: str) -> Any:
    from optuna.visualization import plot_optimization_history

    figure = plot_optimization_history(study, target_name=metric)
    points, best = figure.data[0], figure.data[1]
    points.update(
        name="one trial", marker={"color": BLUE, "size": 8}, hovertemplate="trial %{x}: %{y:.2f}<extra></extra>"
    )
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


def importances_figure(study: Study, importances: Mapping[str, float]) -> Any:
    """Return the bars of these shares, or None where the study has none of the names; Optuna would scale them to 1."""
    from optuna.importance import BaseImportanceEvaluator
    from optuna.visualization import plot_param_importances

    tried = {name for trial in study.get_trials(deepcopy=False) for name in trial.distributions}
    importances = {name: share for name, share in importances.items() if name in tried}
    if not importances:
        return None

    class Known(BaseImportanceEvaluator):
        def evaluate(self, *_: object, **__: object) -> dict[str, float]:
            return dict(importances)

    figure = plot_param_importances(study, evaluator=Known())
    names = list(figure.data[0].y)
    shares = [100 * importances[name] for name in names]
    figure.update_traces(
        x=shares,
        text=[share_text(importances[name]) for name in names],
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
    for axis, name in zip(figure.select_xaxes(), names, strict=True):
        axis.title.text = two_lines(name, "<br>")
        if axis.type == "log":
            ticks = log_ticks(values_of(study, name))
            axis.update(tickvals=ticks, ticktext=[_short(tick) for tick in ticks], tickangle=0)
        elif axis.type == "category":
            # Optuna shows Python's quotes.
            axis.update(tickvals=axis.categoryarray, ticktext=[text.strip("'") for text in axis.categoryarray])
        else:
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


MAKERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "history": _history,
    "slice": _slice,
    "parallel_coordinate": _parallel,
    "intermediate_values": _intermediate,
}
"""Kind -> what draws it from a study in points and the name of the metric; None where there is nothing to show."""


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

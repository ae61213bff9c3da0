"""The same plots of Optuna as PNGs, one below the other where there are two levels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from mlflow_l3d.report.style import BLUE, GRID, INK, MUTED, ORANGE, WIDTH, dress
from mlflow_l3d.studies.search.optional import need_optuna
from mlflow_l3d.studies.search.studies import (
    LEVEL_TITLES,
    complete_trials,
    in_points,
    log_ticks,
    two_lines,
    values_of,
    varied,
)

if TYPE_CHECKING:
    from optuna import Study

_DPI: Final = 150
_COLUMN: Final = 1.55
"""Width of one hyperparameter, in inches."""
_SETTINGS: Final[Any] = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.usetex": False,
    "text.parse_math": False,
    "figure.constrained_layout.use": True,
    "figure.autolayout": False,
    "axes.formatter.useoffset": False,
}


def save_pngs(studies: Mapping[str, Study], metric: str, folder: Path) -> list[Path]:
    """Write ``history.png``, ``slice.png`` and ``parallel_coordinate.png``; return those that there are.

    Parameters
    ----------
    studies
        Level -> its study, which maximises a fraction; the plots show percentage points.
    metric
        Name on the axes.
    folder
        Exists. A file without anything to show (no complete trial, nothing varied) is not written.
    """
    need_optuna()
    shown = {level: in_points(study) for level, study in studies.items() if complete_trials(study)}
    columns = max((len(varied(study)) for study in shown.values()), default=0)
    written = []
    for name, draw in (("history", _history), ("slice", _slice), ("parallel_coordinate", _parallel)):
        pictures = []
        for level, study in shown.items():
            if name == "history" or varied(study):
                with _drawing():
                    figure = draw(study, metric, columns)
                    title = LEVEL_TITLES.get(level, level)
                    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=10, fontweight="bold")
                    pictures.append(_pixels(figure))
        if pictures:
            path = folder / f"{name}.png"
            _save(pictures, path)
            written.append(path)
    return written


@contextmanager
def _drawing() -> Iterator[None]:
    """Let Optuna draw through pyplot, and leave matplotlib as it was: settings, style, back end and open figures."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from optuna.exceptions import ExperimentalWarning

    open_before = set(plt.get_fignums())
    backend = mpl.get_backend(auto_select=False)
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        # All of Optuna's functions for matplotlib are marked so, since version 2.2.
        warnings.simplefilter("ignore", category=ExperimentalWarning)
        plt.switch_backend("agg")
        try:
            yield
        finally:
            for number in set(plt.get_fignums()) - open_before:
                plt.close(number)
            if backend is not None:
                plt.switch_backend(backend)


def _history(study: Study, metric: str, _: int) -> Any:
    from matplotlib.ticker import MaxNLocator
    from optuna.visualization.matplotlib import plot_optimization_history

    axes: Any = plot_optimization_history(study, target_name=metric)
    figure: Any = axes.figure
    figure.set_layout_engine("constrained")
    axes.get_legend().remove()
    axes.set_title("")
    dress(axes, x="trial", y=f"{metric}, percentage points", grid="y")
    for points in axes.collections:
        points.set(color=BLUE, sizes=[26], zorder=3)
    for line in axes.lines:
        line.set(color=ORANGE, linewidth=1.8, alpha=0.9, drawstyle="steps-post")
    axes.collections[0].set_label("one trial")
    axes.lines[0].set_label("best so far")
    axes.legend(loc="lower right", fontsize=8.5, frameon=False, labelcolor=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.set_size_inches(WIDTH, 3.0)
    return figure


def _slice(study: Study, metric: str, columns: int) -> Any:
    from optuna.visualization.matplotlib import plot_slice

    names = varied(study)
    panels = np.atleast_1d(np.asarray(plot_slice(study, params=names, target_name=metric), dtype=object))
    figure = panels[0].figure
    for at, (axes, name) in enumerate(zip(panels, names, strict=True)):
        axes.set_title("")
        for points in axes.collections:
            points.set_cmap(_colours("#c3cedb", BLUE))
        dress(axes, x=two_lines(name, "\n"), y=f"{metric}, percentage points" if at == 0 else "", grid="y")
        _plain_ticks(axes, values_of(study, name))
    _bar(figure, "trial")
    figure.set_size_inches(max(WIDTH, _COLUMN * columns + 1.2), 3.2)
    return figure


def _parallel(study: Study, metric: str, columns: int) -> Any:
    from optuna.visualization.matplotlib import plot_parallel_coordinate

    names = varied(study)
    axes = plot_parallel_coordinate(study, params=names, target_name=f"{metric}\n(points)")
    figure: Any = axes.figure
    axes.set_title("")
    lines: Any = axes.collections[0]
    scores = np.asarray(lines.get_array(), dtype=float)
    # The best one is drawn last.
    order = np.argsort(scores if study.direction.name == "MAXIMIZE" else -scores, kind="stable")
    lines.set_segments([lines.get_segments()[at] for at in order])
    lines.set_array(scores[order])
    lines.set_cmap(_colours("#c3cedb", BLUE))
    lines.set_linewidth(1.2)
    axes.plot(range(len(names) + 1), lines.get_segments()[-1][:, 1], color=ORANGE, linewidth=3, label="best trial")
    colour_bar = [each for each in figure.axes if each.get_label() == "<colorbar>"]
    for each in figure.axes:
        each.set_facecolor("none")
        each.grid(visible=False)
        each.tick_params(which="both", colors=GRID, labelcolor=INK, labelsize=8)
        for spine in each.spines.values():
            spine.set_color(GRID)
        if each is not axes and each not in colour_bar and each.get_yscale() == "log":
            _plain_log(each.yaxis, list(each.get_ylim()))
    texts = [text.get_text() for text in axes.get_xticklabels()]
    labels = [texts[0], *(two_lines(text, "\n") for text in texts[1:])]
    axes.set_xticks(axes.get_xticks(), labels, rotation=0, fontsize=8.5, color=INK, parse_math=False)
    _bar(figure, f"{metric}, percentage points")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=8.5, frameon=False, labelcolor=INK)
    figure.set_size_inches(max(WIDTH, _COLUMN * (columns + 1) + 1.2), 3.4)
    return figure


def _bar(figure: Any, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    for axes in figure.axes:
        if axes.get_label() == "<colorbar>":
            axes.set_ylabel(label, color=MUTED, fontsize=8.5)
            axes.tick_params(colors=GRID, labelcolor=INK, labelsize=8)
            axes.yaxis.set_major_locator(MaxNLocator(6, integer=label == "trial"))
            for spine in axes.spines.values():
                spine.set_visible(False)


def _plain_ticks(axes: Any, values: list[Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    if axes.get_xscale() == "log":
        _plain_log(axes.xaxis, values)
    elif axes.xaxis.have_units():
        # Choices; Optuna shows Python's quotes.
        axes.set_xticks(axes.get_xticks(), [text.get_text().strip("'") for text in axes.get_xticklabels()])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=all(isinstance(value, int) for value in values)))


def _plain_log(axis: Any, values: list[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatterSciNotation, NullFormatter, NullLocator

    ticks = log_ticks(values)
    decades = len(ticks) > 3 or all(math.log10(tick).is_integer() for tick in ticks)
    axis.set_major_formatter(LogFormatterSciNotation() if decades else FuncFormatter(lambda value, _: f"{value:.2g}"))
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _colours(low: str, high: str) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("l3d", [low, high])


def _pixels(figure: Any) -> NDArray[np.uint8]:
    figure.set_facecolor("white")
    figure.set_dpi(_DPI)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()


def _save(pictures: list[NDArray[np.uint8]], path: Path) -> None:
    from matplotlib.image import imsave

    width = max(picture.shape[1] for picture in pictures)
    padded = [
        np.pad(picture, ((0, 0), (0, width - picture.shape[1]), (0, 0)), constant_values=255) for picture in pictures
    ]
    imsave(path, np.concatenate(padded), dpi=_DPI, metadata={"Software": None})  # type: ignore[dict-item]

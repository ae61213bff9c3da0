"""How the figures of the paper look, and how they become files; nothing here touches pyplot."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"
"""Types of figures and their parts; matplotlib itself is loaded with the first figure."""

WIDTH: Final = 7.6
"""Width of every figure, in inches."""
_DPI: Final = 150
INK: Final = "#1f2430"
MUTED: Final = "#5b6472"
GRID: Final = "#d9dee6"

_SETTINGS: Final[Any] = {
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.formatter.useoffset": False,
    "hatch.linewidth": 0.7,
}
"""What differs from matplotlib's own settings; those of the user have no effect."""


TITLE: Final[Any] = {"color": INK, "fontsize": 10, "fontweight": "bold", "loc": "left", "parse_math": False}
"""How the title of axes is written."""
LABEL: Final[Any] = {"color": MUTED, "fontsize": 9, "parse_math": False}
"""How axes are labelled; no text is read as mathematics."""


@contextmanager
def _saving(figure: Figure) -> Iterator[None]:
    """Lay a figure out, once for all its files, and give the context in which it is saved."""
    # A name in a script that the font lacks is no fault of the user's: boxes in a PNG, right in a browser.
    with settings(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)
        yield


def settings() -> Any:
    """Return the context in which figures are made and saved; it leaves matplotlib's settings as they were."""
    import matplotlib.style

    return matplotlib.style.context(["default", _SETTINGS])


def new_figure(height: float) -> Figure:
    """Return an empty figure of the common width and `height` inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), dpi=_DPI, layout="constrained", facecolor="white")


@contextmanager
def panels(height: float, rows: int = 1, columns: int = 1, **how: Any) -> Iterator[tuple[Figure, list[Axes]]]:
    """Give a new figure and its axes, to be drawn in within :func:`settings`; `how` as in ``Figure.subplots``."""
    with settings():
        figure = new_figure(height)
        yield figure, list(figure.subplots(rows, columns, squeeze=False, **how).flat)


def dress(axes: Axes, *, x: str = "", y: str = "", title: str = "", grid: Literal["x", "y", "both", ""] = "") -> None:
    """Give axes their labels, quiet spines and, along `grid`, thin lines."""
    axes.set_xlabel(x, **LABEL)
    axes.set_ylabel(y, **LABEL)
    if title:
        axes.set_title(title, **TITLE)
    axes.set_facecolor("none")
    axes.tick_params(which="both", colors=GRID, labelcolor=INK, labelsize=8.5, length=3)
    axes.tick_params(which="minor", length=2)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GRID)
    if grid:
        axes.grid(axis=grid, color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)


def save_png(figure: Figure, path: str | Path, dpi: int = _DPI) -> None:
    """Write a figure as PNG: the same bytes for the same figure, and no metadata of machine, user or time."""
    with _saving(figure):
        figure.savefig(path, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})

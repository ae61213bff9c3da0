"""How every figure looks, and how it becomes a file; nothing here touches pyplot."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.intervals import FloatArray

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import matplotlib.image

Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"
AxesImage: TypeAlias = "matplotlib.image.AxesImage"
"""Types of figures and their parts; matplotlib itself is loaded with the first figure."""

WIDTH: Final = 7.6
"""Width of every figure, in inches."""
_DPI: Final = 150
INK: Final = "#1f2430"
MUTED: Final = "#5b6472"
GRID: Final = "#d9dee6"
ABSENT: Final = "#e6e9ef"
BLUE: Final = "#0072b2"
"""Okabe and Ito's palette, which stays distinct under the common forms of colour blindness."""
ORANGE: Final = "#d55e00"
GREY: Final = "#9aa3b0"

THEME: Final = {INK: "ink", MUTED: "muted", GRID: "grid", ABSENT: "absent", BLUE: "blue", ORANGE: "orange"}
"""Colours that follow the light or dark page where a figure stands inline: the names of its variables."""

_SETTINGS: Final[Any] = {
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.formatter.useoffset": False,
    "hatch.linewidth": 0.7,
    "svg.fonttype": "none",
    "svg.hashsalt": "l3d",
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


def draw_matrix(axes: Axes, values: FloatArray, colours: str | tuple[str, str], low: float, high: float) -> AxesImage:
    """Draw a table of numbers as colours: a colour map, or two ends with white between; missing values are hatched."""
    from matplotlib.colors import LinearSegmentedColormap

    dress(axes)
    axes.patch.set_facecolor(ABSENT)
    if not np.isfinite(values).all():
        axes.patch.set(hatch="/////", edgecolor=GREY, linewidth=0.0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    shown: Any = colours
    if not isinstance(colours, str):
        shown = LinearSegmentedColormap.from_list("l3d", [colours[0], "#ffffff", colours[1]])
    return axes.imshow(
        np.ma.masked_invalid(values), cmap=shown, vmin=low, vmax=high, aspect="auto", interpolation="none"
    )


def write_cells(
    axes: Axes, values: FloatArray, text: Callable[[float], str], dark: npt.NDArray[np.bool_], size: float = 8.0
) -> None:
    """Write the numbers into :func:`draw_matrix`, in white where its colour is `dark`."""
    for place, value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "#ffffff" if dark[place] else "#10141c"
            axes.text(place[1], place[0], text(value), ha="center", va="center", fontsize=size, color=colour)


def colour_bar(figure: Figure, image: AxesImage, axes: Sequence[Axes], label: str, **more: Any) -> None:
    """Draw what the colours of :func:`draw_matrix` mean; `more` as in ``Figure.colorbar``."""
    if np.ma.is_masked(image.get_array()):
        label += "   hatched: no score"
    bar = figure.colorbar(image, ax=list(axes), location="right", fraction=0.03, pad=0.015, **more)
    bar.set_label(label, **LABEL)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=GRID, labelcolor=INK, labelsize=8)


def save_png(figure: Figure, path: str | Path, dpi: int = _DPI) -> None:
    """Write a figure as PNG: the same bytes for the same figure, and no metadata of machine, user or time."""
    with _saving(figure):
        figure.savefig(path, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})


def to_svg(figure: Figure, name: str) -> str:
    """Return a figure as an ``<svg>`` element for an HTML page.

    It follows the page's colours and font, is described by nothing but its picture, refers to nothing outside itself,
    and its ids start with `name` (letters, digits, ``-``), so that several figures fit on one page.
    """
    buffer = io.StringIO()
    with _saving(figure):
        anonymous = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=anonymous)
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    opening, rest = text[text.index("<svg") :].strip().split(">", 1)
    opening = re.sub(r'\s(?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", opening)
    rest = re.sub(r'(\sid="|url\(#|xlink:href="#)', rf"\g<1>{name}-", rest)
    for colour, variable in THEME.items():
        rest = rest.replace(colour, f"var(--{variable})")
    return f"{opening}>{rest}"

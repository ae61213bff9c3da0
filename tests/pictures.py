"""Empty pictures: drawing takes most of the time of a small study, and few tests look at what was drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

SVG = '<svg viewBox="0 0 1 1"></svg>'
PNG = b"\x89PNG\r\n\x1a\n"
DRAWN = (
    "report/test_figures.py",
    "report/test_report_designs.py",
    "test_docs.py",
)
"""Tests that look at pictures."""


def blank(put: Callable[[object, str, Any], None] = setattr) -> None:
    """Let studies make no figures, and write empty pictures; `put` sets an attribute of a module or class."""
    from markupsafe import Markup

    from mlflow_l3d.report import style
    from mlflow_l3d.report.page import Picture

    put(Picture, "svg", Markup(SVG))
    put(Picture, "save", lambda picture, folder: (folder / f"{picture.stem}.png").write_bytes(PNG))
    put(style, "save_png", lambda _, path: Path(path).write_bytes(PNG))

"""Empty pictures: drawing takes most of the time of a small study, and few tests look at what was drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

SVG = '<svg viewBox="0 0 1 1"></svg>'
PNG = b"\x89PNG\r\n\x1a\n"


def blank(put: Callable[[object, str, Any], None] = setattr) -> None:
    """Let studies make no figures, and write empty pictures; `put` sets an attribute of a module."""
    from mlflow_l3d.report import page, style
    from mlflow_l3d.report.comparison import figures as of_a_comparison
    from mlflow_l3d.report.investigation import figures as of_an_investigation
    from mlflow_l3d.report.investigation import page as page_of_an_investigation
    from mlflow_l3d.report.seeds import figures as of_seeds
    from mlflow_l3d.report.seeds import page as page_of_seeds
    from mlflow_l3d.report.sweep import figures as of_a_sweep
    from mlflow_l3d.studies.gate import record as of_a_gate
    from mlflow_l3d.studies.search.report import figures as of_a_search

    put(page, "to_svg", lambda *_: SVG)
    for module in (style, of_a_gate):
        put(module, "save_png", lambda _, path: Path(path).write_bytes(PNG))
    made = {
        of_an_investigation: ("importance_bars", "golden_distribution", "convergence"),
        page_of_an_investigation: ("heatmap",),
        of_a_search: ("importance_bars", "history", "slices"),
        of_a_comparison: ("difference_figure", "score_figure"),
        of_a_gate: ("gate_figure",),
        of_a_sweep: ("heatmap", "trends", "golden_stds"),
        of_seeds: ("seed_figure", "seed_heatmap", "size_figure"),
        page_of_seeds: ("seed_heatmap", "size_figure"),
    }
    for module, names in made.items():
        for name in names:
            put(module, name, lambda *_, **__: None)

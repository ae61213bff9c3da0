"""A sweep in the terminal."""

from __future__ import annotations

from mlflow_l3d.analysis.sweep.results import Sweep
from mlflow_l3d.report.sweep.shown import ShownSweep
from mlflow_l3d.report.sweep.tables import score_table
from mlflow_l3d.report.sweep.words import answers, interaction_sentence, trend_sentence, watch
from mlflow_l3d.report.table import Part, document
from mlflow_l3d.report.text import heading


def summary(sweep: Sweep, *, title: str) -> str:
    """Return a sweep as text: answers, importance of every point, trends, what choices move, what to watch."""
    shown = ShownSweep(sweep)
    said = [f"{answer.question} {answer.short}. {' '.join(answer.sentences)}" for answer in answers(shown)]
    parts: list[Part] = [*said, score_table(shown)]
    for name, sentences in (
        ("Trends", [trend_sentence(shown, one) for one in sweep.trends]),
        ("What choices move", [interaction_sentence(shown, one) for one in sweep.interactions]),
        ("What to watch", watch(shown)),
    ):
        if sentences:
            parts += [["", *heading(name, "-")], *sentences]
    return document(title, (), parts)

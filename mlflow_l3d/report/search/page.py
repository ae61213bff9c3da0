"""What a search found: as text, and as ``search.html``, one page that needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.report.numbers import counted, duration, share_text, shorten, unit_of, value_text
from mlflow_l3d.report.page import Picture, Section, page
from mlflow_l3d.report.search import figures as draw
from mlflow_l3d.report.search.tables import setting_table, stage_table, trial_table
from mlflow_l3d.report.search.words import bias_sentence, held_out_sentence, search_answers, validation_sentence
from mlflow_l3d.report.table import Part, Table, document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TRIALS: Final = 300
"""Rows of the table of trials; the artifact of all trials has the others."""

_PICTURES: Final = {
    "importances": (
        "Importance of the hyperparameters",
        "Share of the variance of the score over the coarse space that each one alone accounts for (fANOVA).",
    ),
    "history": (
        "How the score rose",
        "One point a complete trial, in the order of the trials; the line is the best so far. Both levels have one "
        "scale.",
    ),
    "slice": (
        "Score by hyperparameter",
        "Each complete trial stands once in every panel; a stronger blue is a later trial.",
    ),
}


def render(result: SearchResult, figures: Mapping[str, Figure], *, settings: Mapping[str, str]) -> str:
    """Return the page of a search.

    Parameters
    ----------
    result
        What was found.
    figures
        What :func:`drawn` returned.
    settings
        As in :func:`mlflow_l3d.report.page.page`.
    """
    others = ", ".join(
        f"{name} = {shorten(value_text(value), 200)}"
        for name, value in result.best.items()
        if name not in result.searched
    )
    table = setting_table(result, "searched at level {number} ({name})")
    found: list[str | Table] = [replace(table, note=f"Not searched: {others}." if others else "")]
    if result.run_id:
        command = Markup("Use it in an investigation: <code>-P hyperparameters={}</code>")
        found.append(command.format(result.run_id))
    pictures = {kind: (*_PICTURES[kind], figure) for kind, figure in figures.items()}
    sections = [
        Section("The found setting", found),
        Section("The levels", [stage_table(result)]),
        *[Section(head, [Picture.of(figure, kind, head, text)]) for kind, (head, text, figure) in pictures.items()],
        Section("Trials, best first", [trial_table(result, MOST_TRIALS)]),
    ]
    took = (
        f"{counted(result.trials_run, 'trial')} in {duration(result.seconds)}, each trained on "
        f"{counted(result.configurations, 'configuration')} and scored by {result.metric} on "
        f"{counted(result.validation_examples, 'validation example')}. Scores are {unit_of(result.metric).name}."
    )
    return page(
        result.title, notes=[took, *result.notes], answers=search_answers(result), sections=sections, settings=settings
    )


def drawn(result: SearchResult) -> dict[str, Figure]:
    """Return the figures that have something to show, by kind, in the order of the page."""
    made = {}
    if result.importances:
        made["importances"] = draw.importance_bars(result)
    if draw.complete(result):
        made["history"] = draw.history(result)
    if draw.varied(result):
        made["slice"] = draw.slices(result)
    return made


def summary(result: SearchResult, *, lines: Sequence[str] = ()) -> str:
    """Return what a search found as text.

    Parameters
    ----------
    result
        What was found.
    lines
        Printed below the title: the task, where to find the runs.

    Returns
    -------
    str
        Lines of at most 100 characters (a word of `lines` that is longer stays whole, so that paths and addresses can
        be copied): title, `lines`, one row a level, one row a searched hyperparameter, the gain, the importances, the
        notes, and how to use what was found.
    """
    took = f"{counted(result.trials_run, 'trial')} in {duration(result.seconds)}, scored by {result.metric}"
    parts: list[Part] = [stage_table(result), setting_table(result, "range at level {number}"), [""]]
    if result.importances:
        shares = ", ".join(f"{name} {share_text(share)}" for name, share in result.importances.items())
        parts.append(f"Share of the variance of the score at level 1: {shares}.")
    parts.append(f"validation: {validation_sentence(result)} {bias_sentence(result)}")
    parts.append(f"held out: {held_out_sentence(result)}")
    parts += [f"note: {note}" for note in result.notes]
    if result.run_id:
        parts.append(["", f"Use it: -P hyperparameters={result.run_id}"])
    return document(result.title, [*lines, f"{took} ({unit_of(result.metric).noun})."], parts)

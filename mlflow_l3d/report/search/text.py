"""The text at the end of a search."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.report.numbers import counted, duration, share_text, unit_of
from mlflow_l3d.report.search.tables import setting_table, stage_table
from mlflow_l3d.report.search.words import bias_sentence, held_out_sentence, validation_sentence
from mlflow_l3d.report.table import Part, document


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

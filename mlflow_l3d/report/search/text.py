"""The text at the end of a search."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.report.numbers import counted, duration, share_text
from mlflow_l3d.report.search.tables import setting_table, stage_table
from mlflow_l3d.report.search.words import bias_sentence, held_out_sentence, validation_sentence
from mlflow_l3d.report.text import document, heading, wrap


def summary(result: SearchResult, *, lines: Sequence[str] = ()) -> str:
    """Return what a search found as text.

    Parameters
    ----------
    result
        Scores in fractions (0..1), shown in percentage points.
    lines
        Printed below the title: the task, where to find the runs.

    Returns
    -------
    str
        Lines of at most 100 characters (a word of `lines` that is longer stays whole, so that paths and addresses can
        be copied): title, `lines`, one row a level, one row a searched hyperparameter, the gain, the importances, the
        notes, and how to use what was found.
    """
    took = f"{counted(result.trials_run, 'trial')} in {duration(result.seconds)}, scored by {result.metric} (points)."
    blocks = [*heading(result.title), *[part for line in lines for part in wrap(line, split_words=False)], *wrap(took)]
    blocks += ["", *stage_table(result).lines(), "", *setting_table(result, "range at level {number}").lines(), ""]
    if result.importances:
        shares = ", ".join(f"{name} {share_text(share)}" for name, share in result.importances.items())
        blocks += wrap(f"Share of the variance of the score at level 1: {shares}.", "    ")
    blocks += wrap(f"validation: {validation_sentence(result)} {bias_sentence(result)}", "    ")
    blocks += wrap(f"held out: {held_out_sentence(result)}", "    ")
    for note in result.notes:
        blocks += wrap(f"note: {note}", "    ")
    if result.run_id:
        blocks += ["", *wrap(f"Use it: -P hyperparameters={result.run_id}", split_words=False)]
    return document(blocks)

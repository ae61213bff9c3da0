"""The examples of a task as model inputs: every kind of task is rows of tokens, one or several an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlflow_l3d.approaches.encoder.tokens import Tokens, tokenise
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task

LONGER_THAN_ANY = 10**6


def inputs_of(task: Task, tokenizer: Any, max_length: int, *, truncation: bool, decoder: bool) -> Tokens:
    """Tokenise a task, once for all cells.

    Parameters
    ----------
    task
        One or two text columns. Of a multiple choice each example becomes a pair a choice: what the choices have in
        common, and the choice (Zhou et al. 2025, appendix A.2).
    tokenizer
        Of `transformers`.
    max_length
        Most tokens of a row.
    truncation
        Whether longer rows are cut; of a pair, the longer text first.
    decoder
        Nothing but token numbers is kept; and a line break stands between the texts of a pair if the tokenizer puts
        nothing there.

    Raises
    ------
    ParameterError
        If rows are longer than allowed and may not be cut.
    """
    columns = columns_of(task, " " if tokenizer.sep_token is None else f" {tokenizer.sep_token} ")
    if decoder and len(columns) == 2 and _glued(tokenizer):
        columns = (columns[0], tuple(f"\n{text}" for text in columns[1]))
    tokens = tokenise(tokenizer, columns, max_length if truncation else LONGER_THAN_ANY)
    longer = int((tokens.lengths > max_length).sum())
    if longer:
        longest = f"(the longest has {int(tokens.lengths.max())} tokens)"
        allowed = f"{longer} of {len(tokens.lengths)} sequences are longer than max_length={max_length} {longest}"
        raise ParameterError("hyperparameters.truncation", "false", allowed, "Raise max_length, or let them be cut.")
    names = ["input_ids"] if decoder else list(tokens.columns)
    chosen = {name: tokens.columns[name] for name in names}
    return Tokens(chosen, tokens.starts, tokens.padding, len(task.choices) or 1)


def columns_of(task: Task, separator: str) -> tuple[Sequence[str], ...]:
    """Return the text columns of all rows: one, or two of pairs.

    Of a multiple choice the columns that the choices have in common are joined by `separator`.
    """
    if task.kind != "multiple_choice":
        return task.texts
    common = [separator.join(parts) for parts in zip(*task.texts, strict=True)]
    choices = len(task.choices)
    return (
        [text for text in common for _ in range(choices)],
        [text for row in zip(*task.choices, strict=True) for text in row],
    )


def _glued(tokenizer: Any) -> bool:
    """Return whether nothing stands between the texts of a pair."""
    columns = tokenizer("a", "b").sequence_ids()
    first, second = len(columns) - 1 - columns[::-1].index(0), columns.index(1)
    return bool(second == first + 1)

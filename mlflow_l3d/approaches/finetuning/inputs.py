"""The examples of a task as model inputs: every kind of task is rows of tokens, one or several an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlflow_l3d.approaches.encoder.tokens import Tokens, tokenise
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

if TYPE_CHECKING:
    import torch

LONGER_THAN_ANY = 10**6


class Inputs:
    """Tokenised examples.

    Parameters
    ----------
    tokens
        One row a text; the rows of an example follow each other.
    rows
        How many an example has: 1, or the number of its choices.

    Attributes
    ----------
    lengths
        Shape (n,): tokens of the longest row of each example.
    """

    def __init__(self, tokens: Tokens, rows: int) -> None:
        self.tokens, self.rows = tokens, rows
        self.lengths: IntArray = tokens.lengths.reshape(-1, rows).max(1)

    def batch(self, positions: IntArray, device: str) -> dict[str, torch.Tensor]:
        """Return the model's inputs, padded on the right: shape (b, longest), or (b, choices, longest)."""
        if self.rows == 1:
            return self.tokens.batch(positions, device)
        found = self.tokens.batch(self._rows_of(positions), device)
        return {name: tensor.view(len(positions), self.rows, -1) for name, tensor in found.items()}

    def by_length(self, positions: IntArray, size: int) -> list[IntArray]:
        """Cut examples into batches of like length, the longest first; return indices *into* `positions`."""
        order = np.argsort(-self.lengths[positions], kind="stable")
        return [order[start : start + size] for start in range(0, len(order), size)]

    def vocabulary(self, positions: IntArray) -> IntArray:
        """Return the sorted numbers of all tokens that some examples have, and of padding."""
        starts, ids = self.tokens.starts, self.tokens.columns["input_ids"]
        found = [ids[starts[row] : starts[row + 1]] for row in self._rows_of(positions)]
        return np.unique(np.concatenate([*found, [self.tokens.padding["input_ids"]]])).astype(np.int64)

    def _rows_of(self, positions: IntArray) -> IntArray:
        return (positions[:, None] * self.rows + np.arange(self.rows)).ravel()


def inputs_of(task: Task, tokenizer: Any, max_length: int, *, truncation: bool, decoder: bool) -> Inputs:
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
        Nothing but token numbers is kept; and a line break stands between the texts of a pair where the tokenizer puts
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
        allowed = (
            f"{longer} of {len(tokens.lengths)} sequences are longer than max_length={max_length} "
            f"(the longest has {int(tokens.lengths.max())} tokens)"
        )
        raise ParameterError("hyperparameters.truncation", "false", allowed, "Raise max_length, or let them be cut.")
    if decoder:
        tokens = Tokens({"input_ids": tokens.columns["input_ids"]}, tokens.starts, tokens.padding)
    return Inputs(tokens, len(task.choices) or 1)


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

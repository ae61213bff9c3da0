"""Texts as token numbers: tokenised once, padded batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

CHUNK = 10_000
LONGER_THAN_ANY = 10**6


class Tokens:
    """Token numbers of n examples, without padding.

    Parameters
    ----------
    columns
        Name of a model input (``input_ids``, ``token_type_ids``) -> the numbers of all rows one after another.
    starts
        Where each row begins in them, and where the last one ends; the rows of an example follow each other.
    padding
        Name -> number that fills a row up.
    is_cut
        Shape (n * rows,): whether a row had more tokens than were kept.
    rows
        How many an example has: 1, or the number of its choices.

    Attributes
    ----------
    lengths
        Shape (n,): tokens of the longest row of each example.
    truncated_share
        Share of the examples with a row that is cut.
    """

    def __init__(
        self,
        columns: dict[str, npt.NDArray[np.int32]],
        starts: IntArray,
        padding: dict[str, int],
        is_cut: npt.NDArray[np.bool_],
        rows: int = 1,
    ) -> None:
        self.columns, self.starts, self.padding, self.is_cut, self.rows = columns, starts, padding, is_cut, rows
        self.truncated_share = float(is_cut.reshape(-1, rows).any(1).mean())
        self.lengths: IntArray = np.diff(starts).reshape(-1, rows).max(1)

    def batch(self, positions: IntArray, device: str) -> dict[str, torch.Tensor]:
        """Return the model's inputs, padded on the right: shape (b, longest), or (b, rows, longest) if several."""
        # One copy to the device, whatever the number of inputs.
        return self.named(self.stacked(positions).to(device))

    def named(self, stacked: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return what :meth:`stacked` returns as the model takes it."""
        return dict(zip(("attention_mask", *self.columns), stacked.unbind(), strict=True))

    def stacked(self, positions: IntArray, width: int = 0) -> torch.Tensor:
        """Return the model's inputs, one below the other, padded to the longest or to a `width` that none exceeds."""
        rows = (positions[:, None] * self.rows + np.arange(self.rows)).ravel()
        spans = [np.arange(self.starts[row], self.starts[row + 1]) for row in rows]
        lengths = np.array([len(span) for span in spans])
        inside = np.arange(width or int(lengths.max())) < lengths[:, None]
        shape = inside.shape if self.rows == 1 else (len(positions), self.rows, inside.shape[1])
        places = np.concatenate(spans)
        stacked = np.empty((1 + len(self.columns), *inside.shape), dtype=np.int64)
        stacked[0] = inside
        for column, name in zip(stacked[1:], self.columns, strict=True):
            column[:] = self.padding[name]
            column[inside] = self.columns[name][places]
        return torch.from_numpy(stacked).view(-1, *shape)

    def by_length(self, positions: IntArray, size: int) -> list[IntArray]:
        """Cut examples into batches of like length, the longest first; return indices *into* `positions`."""
        return batches(np.argsort(-self.lengths[positions], kind="stable"), size)


def batches(order: IntArray, size: int) -> list[IntArray]:
    """Cut an order into batches; the last one may be smaller."""
    return [order[start : start + size] for start in range(0, len(order), size)]


def tokenise(tokenizer: Any, texts: Sequence[Sequence[str]], max_length: int) -> Tokens:
    """Tokenise one text column, or two as pairs (the longer text of a pair is cut first).

    Parameters
    ----------
    tokenizer
        Of `transformers`.
    texts
        One or two columns of n texts.
    max_length
        Most tokens of an example, those that mark its beginning and end included.
    """
    parts: dict[str, list[npt.NDArray[np.int32]]] = {}
    lengths: list[int] = []
    is_cut: list[bool] = []
    for start in range(0, len(texts[0]), CHUNK):
        columns = [list(column[start : start + CHUNK]) for column in texts]
        encoded = tokenizer(*columns, truncation=True, max_length=max_length, return_attention_mask=False)
        lengths += map(len, encoded["input_ids"])
        is_cut += _are_cut(tokenizer, columns, encoded, max_length)
        for name, rows in encoded.items():
            parts.setdefault(name, []).append(np.concatenate([np.asarray(row, dtype=np.int32) for row in rows]))
    padding = {name: tokenizer.pad_token_id if name == "input_ids" else 0 for name in parts}
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Tokens({name: np.concatenate(rows) for name, rows in parts.items()}, starts, padding, np.array(is_cut))


def _are_cut(tokenizer: Any, columns: Sequence[Sequence[str]], encoded: Any, max_length: int) -> list[bool]:
    """Return whether each row had more tokens than `max_length`; a fast tokenizer keeps the rest of a cut row."""
    if encoded.encodings is not None:
        is_full = (len(row) == max_length for row in encoded["input_ids"])
        return [full and bool(row.overflowing) for full, row in zip(is_full, encoded.encodings, strict=True)]
    whole = tokenizer(*columns, truncation=True, max_length=LONGER_THAN_ANY, return_attention_mask=False)
    return [len(row) > max_length for row in whole["input_ids"]]


def check_length(max_length: int, tokenizer: Any, config: Any) -> None:
    """Raise :class:`ParameterError` if the model takes fewer tokens than `max_length`."""
    limits = [tokenizer.model_max_length, getattr(config.get_text_config(), "max_position_embeddings", None)]
    limit = min(int(number) for number in limits if number)
    if limit < 1:
        allowed = "names no largest number of tokens; such models (XLNet) expect padding before a text, not after it"
        raise ParameterError("model", config.model_type, allowed, "Use another encoder, such as BERT or RoBERTa.")
    if max_length > limit:
        raise ParameterError("hyperparameters.max_length", max_length, f"the model takes at most {limit} tokens")


def inputs_of(task: Task, tokenizer: Any, max_length: int, truncation: bool, *, decoder: bool) -> Tokens:
    """Tokenise a task, once for all cells.

    Parameters
    ----------
    task
        One or two text columns. Of a multiple choice each example becomes a pair a choice: what the choices have in
        common, and the choice (Zhou et al. 2025, appendix A.2).
    tokenizer
        Of `transformers`.
    max_length, truncation
        Most tokens of a row, and whether longer rows are cut; of a pair, the longer text first.
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
    if longer := int((tokens.lengths > max_length).sum()):
        longest = f"max_length={max_length} (the longest has {int(tokens.lengths.max())} tokens)"
        allowed = f"{longer} of {len(tokens.lengths)} sequences are longer than {longest}"
        raise ParameterError("hyperparameters.truncation", "false", allowed, "Raise max_length, or let them be cut.")
    chosen = {"input_ids": tokens.columns["input_ids"]} if decoder else tokens.columns
    return Tokens(chosen, tokens.starts, tokens.padding, tokens.is_cut, len(task.choices) or 1)


def columns_of(task: Task, separator: str) -> tuple[Sequence[str], ...]:
    """Return the text columns of all rows: one, or two of pairs.

    Of a multiple choice the columns that the choices have in common are joined by `separator`.
    """
    if not task.form.has_choices:
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

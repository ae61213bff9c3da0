"""Many texts in one row: they see a shared prefix and themselves, not each other, and nothing is padded."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.icl.engine.trie import AnswerTrie

SHARED = -1


@dataclass
class Row:
    """The keys and values of one row of tokens, and whose they are.

    Attributes
    ----------
    cache
        Keys and values of every layer, (1, heads, K, size).
    owners
        (K,) number of the text that a key belongs to; every text sees what is `SHARED`.
    positions
        (K,) position of a key in its text, the prefix included.
    """

    cache: Any
    owners: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]

    def branch(self) -> Row:
        """Return a row that starts with these keys and grows by itself; the keys are not copied."""
        cache = copy.copy(self.cache)
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        return Row(cache, self.owners, self.positions)


def empty_row() -> Row:
    """Return a row without keys, full-length in every layer: windows are a matter of the mask here."""
    from transformers import DynamicCache

    nothing = np.zeros(0, dtype=np.int64)
    return Row(DynamicCache(), nothing, nothing)


class PackedModel:
    """Runs a causal model on packed rows.

    Parameters
    ----------
    model
        A causal `transformers` model that takes a four-dimensional attention mask and explicit positions.
    window
        Sliding window of every layer, None where a token sees all that came before.
    """

    def __init__(self, model: Any, window: int | None) -> None:
        self.model = model
        self.window = window
        self.device = model.device
        # A quantised model computes in a type that its parameters do not tell; masks of truth values fit any type.
        implementation = getattr(model.config, "_attn_implementation", None)
        self.additive = implementation != "sdpa" or getattr(model, "quantization_method", None) is None
        self.sliced = "logits_to_keep" in inspect.signature(model.forward).parameters

    @torch.inference_mode()
    def extend(
        self,
        row: Row,
        tokens: npt.NDArray[np.int64],
        owners: npt.NDArray[np.int64],
        positions: npt.NDArray[np.int64],
        keep: npt.NDArray[np.int64],
        local: npt.NDArray[np.bool_] | None = None,
    ) -> torch.Tensor:
        """Run N more tokens of a row, and add their keys and values to it.

        Parameters
        ----------
        row
            Changed in place.
        tokens, owners, positions
            (N,) each.
        keep
            Which of the N tokens the distribution is wanted behind, (M,).
        local
            (N, N) whether a new token sees another new one of its own text; None where it sees all that come no later.

        Returns
        -------
        (M, vocabulary) logits in the type of the model.
        """
        seen_owners = np.concatenate([row.owners, owners])
        seen_positions = np.concatenate([row.positions, positions])
        sees = (seen_owners == SHARED) | (seen_owners == owners[:, None])
        past = len(row.owners)
        sees[:, past:] &= np.tri(len(tokens), dtype=bool) if local is None else local
        if self.window is not None:
            sees &= positions[:, None] - seen_positions < self.window
        arguments: dict[str, Any] = {"logits_to_keep": self._tensor(keep)} if self.sliced else {}
        output = self.model(
            input_ids=self._tensor(tokens)[None],
            position_ids=self._tensor(positions)[None],
            attention_mask=self._mask(sees),
            past_key_values=row.cache,
            use_cache=True,
            **arguments,
        )
        row.owners, row.positions = seen_owners, seen_positions
        logits: torch.Tensor = output.logits[0] if self.sliced else output.logits[0, self._tensor(keep)]
        return logits

    def prefix(self, tokens: Sequence[int], chunk: int) -> Row:
        """Return the row of a shared prefix, run `chunk` tokens at a time."""
        row = empty_row()
        ids = np.asarray(tokens, dtype=np.int64)
        for start in range(0, len(ids), chunk):
            part = ids[start : start + chunk]
            positions = np.arange(start, start + len(part))
            self.extend(row, part, np.full(len(part), SHARED), positions, np.asarray([len(part) - 1]))
        return row

    def rest(
        self, row: Row, texts: Sequence[Sequence[int]], trie: AnswerTrie | None = None
    ) -> tuple[torch.Tensor, npt.NDArray[np.int64]]:
        """Run the rest of each text, and below it the inner nodes of the trie.

        Parameters
        ----------
        row
            Row of the shared prefix; changed in place.
        texts
            What follows the prefix, n texts; text i is owner i from here on.
        trie
            With I inner nodes; None for none.

        Returns
        -------
        Logits (n * (1 + I), vocabulary), for each text behind its last token and then behind the nodes; and the
        positions that come next, (n,).
        """
        start = len(row.owners)
        nodes = 0 if trie is None else len(trie.tokens)
        tokens, owners, positions, keep = [], [], [], []
        blocks: list[npt.NDArray[np.bool_]] = []
        before = 0
        for number, text in enumerate(texts):
            length = len(text)
            keep.append(np.arange(before + length - 1, before + length + nodes))
            block = np.tri(length + nodes, dtype=bool)
            tokens.append(np.asarray(text, dtype=np.int64))
            positions.append(np.arange(start, start + length))
            if trie is not None and nodes:
                block[length:, length:] = trie.ancestors
                tokens.append(trie.tokens)
                positions.append(start + length - 1 + trie.depths)
            owners.append(np.full(length + nodes, number))
            blocks.append(block)
            before += len(block)
        ends = start + np.asarray([len(text) for text in texts])
        logits = self.extend(
            row,
            np.concatenate(tokens),
            np.concatenate(owners),
            np.concatenate(positions),
            np.concatenate(keep),
            _block_diagonal(blocks),
        )
        return logits, ends

    def _tensor(self, values: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def _mask(self, sees: npt.NDArray[np.bool_]) -> torch.Tensor:
        """Return (1, 1, N, K) in the form that the model's attention takes."""
        allowed = torch.from_numpy(sees).to(self.device)[None, None]
        if not self.additive:
            return allowed
        dtype = self.model.dtype
        return torch.zeros(allowed.shape, dtype=dtype, device=self.device).masked_fill_(
            ~allowed, torch.finfo(dtype).min
        )


def _block_diagonal(blocks: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    size = sum(len(block) for block in blocks)
    matrix = np.zeros((size, size), dtype=bool)
    start = 0
    for block in blocks:
        matrix[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return matrix

"""Many texts in a few rows: they see a shared prefix and themselves, not each other, and almost nothing is padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from mlflow_l3d.approaches.icl.engine.rows import SHARED, Block, Rows, lay_out
from mlflow_l3d.approaches.icl.engine.tensors import cache_argument, on_device, takes, type_of
from mlflow_l3d.approaches.icl.engine.trie import AnswerTrie

_EVEN: Final = 16
"""Kernels of GPUs want a mask whose rows begin at multiples of so many numbers; torch copies others in every layer."""

ROW_TOKENS: Final = {"cuda": 512}
"""Tokens of a row behind a longer prefix, by kind of device; others have no such bound. On an H200 behind 2,298 tokens
512 a row answer 264 texts a second in place of 223 (7B in bfloat16), and 1,261 in place of 952 (135M)."""


class PackedModel:
    """Runs a causal model on packed rows.

    Parameters
    ----------
    model
        A causal `transformers` model that takes a four-dimensional attention mask and explicit positions.
    window
        Sliding window of every layer, None if a token sees all that came before.
    """

    def __init__(self, model: Any, window: int | None) -> None:
        self.model = model
        self.window = window
        self.device = model.device
        self.row_tokens = ROW_TOKENS.get(self.device.type)
        # A quantised model computes in a type that its parameters do not tell; masks of truth values fit any type.
        implementation = getattr(model.config, "_attn_implementation", None)
        self.additive = implementation != "sdpa" or getattr(model, "quantization_method", None) is None
        self.sliced = takes(model, "logits_to_keep")
        self.cache_argument = cache_argument(model)

    @torch.inference_mode()
    def extend(self, rows: Rows, block: Block, keep: int, trie: AnswerTrie | None = None) -> torch.Tensor:
        """Run N more tokens of each row, and add their keys and values to it.

        Parameters
        ----------
        rows
            R rows, changed in place.
        block
            The tokens of all rows.
        keep
            The distribution is wanted behind so many tokens at the end of each row.
        trie
            The trie whose inner nodes tokens are; None if all are tokens of texts.

        Returns
        -------
        (R, keep, vocabulary) logits in the type of the model.
        """
        owners = np.concatenate([rows.owners, block.owners], axis=1)
        positions = np.concatenate([rows.positions, block.positions], axis=1)
        above = np.zeros((0, 0)) if trie is None else np.pad(trie.ancestors, (0, 1))
        ids, nodes, whose, where, tree = on_device(self.device, block.tokens, block.nodes, owners, positions, above)
        width = block.tokens.shape[1]
        # Numbers of places: a slice of the last ones is no matrix, so that the head's weights are copied for each row.
        places = torch.arange(width - keep, width, device=self.device)
        arguments = {self.cache_argument: rows.cache, **({"logits_to_keep": places} if self.sliced else {})}
        # Where a text begins, models mask by themselves, and torch may take kernels that know no mask but that one.
        begins = not rows.tokens and bool((block.owners == SHARED).all())
        mask = None if begins else self._mask(self._sees(whose, where, nodes, tree.bool()))
        output = self.model(
            input_ids=ids, position_ids=where[:, -width:], attention_mask=mask, use_cache=True, **arguments
        )
        rows.owners, rows.positions = owners, positions
        logits: torch.Tensor = output.logits[:, -keep:]
        return logits

    def prefix(self, tokens: Sequence[int], chunk: int) -> Rows:
        """Return the row of a shared prefix, run `chunk` tokens at a time."""
        row = Rows.empty()
        ids = np.asarray(tokens, dtype=np.int64)[None]
        for start in range(0, len(tokens), chunk):
            part = ids[:, start : start + chunk]
            positions = np.arange(start, start + part.shape[1])[None]
            none = np.full(part.shape, -1)
            self.extend(row, Block(part, np.full(part.shape, SHARED), positions, none, none), 1)
        return row

    def rest(self, prefix: Rows, texts: Sequence[Sequence[int]], trie: AnswerTrie, *, most: int) -> torch.Tensor:
        """Run the rest of each text behind a prefix, and below it the inner nodes of the trie.

        Parameters
        ----------
        prefix
            The row of the shared prefix.
        texts
            What follows the prefix, n texts.
        trie
            With I inner nodes.
        most
            Most tokens of a row.

        Returns
        -------
        Logits (n, 1 + I, vocabulary), for each text behind its last token and then behind the nodes.
        """
        block = lay_out(texts, trie, prefix.tokens, most, row_tokens=self.row_tokens)
        rows = prefix.branch(len(block.tokens))
        each = 1 + len(trie.tokens)
        logits = self.extend(rows, block, block.texts.shape[1] * each, trie)
        # Empty slots, numbered -1, come first.
        order = np.argsort(block.texts.ravel(), kind="stable")[-len(texts) :]
        return logits.reshape(block.texts.size, each, -1)[on_device(self.device, order)[0]]

    def _sees(
        self, owners: torch.Tensor, positions: torch.Tensor, nodes: torch.Tensor, above: torch.Tensor
    ) -> torch.Tensor:
        """Return (R, N, K) whether a new token sees a key: the prefix and what came before it in its own text.

        Owners and positions equal those of all keys, (R, K), nodes those of the new tokens, (R, N); `above` says which
        nodes lie on the way to which, and has an empty last row for tokens of texts, numbered -1.
        """
        past = owners.shape[1] - nodes.shape[1]
        whose, text_of_token = owners[:, None], owners[:, past:, None]
        where, here = positions[:, None], positions[:, past:, None]
        sees = (whose == SHARED) | (whose == text_of_token)
        local = where[..., past:] <= here
        if len(above) > 1:
            local = torch.where(nodes[:, None] < 0, local, above[nodes[..., None], nodes[:, None]])
        sees[..., past:] &= local
        if self.window is not None:
            sees &= here - where < self.window
        return sees

    def _mask(self, sees: torch.Tensor) -> torch.Tensor:
        """Return (R, 1, N, K) in the form that the attention takes."""
        allowed = sees[:, None]
        if not self.additive:
            return allowed
        keys = allowed.shape[-1]
        room = keys if self.device.type == "cpu" else -(-keys // _EVEN) * _EVEN
        mask = torch.zeros(*allowed.shape[:-1], room, dtype=type_of(self.model), device=self.device)[..., :keys]
        return mask.masked_fill_(~allowed, torch.finfo(mask.dtype).min)

"""Many texts in a few rows: they see a shared prefix and themselves, not each other, and almost nothing is padded.

Whether a causal model can run such rows, its configuration says, and a trial with a few tokens.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch

from mlflow_l3d.approaches.failures import check_device, is_out_of_memory, one_line
from mlflow_l3d.approaches.icl.engine.reading import AnswerTrie, build_trie, cache_argument, on_device, takes, type_of
from mlflow_l3d.approaches.icl.engine.rows import SHARED, Block, Rows, lay_out

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
        arguments |= {"input_ids": ids, "position_ids": where[:, -width:], "attention_mask": mask, "use_cache": True}
        logits: torch.Tensor = self.model(**arguments).logits
        rows.owners, rows.positions = owners, positions
        return logits[:, -keep:]

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


_log = logging.getLogger(__name__)
# Tokens of the sliding window of a trial.
_NARROW = 2


def layer_window(config: Any, longest: int) -> tuple[bool, int | None]:
    """Return whether packing is right for texts of up to `longest` tokens, and the sliding window of every layer.

    A mask can carry one window for all layers. If only some layers have a window, packing is right as long as no
    text is longer than it. Layers of other kinds (chunked, linear, recurrent) do not look through the mask at all. Some
    positions (``longrope``, ``dynamic``) are turned by other angles once the longest text of a call has a certain
    length, so that keys that are kept would not fit.
    """
    text = config.get_text_config(decoder=True)
    kinds = set(getattr(text, "layer_types", None) or ())
    is_local = "local" in (getattr(text, "attention_layers", None) or ())
    if longest > _turned_alike(text) or is_local or kinds - {"full_attention", "sliding_attention"}:
        return False, None
    window = getattr(text, "sliding_window", None)
    if window is None or kinds == {"full_attention"} or longest <= window:
        return True, None
    return len(kinds) < 2, int(window)


def _turned_alike(text: Any) -> float:
    """Return the most tokens of texts whose positions are all turned by the same angles."""
    rotary = getattr(text, "rope_parameters", None) or {}
    each = [one for one in (rotary, *rotary.values()) if isinstance(one, Mapping)]  # one for all layers, or by kind
    moving = [one for one in each if one.get("rope_type") in ("dynamic", "longrope")]
    limits = (one.get("original_max_position_embeddings") or text.max_position_embeddings for one in moving)
    return min(limits, default=math.inf)


def runs_packed(model: Any, *, windowed: bool = False) -> bool:
    """Return whether a model runs packed rows, also if texts are longer than its sliding window (`windowed`).

    A trial tells, and if it does not a line says why.
    """
    text = model.config.get_text_config(decoder=True)
    usual_window = getattr(text, "sliding_window", None)
    if windowed:  # some ignore what they are given
        text.sliding_window = _NARROW
    try:
        why = _fault(model, _NARROW if windowed else None)
    finally:
        if windowed:
            text.sliding_window = usual_window
    if why is not None:
        what = "The model is run in full for every prompt, which takes several times as long as packed rows: %s"
        _log.warning(what, why)
    return why is None


def _fault(model: Any, window: int | None) -> str | None:
    """Return why packed rows do not give what plain rows give, None if they do: a trial with a few tokens.

    A prefix of three tokens, four texts and a trie of two inner nodes are run in two rows. Other tokens in one text of
    a row must leave what is read of the other as it was, and all must be what plain rows give. An architecture that
    ignores the mask or the positions, or takes neither, is found here.
    """
    size = int(model.get_input_embeddings().weight.shape[0])
    ids = [(5 + 37 * number) % size for number in range(12)]
    prefix, texts = ids[:3], (ids[3:5], ids[5:8], ids[4:7], ids[2:5])
    endings: tuple[list[int], ...] = ([], ids[8:9], ids[10:11])
    whole = type_of(model) in (torch.float32, torch.float64)
    packed = PackedModel(model, window)
    trie = build_trie([ids[8:10], ids[10:12]])
    try:
        row = packed.prefix(prefix, 2)
        logits = packed.rest(row, texts, trie, most=10).float()
        expected = _plain(model, [[*prefix, *text, *ending] for text in texts for ending in endings]).view_as(logits)
        leak = 0.0
        # Each row has one text of the first two, and one of the others.
        for half in (slice(0, 2), slice(2, 4)):
            others = [
                text if at in range(4)[half] else [(token + 1) % size for token in text]
                for at, text in enumerate(texts)
            ]
            moved = packed.rest(row, others, trie, most=10).float() - logits
            leak = max(leak, float(moved[half].abs().max()))
        # A few tokens are near to each other, and rounding may hide that the distances are wrong.
        placed = whole or _looks_at_positions(packed, row, texts)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        check_device(error)
        return f"it raised {one_line(error)}"
    spread = float(expected.std())
    away = float((logits - expected).square().mean().sqrt())
    # Half types round differently for rows of different lengths: SmolLM2 is 0.02 of the spread away in bfloat16, and
    # 0.65 without its positions. In rows of the same length a text that is not seen changes nothing at all.
    if leak > (1e-3 if whole else 0.02) * spread:
        return "a text sees its neighbours"
    if not placed:
        return "it takes positions from the places in a row"
    if not away <= (1e-3 if whole else 0.2) * spread:
        return f"logits are {away / spread:.2g} of their spread away from those of plain rows"
    return None


def _looks_at_positions(packed: PackedModel, prefix: Rows, texts: Sequence[Sequence[int]]) -> bool:
    """Return whether texts one place further from the prefix are read otherwise."""
    block = lay_out(texts, None, prefix.tokens, 10)
    read = [
        packed.extend(prefix.branch(len(block.tokens)), replace(block, positions=block.positions + by), 1)
        for by in (0, 1)
    ]
    return not torch.equal(*read)


@torch.inference_mode()
def _plain(model: Any, texts: Sequence[list[int]]) -> torch.Tensor:
    """Return the last logits of each text; those of equal length are rows of one batch."""
    last_logits: dict[int, torch.Tensor] = {}
    for length in {len(text) for text in texts}:
        rows = [at for at, text in enumerate(texts) if len(text) == length]
        logits = model(input_ids=torch.tensor([texts[at] for at in rows], device=model.device)).logits
        last_logits |= dict(zip(rows, logits[:, -1].float(), strict=True))
    return torch.stack([last_logits[at] for at in range(len(texts))])

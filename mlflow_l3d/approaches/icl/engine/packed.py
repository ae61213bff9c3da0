"""Many texts in a few rows: they see a shared prefix and themselves, not each other, and hardly anything is padded.

Whether a causal model can run them, its configuration says, and a trial.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from mlflow_l3d.approaches.failures import check_device, is_out_of_memory, one_line
from mlflow_l3d.approaches.icl.engine.cascade import NAME, PREFIX, use_cascade
from mlflow_l3d.approaches.icl.engine.rows import SHARED, Block, Rows, empty_row, lay_out
from mlflow_l3d.approaches.icl.engine.tensors import is_half, on_device, type_of
from mlflow_l3d.approaches.icl.engine.trie import AnswerTrie, build_trie

_log = logging.getLogger(__name__)
Packing: TypeAlias = Literal["apart", "copies", "none"]
# Tokens of the sliding window of a trial.
_NARROW = 2
_GROUPED = "TRANSFORMERS_SDPA_FORCE_GQA"


class PackedModel:
    """Runs a causal model on packed rows.

    Parameters
    ----------
    model
        A causal `transformers` model that takes a four-dimensional attention mask and explicit positions.
    window
        Sliding window of every layer, None if a token sees all that came before.
    shared_from
        Rows share the keys of a prefix of so many tokens, see :mod:`~mlflow_l3d.approaches.icl.engine.cascade`; None
        if each has a copy. With a window they have copies.
    """

    def __init__(self, model: Any, window: int | None, *, shared_from: int | None = None) -> None:
        self.model = model
        self.window = window
        self.shared_from = shared_from if window is None else None
        self.device = model.device
        # A quantised model computes in a type that its parameters do not tell; masks of truth values fit any type.
        implementation = getattr(model.config, "_attn_implementation", None)
        self.additive = implementation not in ("sdpa", NAME) or getattr(model, "quantization_method", None) is None
        self.sliced = takes_places(model)

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
        arguments: dict[str, Any] = {"logits_to_keep": places} if self.sliced else {}
        if rows.prefix is not None:
            arguments[PREFIX] = rows.prefix.cache
        # Where a text begins, models mask by themselves, and torch may take kernels that know no mask but that one.
        begins = rows.prefix is None and not rows.tokens and bool((block.owners == SHARED).all())
        mask = None if begins else self._mask(self._sees(whose, where, nodes, tree.bool()), rows.prefix is None)
        with _grouped_heads(self.device.type):
            output = self.model(
                input_ids=ids,
                position_ids=where[:, -width:],
                attention_mask=mask,
                past_key_values=rows.cache,
                use_cache=True,
                **arguments,
            )
        rows.owners, rows.positions = owners, positions
        logits: torch.Tensor = output.logits[:, -keep:]
        return logits

    def prefix(self, tokens: Sequence[int], chunk: int) -> Rows:
        """Return the row of a shared prefix, run `chunk` tokens at a time."""
        row = empty_row()
        ids = np.asarray(tokens, dtype=np.int64)[None]
        for start in range(0, len(tokens), chunk):
            part = ids[:, start : start + chunk]
            positions = np.arange(start, start + part.shape[1])[None]
            none = np.full(part.shape, -1)
            self.extend(row, Block(part, np.full(part.shape, SHARED), positions, none, none), 1)
        return row

    def laid_out(self, prefix: Rows, texts: Sequence[Sequence[int]], trie: AnswerTrie | None, most: int) -> Block:
        """Return the block of texts behind a prefix, see :func:`~mlflow_l3d.approaches.icl.engine.rows.lay_out`."""
        return lay_out(texts, trie, prefix.tokens, most, copies=not self.shares(prefix))

    def shares(self, prefix: Rows) -> bool:
        """Return whether rows behind a prefix have no copy of it."""
        return self.shared_from is not None and prefix.tokens >= self.shared_from

    def branch(self, prefix: Rows, count: int) -> Rows:
        """Return `count` rows behind a prefix."""
        return prefix.behind(count) if self.shares(prefix) else prefix.branch(count)

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
        block = self.laid_out(prefix, texts, trie, most)
        rows = self.branch(prefix, len(block.tokens))
        each = 1 + len(trie.tokens)
        logits = self.extend(rows, block, block.texts.shape[1] * each, trie)
        # Empty slots, numbered -1, come first.
        order = np.argsort(block.texts.ravel(), kind="stable")[-len(texts) :]
        return logits.reshape(block.texts.size, each, -1)[on_device(self.device, order)[0]]

    def _sees(
        self, owners: torch.Tensor, positions: torch.Tensor, nodes: torch.Tensor, above: torch.Tensor
    ) -> torch.Tensor:
        """Return (R, N, K) whether a new token sees a key: the prefix and what came before it in its own text.

        Owners and positions are those of all keys, (R, K), nodes those of the new tokens, (R, N); `above` says which
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

    def _mask(self, sees: torch.Tensor, whole: bool) -> torch.Tensor:
        """Return (R, 1, N, K) in the form that the attention takes, of the `whole` row or apart from the prefix."""
        allowed = sees[:, None]
        if not (whole and self.additive):
            return allowed
        mask = torch.zeros(allowed.shape, dtype=type_of(self.model), device=self.device)
        return mask.masked_fill_(~allowed, torch.finfo(mask.dtype).min)


@contextmanager
def _grouped_heads(device_type: str) -> Iterator[None]:
    """Let heads that share keys read the same ones: on a CPU, `transformers` else copies the keys for each of them."""
    if device_type != "cpu" or _GROUPED in os.environ:
        yield
        return
    os.environ[_GROUPED] = "1"
    try:
        yield
    finally:
        os.environ.pop(_GROUPED, None)


def takes_places(model: Any) -> bool:
    """Return whether a model can be told behind which tokens the distribution is wanted."""
    return "logits_to_keep" in inspect.signature(model.forward).parameters


def layer_window(config: Any, longest: int) -> tuple[bool, int | None]:
    """Return whether packing is right for texts of up to `longest` tokens, and the sliding window of every layer.

    A mask can carry one window for all layers. If only some layers have a window, packing is right as long as no
    text is longer than it. Layers of other kinds (chunked, linear, recurrent) do not look through the mask at all. Some
    positions (``longrope``, ``dynamic``) are turned by other angles once the longest text of a call has a certain
    length, so that keys that are kept would not fit.
    """
    text = config.get_text_config(decoder=True)
    if longest > _turned_alike(text):
        return False, None
    if "local" in (getattr(text, "attention_layers", None) or ()):
        return False, None
    kinds = set(getattr(text, "layer_types", None) or ())
    if kinds - {"full_attention", "sliding_attention"}:
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


def packing(model: Any, *, windowed: bool = False) -> Packing:
    """Return how a model runs packed rows; a trial of each way tells, and if it runs none a line says why.

    Rows attend to the prefix apart from their own keys if that is possible, else each has a copy of it, and so they
    do if texts are longer than the sliding window (`windowed`).
    """
    if windowed:
        with _narrow_window(model.config) as window:
            why = _fault(model, window, shared_from=None)
    else:
        if use_cascade(model):
            why = _fault(model, None, shared_from=1)
            if why is None:
                return "apart"
            _log.debug("Each row has a copy of the prefix: %s", why)
            model.set_attn_implementation("sdpa")
        why = _fault(model, None, shared_from=None)
    if why is None:
        return "copies"
    _log.warning("The model is run in full for every prompt, which takes several times as long as packed rows: %s", why)
    return "none"


@contextmanager
def _narrow_window(config: Any) -> Iterator[int]:
    """Give a model a sliding window of a few tokens for a trial, and return it: some ignore what they are given."""
    text = config.get_text_config(decoder=True)
    usual_window, text.sliding_window = text.sliding_window, _NARROW
    try:
        yield _NARROW
    finally:
        text.sliding_window = usual_window


def _fault(model: Any, window: int | None, *, shared_from: int | None) -> str | None:
    """Return why packed rows do not give what plain rows give, None if they do: a trial with a few tokens.

    A prefix of three tokens, four texts and a trie of two inner nodes are run in two rows. Other tokens in one text of
    a row must leave what is read of the other as it was, and all must be what plain rows give. An architecture that
    ignores the mask or the positions, or takes neither, is found here.
    """
    size = int(model.get_input_embeddings().weight.shape[0])
    ids = [(5 + 37 * number) % size for number in range(12)]
    prefix, texts = ids[:3], (ids[3:5], ids[5:8], ids[4:7], ids[2:5])
    endings: tuple[list[int], ...] = ([], ids[8:9], ids[10:11])
    whole = not is_half(model)
    packed, trie = PackedModel(model, window, shared_from=shared_from), build_trie([ids[8:10], ids[10:12]])
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
    spread, away = float(expected.std()), float((logits - expected).square().mean().sqrt())
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
    block = packed.laid_out(prefix, texts, None, 10)
    read = [
        packed.extend(packed.branch(prefix, len(block.tokens)), replace(block, positions=block.positions + by), 1)
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

"""Whether a causal model can run packed rows: its configuration allows it, and a trial with a few tokens."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from mlflow_l3d.approaches.failures import check_device, is_out_of_memory, one_line
from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.rows import Rows, lay_out
from mlflow_l3d.approaches.icl.engine.tensors import type_of
from mlflow_l3d.approaches.icl.engine.trie import build_trie

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
    packed, trie = PackedModel(model, window), build_trie([ids[8:10], ids[10:12]])
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

"""Whether a causal model can run packed rows: what its configuration says, and what a trial says."""

from __future__ import annotations

from typing import Any

import torch

from mlflow_l3d.approaches.icl.engine.batches import is_out_of_memory
from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.trie import build_trie


def layer_window(config: Any, longest: int) -> tuple[bool, int | None]:
    """Return whether packing is right for texts of up to `longest` tokens, and the sliding window of every layer.

    A mask can carry one window for all layers. Where only some layers have a window, packing is right as long as no
    text is longer than it. Layers of other kinds (chunked, linear, recurrent) do not look through the mask at all.
    """
    text = config.get_text_config(decoder=True)
    if "local" in (getattr(text, "attention_layers", None) or ()):
        return False, None
    kinds = set(getattr(text, "layer_types", None) or ())
    if kinds - {"full_attention", "sliding_attention"}:
        return False, None
    window = getattr(text, "sliding_window", None)
    if window is None or kinds == {"full_attention"} or longest <= window:
        return True, None
    return len(kinds) < 2, int(window)


def honours_mask(model: Any) -> bool:
    """Return whether packed rows give what plain rows give: a trial with a few tokens.

    A prefix of three tokens, four texts and a trie of two inner nodes are run in two rows, and plainly one by one. An
    architecture that ignores the mask or the positions, or takes neither, is found here.
    """
    size = int(model.get_input_embeddings().weight.shape[0])
    ids = [(5 + 37 * number) % size for number in range(12)]
    prefix, texts = ids[:3], (ids[3:5], ids[5:8], ids[4:7], ids[2:5])
    endings: tuple[list[int], ...] = ([], ids[8:9], ids[10:11])
    packed = PackedModel(model, None)
    try:
        found = packed.rest(packed.prefix(prefix, 2), texts, build_trie([ids[8:10], ids[10:12]]), most=10)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return False
    expected = torch.stack([_plain(model, [*prefix, *text, *ending]) for text in texts for ending in endings])
    # Half types round differently for rows of different lengths; a token that sees another text changes far more.
    tolerance = 1e-3 if model.dtype in (torch.float32, torch.float64) else 0.2
    return float((found.flatten(0, 1).float() - expected).abs().max()) <= tolerance * float(expected.std())


@torch.inference_mode()
def _plain(model: Any, tokens: list[int]) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=torch.tensor([tokens], device=model.device)).logits
    return logits[0, -1].float()

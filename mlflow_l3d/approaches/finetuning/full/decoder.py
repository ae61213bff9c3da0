"""A head for any decoder-only model: the hidden state of the last token that is not padding, to scores.

`torch` is imported with this module, which is imported only where a session is prepared.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


class DecoderWithHead(torch.nn.Module):
    """A decoder and a linear head without bias, as ``transformers`` has for sequence classification.

    `transformers` has no multiple choice for decoders; Zhou et al. (2025, Table 6) wrote one for LLaMA. Here every
    choice is a row of its own whose score is the head's one output.

    Parameters
    ----------
    base
        The decoder without a language-modelling head.
    outputs
        Numbers of the head: classes, or 1 for a regression and for multiple choice.

    Attributes
    ----------
    config
        That of the decoder.
    score
        The head, float32 whatever the decoder computes in.
    """

    def __init__(self, base: Any, outputs: int) -> None:
        super().__init__()
        self.base, self.config = base, base.config
        text = self.config.get_text_config()
        width = getattr(text, "word_embed_proj_dim", None) or text.hidden_size
        self.score = torch.nn.Linear(width, outputs, bias=False, device=base.device, dtype=torch.float32)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.score.weight.device

    def get_input_embeddings(self) -> Any:
        """Return the module that turns token numbers into vectors."""
        return self.base.get_input_embeddings()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        """Return an object with `logits`.

        Parameters
        ----------
        input_ids, attention_mask
            Shape (b, l); or (b, k, l) for k choices. Padding, where the mask is 0, stands on the right.

        Returns
        -------
        SimpleNamespace
            `logits` of shape (b, outputs); or (b, k).
        """
        ids, mask = (part.reshape(-1, part.shape[-1]) for part in (input_ids, attention_mask))
        hidden = self.base(ids, attention_mask=mask, use_cache=False)[0]
        last = (mask * torch.arange(mask.shape[-1], device=mask.device)).argmax(-1)
        picked = hidden[torch.arange(len(hidden), device=hidden.device), last]
        logits = self.score(picked.to(self.score.weight.dtype))
        return SimpleNamespace(logits=logits.view(input_ids.shape[0], -1) if input_ids.dim() == 3 else logits)

    def draw(self, generator: torch.Generator) -> None:
        """Draw the head as `transformers` does: normal, with the model's own standard deviation."""
        spread = getattr(self.config.get_text_config(), "initializer_range", None) or 0.02
        weight = torch.empty(self.score.weight.shape).normal_(0.0, float(spread), generator=generator)
        with torch.no_grad():
            self.score.weight.copy_(weight)

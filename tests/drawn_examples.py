"""How many examples hypothesis draws: all of them in a whole session, a quarter in a quick check."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

WHOLE = 100
"""Examples of a test that names no number, in a whole session."""


def draw_fewer(config: pytest.Config) -> None:
    """Let a session without slow tests draw a quarter of the examples."""
    if "not slow" in config.option.markexpr.split(" and "):
        settings.register_profile("quick", settings.default, max_examples=WHOLE // 4)
        settings.load_profile("quick")


def examples(number: int, **options: Any) -> settings:
    """Return the settings of a test that draws `number` examples in a whole session."""
    assert settings.default is not None
    few = -(-number * settings.default.max_examples // WHOLE)
    return settings(max_examples=min(number, few), deadline=None, **options)

"""What a call that is not allowed, or that fails, says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from mlflow_l3d.errors import L3DError, ParameterError


def refusal(call: Callable[..., Any], /, *arguments: Any, **options: Any) -> str:
    """Return the one line with which a call refuses a parameter."""
    with pytest.raises(ParameterError) as caught:
        call(*arguments, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line


def refuses(pattern: str, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> None:
    """Check the one line with which a call refuses a parameter."""
    line = refusal(call, *arguments, **options)
    assert re.search(pattern, line), line


def fails(pattern: str, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> None:
    """Check what a call says that fails."""
    with pytest.raises(L3DError, match=pattern):
        call(*arguments, **options)

"""What a call that is not allowed says."""

from collections.abc import Callable
from typing import Any

import pytest

from mlflow_l3d.errors import ParameterError


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Return the one line with which a call refuses a parameter."""
    with pytest.raises(ParameterError) as caught:
        call(*arguments, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line

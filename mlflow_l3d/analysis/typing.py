"""Types that every analysis shares, and what is done with values that are not known."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def with_interval(name: str) -> tuple[str, str, str]:
    """Return the name of a number and those of the ends of its interval, as metrics and columns have them."""
    return name, f"{name}_ci_low", f"{name}_ci_high"


def known(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values that are not nan."""
    return {name: value for name, value in values.items() if not math.isnan(value)}

"""Types that every analysis shares, and what is done with values that are not known."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def known(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values that are not nan."""
    return {name: value for name, value in values.items() if not math.isnan(value)}

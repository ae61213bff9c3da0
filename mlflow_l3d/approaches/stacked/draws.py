"""New weights of a network of two layers, from the seed of ``model_initialisation``."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.plan.factors import stream

FloatArray: TypeAlias = npt.NDArray[np.float32]


def initial_head(seed: int, inputs: int, hidden: int, classes: int) -> tuple[FloatArray, FloatArray]:
    """Return new weights of the two layers of the head, the bias as the last row of each.

    Parameters
    ----------
    seed
        That of ``model_initialisation``.
    inputs, hidden, classes
        Sizes D, H, C.

    Returns
    -------
    tuple
        Shapes (D + 1, H) and (H + 1, C): uniform in +-1/sqrt(fan-in), weights and biases alike, as ``torch.nn.Linear``.
    """
    return _uniform(seed, "hidden", inputs, hidden), _uniform(seed, "output", hidden, classes)


def _uniform(seed: int, layer: str, fan_in: int, fan_out: int) -> FloatArray:
    draws = stream(seed, "head", layer).random((fan_in + 1, fan_out), dtype=np.float32)
    return (2 * draws - 1) / np.float32(np.sqrt(fan_in))

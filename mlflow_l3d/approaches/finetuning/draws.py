"""Everything that fine-tuning draws itself, as pure functions of the seed of one factor each.

Batch order belongs to ``data_order``, new weights to ``model_initialisation``, dropout to ``model_randomness``. Each
epoch has a stream of its own, so that no draw depends on how many came before it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.plan.factors import stream, stream_seed

FloatArray: TypeAlias = npt.NDArray[np.float32]


def batch_order(seed: int, epoch: int, n: int) -> npt.NDArray[np.int64]:
    """Return the order of the n training examples in one epoch (0-based): shape (n,), a permutation.

    `seed` is that of ``data_order``. Batches are consecutive pieces of it.
    """
    return stream(seed, "batch_order", str(epoch)).permutation(n)


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


def dropout_masks(seed: int, epoch: int, n: int, units: int, probability: float) -> FloatArray:
    """Return the factors of dropout for one epoch: shape (n, units), 0 or 1/(1 - probability).

    `seed` is that of ``model_randomness``. Row i belongs to the i-th example that the epoch visits, whichever that is:
    another order leaves the stream as it is.
    """
    draws = stream(seed, "head_dropout", str(epoch)).random((n, units), dtype=np.float32)
    return (draws >= np.float32(probability)) * np.float32(1.0 / (1.0 - probability))


def initialisation_seed(seed: int) -> int:
    """Return the global generator's seed while `transformers` fills new weights; from ``model_initialisation``."""
    return stream_seed(seed, "new_weights")


def dropout_seed(seed: int, epoch: int) -> int:
    """Return the seed of the global generator during one epoch of the whole model; from ``model_randomness``."""
    return stream_seed(seed, "dropout", str(epoch))

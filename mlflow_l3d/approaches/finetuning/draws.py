"""Everything that fine-tuning draws itself, as pure functions of the seed of one factor each.

Batch order belongs to ``data_order``, dropout to ``model_randomness``, new weights to ``model_initialisation`` (of
the head: :mod:`mlflow_l3d.approaches.stacked.stack`). Each epoch has a stream of its own, so that no draw depends
on how many came before it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.stacked.stack import FloatArray, dropout_factors
from mlflow_l3d.cells.factors import stream, stream_seed


def batch_order(seed: int, epoch: int, n: int) -> npt.NDArray[np.int64]:
    """Return the order of the n training examples in one epoch (0-based): shape (n,), a permutation.

    `seed` is that of ``data_order``. Batches are consecutive pieces of it.
    """
    return stream(seed, "batch_order", str(epoch)).permutation(n)


def dropout_masks(seed: int, epoch: int, n: int, units: int, probability: float) -> FloatArray:
    """Return the factors of dropout for one epoch: shape (n, units), 0 or 1/(1 - probability).

    `seed` is that of ``model_randomness``. Row i belongs to the i-th example that the epoch visits, whichever that is:
    another order leaves the stream as it is.
    """
    return dropout_factors(dropout_stream(seed, epoch), (n, units), probability)


def dropout_stream(seed: int, epoch: int) -> np.random.Generator:
    """Return what the factors of dropout of one epoch are drawn with; from ``model_randomness``."""
    return stream(seed, "head_dropout", str(epoch))


def initialisation_seed(seed: int) -> int:
    """Return the global generator's seed while `transformers` fills new weights; from ``model_initialisation``."""
    return stream_seed(seed, "new_weights")


def adapter_seed(seed: int, epoch: int) -> int:
    """Return where the streams of dropout before adapters begin in one epoch; from ``model_randomness``."""
    return stream_seed(seed, "lora_dropout", str(epoch))


def dropout_seed(seed: int, epoch: int) -> int:
    """Return the seed of the global generator during one epoch of the whole model; from ``model_randomness``."""
    return stream_seed(seed, "dropout", str(epoch))

"""A stand-in until the rule of votes and means is in mlflow_l3d.analysis.cure.ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np


def combine(kind: str, predictions: Any, scores: Any = None, *, classes: int) -> tuple[Any, Any]:
    """Return the predictions, shape (n,), and class scores of several members together."""
    mean = None if scores is None else np.mean(scores, axis=0, dtype=np.float64).astype(np.float32)
    if kind == "mean":
        return (np.mean(predictions, axis=0), None) if mean is None else (mean.argmax(1).astype(np.int64), mean)
    votes = np.stack([np.sum(predictions == row, axis=0) for row in predictions])
    del classes
    return predictions[votes.argmax(0), np.arange(predictions.shape[1])], mean

"""The score that approaches compute while they train."""

from __future__ import annotations

import math

import numpy as np

from mlflow_l3d.tasks.base import IntArray


def f1_macro(labels: IntArray, predictions: IntArray, classes: int) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN), in [0, 1]; 0 for a class that neither has.

    Both arrays have shape (n,) and hold class numbers. nan where n is 0.
    """
    if not len(labels):
        return math.nan
    table = np.bincount(labels * classes + predictions, minlength=classes * classes).reshape(classes, classes)
    hits, sizes = np.diagonal(table), table.sum(axis=0) + table.sum(axis=1)
    return float(np.mean(2 * hits / np.maximum(sizes, 1)))

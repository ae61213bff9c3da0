"""The luck of test examples: how much of the spread of scores is theirs alone, which no ensemble takes away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure.ensembles import Array, Members, score_many
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.metrics.base import Metric

_BLOCKS: Final = 100
_FEW: Final = 20
"""Blocks of examples that are left out; rows, and blocks, if each row has its own examples."""


def tests_of(row: Members) -> Array | slice:
    """Return the examples whose score counts: of runs that draw their own test examples the shared reference set."""
    return slice(None) if row.test is None or not row.test.any() else row.test


def jackknifed(metric: Metric, classes: int | None, labels: Array, predictions: Array, blocks: int = _BLOCKS) -> Array:
    """Return shape (p, p): the covariance of scores that the choice of examples causes, by the jackknife."""
    order = np.random.default_rng(len(labels)).permutation(len(labels))
    rest = [np.setdiff1d(order, block) for block in np.array_split(order, min(blocks, len(order)))]
    without = np.array([score_many(metric, labels[each], predictions[:, each], classes) for each in rest])
    centred = without - without.mean(axis=0)
    return np.asarray(centred.T @ centred * (len(rest) - 1) / len(rest))


def luck_of_tests(
    metric: Metric,
    classes: int | None,
    rows: Sequence[Members],
    predictions: Sequence[Array],
    apart: FloatArray,
    between: FloatArray,
) -> tuple[float, float, float]:
    """Return the variance that examples cause in a result, and what two of a row, or of two rows, have in common.

    Parameters
    ----------
    metric, classes
        What is scored, and how many classes are distinguished.
    rows, predictions
        Rows, and of each what some choices of its members predict, shape (p, n).
    apart, between
        Shape (p, p): 1 for the pairs of choices of one row, and of two rows, that are independent.

    Returns
    -------
    tuple
        nan if there is no such pair; of two rows also if they have test examples of their own.
    """
    rows, other, count = rows[:_FEW], math.nan, min(len(rows), _FEW)
    if all(row.test is not None and not row.test.any() and len(row.labels) == len(rows[0].labels) for row in rows):
        results = np.concatenate(predictions[:count])
        whole = jackknifed(metric, classes, rows[0].labels, results).reshape(count, len(apart), count, len(apart))
        mean = np.mean([whole[at, :, at] for at in range(count)], axis=0)
        if count > 1 and between.any():
            pairs = (whole.sum(axis=(0, 2)) - count * mean) * between
            other = float(pairs.sum() / between.sum() / count / (count - 1))
    else:
        some = zip(rows, map(tests_of, rows), predictions, strict=False)
        each = [jackknifed(metric, classes, row.labels[test], part[:, test], _FEW) for row, test, part in some]
        mean = np.mean(each, axis=0)
    common = float((mean * apart).sum() / apart.sum()) if apart.any() else math.nan
    return float(np.diag(mean).mean()), common, other

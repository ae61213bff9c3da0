"""Agreement of every pair of runs, as matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.stability.prediction_matrix import PredictionMatrix
from mlflow_l3d.analysis.typing import FloatArray


@dataclass(frozen=True, slots=True)
class PairTables:
    """Counts of examples for every pair of runs; symmetric, and the diagonal means nothing.

    Attributes
    ----------
    common, equal, correct
        Shape (S, S): examples that both runs saw, on which they agree, on which they agree and are right.
    """

    common: FloatArray
    equal: FloatArray
    correct: FloatArray


def pair_tables(matrix: PredictionMatrix) -> PairTables:
    """Count by products of indicator matrices: time S^2 n, memory S^2 + S n.

    Parameters
    ----------
    matrix
        Runs may have different test sets.
    """
    matrix = matrix.dense()
    guess = matrix.predictions
    # Single precision counts exactly up to 2^24 examples.
    kind = np.float32 if guess.shape[1] < 2**24 else np.float64
    runs = len(guess)
    equal = np.zeros((runs, runs), dtype=kind)
    for number in range(int(guess.max(initial=-1)) + 1):
        hit = guess == number
        equal += _shared(hit[:, hit.any(axis=0)], kind)
    held = matrix.held
    common = np.full((runs, runs), held.shape[1], dtype=kind) if held.all() else _shared(held, kind)
    correct = _shared(guess == matrix.labels, kind)
    return PairTables(common.astype(np.float64), equal.astype(np.float64), correct.astype(np.float64))


def _shared(indicator: npt.NDArray[np.bool_], kind: type[np.floating]) -> npt.NDArray[np.floating]:
    ones = indicator.astype(kind)
    return ones @ ones.T


def shares(hits: FloatArray, common: FloatArray) -> FloatArray:
    """Return hits / common for each pair of runs; nan on the diagonal and where there is nothing in common."""
    values = np.full(hits.shape, math.nan)
    np.divide(hits, common, out=values, where=common > 0)
    np.fill_diagonal(values, math.nan)
    return values


def mean_and_std(values: FloatArray) -> tuple[float, float]:
    """Return mean and population standard deviation over pairs (ddof=0, as the papers' equation 1).

    Parameters
    ----------
    values
        Shape (S, S): symmetric, nan where a pair has no value; both nan where no pair has one.
    """
    known = values[~np.isnan(values)]
    return (float(known.mean()), float(known.std())) if len(known) else (math.nan, math.nan)

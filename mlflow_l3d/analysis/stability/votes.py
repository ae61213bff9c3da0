"""How many runs vote for which class of which example: everything about pairs of runs follows, without any pair."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.stability.prediction_matrix import IntArray, PredictionMatrix
from mlflow_l3d.analysis.typing import FloatArray

DENSE_CLASSES: Final = 256
"""Up to this many classes, or as many as there are runs, votes are kept as a table; else only those that occur."""


@dataclass(frozen=True, slots=True)
class Votes:
    """Votes of S runs that all saw the same n examples.

    Attributes
    ----------
    own
        Shape (S, n): votes for the class that the run predicts, its own included; 0 where it names none.
    equal
        Shape (n,): ordered pairs of runs that agree on an example, ``sum_c n_xc (n_xc - 1)``.
    right
        Shape (n,): votes for the true class.
    totals
        Votes for each class, over all examples.
    """

    own: npt.NDArray[np.int32]
    equal: IntArray
    right: IntArray
    totals: IntArray


def count_votes(matrix: PredictionMatrix) -> Votes:
    """Count in time and memory that grow with S n.

    Parameters
    ----------
    matrix
        Every run saw every example.
    """
    guess, labels = matrix.predictions, matrix.labels
    runs, examples = guess.shape
    width = int(max(guess.max(initial=-1), labels.max(initial=-1))) + 2
    codes = guess + (np.arange(examples) * width + 1)
    if width <= max(DENSE_CLASSES, runs):
        votes = np.bincount(codes.reshape(-1), minlength=examples * width).astype(np.int32)
        table = votes.reshape(examples, width)
        unparsed_votes = table[:, 0].copy()
        table[:, 0] = 0
        right = table[np.arange(examples), labels + 1].astype(np.int64)
        equal = np.square(table, dtype=np.int64).sum(axis=1) - (runs - unparsed_votes)
        return Votes(votes[codes], equal, right, table[:, 1:].sum(axis=0, dtype=np.int64))
    known, place, counts = np.unique(codes.reshape(-1), return_inverse=True, return_counts=True)
    example, column = np.divmod(known, width)
    counts[column == 0] = 0
    equal = np.bincount(example, weights=counts * (counts - 1), minlength=examples).astype(np.int64)
    right = np.zeros(examples, dtype=np.int64)
    hits = column == labels[example] + 1
    right[example[hits]] = counts[hits]
    classes = np.unique(column, return_inverse=True)[1]
    totals = np.bincount(classes, weights=counts).astype(np.int64)
    return Votes(counts.astype(np.int32)[place.reshape(guess.shape)], equal, right, totals)


def vote_consistency(predictions: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[float, float]:
    """Return CON and CCON of runs with one test set (Zhou et al. 2025, equations 2 and 3, averaged over pairs).

    Parameters
    ----------
    predictions
        Shape (S, n): class numbers; -1 agrees with nothing.
    labels
        Shape (n,): true class numbers.

    Returns
    -------
    tuple of float
        Fractions in [0, 1]; nan where there are fewer than two runs, or no example.

    Raises
    ------
    ValueError
        If shapes do not fit, or something is not a class number.

    Notes
    -----
    ``CON = sum_xc n_xc (n_xc - 1) / (n S (S - 1))`` and ``CCON = sum_x k_x (k_x - 1) / (n S (S - 1))`` with n_xc votes
    for class c of example x, k_x of them for the true class. Exact; no pair is looked at.
    """
    matrix = PredictionMatrix.from_arrays(predictions, labels)
    votes = count_votes(matrix)
    runs, examples = matrix.predictions.shape
    pairs = examples * runs * (runs - 1)
    if not pairs:
        return math.nan, math.nan
    return int(votes.equal.sum()) / pairs, int((votes.right * (votes.right - 1)).sum()) / pairs


def fleiss_kappa(votes: Votes, runs: int, examples: int) -> float:
    """Return agreement beyond chance (Fleiss 1971), whose observed agreement is CON.

    Returns
    -------
    float
        1 at most; nan, not 0, where all predictions are one class: then chance alone explains the agreement.

    Notes
    -----
    ``(CON - P_e) / (1 - P_e)``, with ``P_e`` the sum of squared shares of the classes among all predictions. Answers
    that name no class agree with nothing, so they add to neither.
    """
    if runs < 2 or not examples:
        return math.nan
    shares: FloatArray = votes.totals / (runs * examples)
    expected = float(shares @ shares)
    if int(votes.totals.max(initial=0)) == runs * examples:
        return math.nan
    observed = int(votes.equal.sum()) / (examples * runs * (runs - 1))
    return (observed - expected) / (1 - expected)

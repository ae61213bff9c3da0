"""Ensembles of runs: runs as members, how these are combined, every choice of them, and their scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.consistency.choice import scoring_of
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.consistency.scored import different_forms
from mlflow_l3d.analysis.intervals import FloatArray, IntArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.metrics.known import score

Array = npt.NDArray[Any]
Masks = npt.NDArray[np.bool_]
_SHARED: Final = 0.5
"""Part of the test examples of a run that runs must share."""
MOST_CHOICES: Final = 252
"""Choices of members that are all enumerated: five of ten. If there are more, about so many are drawn."""


@dataclass(frozen=True)
class Members:
    """Runs that differ in the factors of a remedy alone and share their examples: one row of a table.

    Attributes
    ----------
    predictions
        Shape (k, n): int64 classes (-1 names no class), float64 numbers, or texts (None could not be read).
    labels
        Shape (n,).
    scores
        Shape (k, n, C): class scores, higher is more likely; nan if a run has none of an example.
    validation
        Shape (k,): validation score of each run.
    columns
        Shape (k,): which column each run is of, if rows share columns (crossed).
    test
        Shape (n,): which examples are the runs' own test examples, whose score counts; the others are of the
        reference set. None: all.
    examples
        Shape (n,): which example each is, if rows may share examples; None: rows share none.
    """

    predictions: Array
    labels: Array
    scores: Array | None = None
    validation: Array | None = None
    columns: Array | None = None
    test: Array | None = None
    examples: Array | None = None

    def __len__(self) -> int:
        return len(self.predictions)


@dataclass(slots=True)
class RunPredictions:
    """What one run predicts; arrays that equal those of the run before are the same objects.

    Attributes
    ----------
    column
        Its column, -1 without one.
    ids, labels, predictions, test
        Shape (n,): predicted examples, and whether each is a test example of the run's own, not of a reference set.
    scores
        Shape (n, C), or None.
    validation
        Its score on validation examples; nan if there is none.
    """

    column: int
    ids: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    predictions: npt.NDArray[Any]
    test: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float32] | None = None
    validation: float = math.nan


def joined(runs: list[RunPredictions], *, columns: bool = False) -> Members | None:
    """Return runs on the examples that all of them share; None below two runs, or too few examples.

    If runs draw test examples of their own, those that all happen to share are few, and left out: only the reference
    set counts.
    """
    if len(runs) < 2:
        return None
    ids = {id(run.ids): run.ids for run in runs}
    common = reduce(lambda some, each: some[np.isin(some, each)], ids.values()) if len(ids) > 1 else runs[0].ids
    at = {key: pd.Index(each).get_indexer(common) for key, each in ids.items()}
    test = np.logical_and.reduce([run.test[at[id(run.ids)]] for run in runs])
    if test.sum() < _SHARED * min(run.test.sum() for run in runs):
        at = {key: places[~test] for key, places in at.items()}
        test = test[~test]
    if len(test) < FEWEST_EXAMPLES:
        return None
    predictions = np.stack([run.predictions[at[id(run.ids)]] for run in runs])
    scores = [run.scores[at[id(run.ids)]] for run in runs if run.scores is not None]
    validation = np.array([run.validation for run in runs])
    return Members(
        predictions=predictions.astype(np.int64) if predictions.dtype.kind == "i" else predictions,
        labels=runs[0].labels[at[id(runs[0].ids)]],
        scores=np.stack(scores) if len(scores) == len(runs) else None,
        validation=validation if np.isfinite(validation).all() else None,
        columns=np.array([run.column for run in runs]) if columns else None,
        test=test,
        examples=runs[0].ids[at[id(runs[0].ids)]],
    )


def combine(
    kind: str, predictions: Array, scores: Array | None = None, *, classes: int | None = None, agreement: str = ""
) -> tuple[Array, Array | None]:
    """Return predictions and class scores of one ensemble.

    Parameters
    ----------
    kind
        ``vote``: the class, or the text, that most members predict; a tie goes to the tied one whose first member
        comes first. A member that names no class has no vote. If two texts can agree in part (`agreement`), the text
        that agrees most with all. ``mean``: the class whose mean score is highest (of equal ones the first), or the
        mean number.
    predictions, scores
        Shapes (k, n) and (k, n, C), as :class:`Members` has them.
    classes
        How many classes there are; None for numbers and texts.
    agreement
        The scoring function of the metric, for texts.

    Returns
    -------
    tuple
        Shapes (n,) and (n, C): the scores are mean scores, or of a vote shares of the votes; None if there are none.

    Raises
    ------
    ParameterError
        If the kind does not fit the predictions.
    """
    members = Members(np.asarray(predictions), np.empty(np.shape(predictions)[1]), scores)
    combined = combine_choices(kind, members, np.ones((1, len(members)), dtype=np.bool_), agreement)[0]
    if members.predictions.dtype.kind not in "iu":
        return combined, None
    if kind == "mean":
        has_scores = np.isfinite(np.asarray(scores)).all(axis=2, keepdims=True)
        sums = np.where(has_scores, np.asarray(scores), 0).sum(axis=0)
        return combined, (sums / np.maximum(has_scores.sum(axis=0), 1)).astype(np.float32)
    shares = (members.predictions[:, :, None] == np.arange(classes or 0)).mean(axis=0)
    return combined, shares.astype(np.float32) if classes else None


def combine_choices(kind: str, members: Members, masks: Masks, agreement: str = "") -> Array:
    """Return shape (m, n): what each choice of members, shape (m, k), predicts together; see :func:`combine`."""
    predictions = members.predictions
    form = predictions.dtype.kind
    if kind == "vote" and form in "iu":
        return _votes(predictions, masks)
    if kind == "vote" and form in "OUST":
        return _medoids(predictions.astype(object), masks, agreement)
    if kind == "mean" and form == "f":
        means: Array = (masks / masks.sum(axis=1, keepdims=True)) @ predictions
        return means
    if kind == "mean" and form in "iu" and members.scores is not None:
        return _mean_scores(members.scores, masks)
    what = "numbers have no majority: use mean" if form == "f" else "needs class scores: use vote"
    raise ParameterError("kind", kind, what if form in "fiu" else "texts have no mean: use vote")


def can_combine(kind: str, members: Members) -> bool:
    """Return whether an ensemble of this kind exists."""
    form = members.predictions.dtype.kind
    return form != "f" if kind == "vote" else form == "f" or (form in "iu" and members.scores is not None)


def disagreement(members: Members) -> float:
    """Return the share of predicted classes that are not those of the highest score; 0 without scores."""
    if members.scores is None:
        return 0.0
    named = members.predictions >= 0
    scores, predictions = members.scores[named], members.predictions[named]
    return float((scores[np.arange(len(scores)), predictions] < scores.max(axis=1)).mean()) if named.any() else 0.0


def _votes(codes: IntArray, masks: Masks) -> IntArray:
    """Return the most frequent code of 0 and above; -1 if there is none."""
    # Members that all agree need no count. Below 1, a member's place decides ties: the sum of later ones is smaller.
    contested = np.asarray((codes != codes[0]).any(axis=0))
    result = np.repeat(codes[:1].astype(np.int64), len(masks), axis=0)
    weights = np.where(masks, 1 + 0.5 ** masks.cumsum(axis=1), 0)
    weights = weights.astype(np.float32 if masks.sum(axis=1).max() < 16 else np.float64)
    disputed = codes[:, contested]
    best = np.zeros((len(masks), disputed.shape[1]), dtype=weights.dtype)
    chosen = np.full(best.shape, UNPARSED, dtype=np.int64)
    for code in np.unique(disputed[disputed >= 0]):
        with np.errstate(invalid="ignore"):  # all are finite; some BLAS flag what they read beyond the end of an array
            votes = weights @ (disputed == code).astype(weights.dtype)
        better = votes > best
        best[better], chosen[better] = votes[better], code
    result[:, contested] = chosen
    return result


def _mean_scores(scores: Array, masks: Masks) -> IntArray:
    """Return the class whose mean score is highest; -1 if no member has scores."""
    missing = np.asarray(np.isnan(scores).any(axis=2))
    first = np.where(missing, UNPARSED, np.where(missing[:, :, None], 0, scores).argmax(axis=2))
    contested = np.asarray((first != first[0]).any(axis=0))
    result = np.repeat(first[:1].astype(np.int64), len(masks), axis=0)
    # A class that one member rules out (a logarithm of 0) is very unlikely, not impossible.
    finite = np.nan_to_num(scores[:, contested], nan=0.0, posinf=1e6, neginf=-1e6)
    finite[missing[:, contested]] = 0
    weights = masks.astype(np.float32)
    sums = (weights @ finite.reshape(len(scores), -1)).reshape(len(masks), -1, scores.shape[2])
    chosen = sums.argmax(axis=2)
    chosen[weights @ missing[:, contested] == weights.sum(axis=1, keepdims=True)] = UNPARSED
    result[:, contested] = chosen
    return result


def _medoids(texts: Array, masks: Masks, agreement: str) -> Array:
    """Return the text that agrees most with all members, itself included; of equal ones the first."""
    scoring = scoring_of(agreement or "exact_match")
    assert scoring is not None
    matrices = np.empty((texts.shape[1], len(texts), len(texts)))
    for place in range(texts.shape[1]):
        forms, which = different_forms(scoring, texts[:, place], place)
        matrices[place] = scoring.pairs(forms)[np.ix_(which, which)]
    support = np.einsum("mi,xij->mxj", masks.astype(np.float64), matrices).round(9)
    winners = np.where(masks[:, None, :], support, -1).argmax(axis=2)
    medoids: Array = texts[winners, np.arange(texts.shape[1])]
    return medoids


def choose_best(validation: FloatArray, masks: Masks) -> IntArray:
    """Return the member of each choice, shape (m,), whose validation score is greatest; of equals the first."""
    return np.asarray(np.where(masks, validation, -math.inf).argmax(axis=1))


def draw_choices(members: int, k: int, fewest: int = MOST_CHOICES) -> Masks:
    """Return choices of k of so many members, shape (m, members).

    All of them, in their order, if they are at most :data:`MOST_CHOICES`. Else `fewest` groups, or a few more, of
    random partitions, always the same ones: each partition has as many groups without a common member as there can be.
    """
    if math.comb(members, k) <= MOST_CHOICES:
        chosen = np.array(list(combinations(range(members), k)))
    else:
        random, groups = np.random.default_rng([members, k]), members // k
        partitions = range(max(4, -(-fewest // groups)))
        chosen = np.concatenate([random.permutation(members)[: groups * k].reshape(groups, k) for _ in partitions])
    masks = np.zeros((len(chosen), members), dtype=np.bool_)
    np.put_along_axis(masks, chosen, values=True, axis=1)
    return masks


def score_many(metric: Metric, labels: Array, predictions: Array, classes: int | None) -> FloatArray:
    """Return shape (m,): the score of each row of predictions, shape (m, n); nan if it has none."""
    if not len(labels):
        return np.full(len(predictions), math.nan)
    if metric.of_each is not None:
        every = np.broadcast_to(labels, predictions.shape).ravel()
        means: FloatArray = metric.of_each(every, predictions.ravel()).reshape(predictions.shape).mean(axis=1)
        return means
    if metric.of_many is not None and classes:
        return metric.of_many(labels, predictions, classes)
    return np.array([score(metric, labels, one, classes) for one in predictions])


def tests_of(row: Members) -> Array | slice:
    """Return the examples whose score counts: of runs that draw their own test examples the shared reference set."""
    return slice(None) if row.test is None or not row.test.any() else row.test

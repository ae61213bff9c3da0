"""How much each test example moves the score of each run: its change if the example is left out.

For the accuracy that is what the example adds to it. For a score that is not a mean over examples (F1, Matthews') it is
the jackknife's linear part, and the two-way layout of runs x examples holds for it as it does for the accuracy.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.intervals import FloatArray, IntArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import score


def metric_width(metric: Metric) -> float:
    """Return the highest less the lowest value of a metric, 1 if it is read in percent; 0 if it has no bounds."""
    width = metric.range[1] - metric.range[0]
    return width if math.isfinite(width) else float(metric.percent)


def least_error(step: float, draws: float) -> float:
    """Return the standard error that a mean has at least, however alike its draws are.

    Parameters
    ----------
    step
        What a draw that departs from the others moves itself by.
    draws
        How many there are: runs (pairs of runs), or test examples.

    Notes
    -----
    A share q of all draws departs by `step`; that none of L draws does has probability ``(1 - q)^L``. At the one-sided
    level a, departures up to ``q = 1 - a^(1/L)`` thus stay unseen (the exact binomial limit, Clopper and Pearson 1934),
    and the mean may lie ``q step`` away. Student's limit with L - 1 degrees of freedom reaches as far from the error
    ``step (1 - a^(1/L)) / t(1 - a, L - 1)``, and ``2 step / (L + 4)`` is at least that for all L from 2 on and all a
    from .01 to .05.

    Examples
    --------
    >>> least_error(1 / 50, 6)  # six runs of 50 test examples: 0.4 points
    0.004
    """
    return 2 * step / (draws + 4)


def check_effect(effect: float, metric: Metric, scores: FloatArray, examples: float) -> None:
    """Raise ParameterError if a smallest effect is less than one test example moves the score of a run.

    Means over examples move so if all scores are whole numbers of such steps: accuracy and exact match. One answer
    moves F1 and Matthews' correlation by about as much, and errors and graded texts by anything: of these any effect
    may be asked.

    Parameters
    ----------
    effect
        In the unit of the scores; nan for none.
    metric
        What the scores are.
    scores
        Of single runs.
    examples
        Test examples of a run, also if each run draws its own; 0 if not known.
    """
    step = metric_width(metric) / examples if examples else 0.0
    if metric.of_each is None or not effect < step * (1 - 1e-9):
        return
    steps = (scores - metric.range[0]) / step
    if np.abs(steps - np.rint(steps)).max() < 1e-3:
        scale = 100 if metric.percent else 1
        least = f"{scale * step:.4g}"
        allowed = f"must be at least {least}: one of {examples:.0f} test examples moves {metric.name} by that"
        fix = f"Use {least} or more, or evaluate on {math.ceil(step * examples / effect)} test examples."
        raise ParameterError("smallest_effect", f"{scale * effect:.4g}", allowed, fix)


GROUPS: Final = 40
"""Groups of test examples that are left out together where one at a time would take too long."""


def shares(
    metric: Metric,
    run: IntArray,
    example: IntArray,
    labels: npt.NDArray[Any],
    predictions: npt.NDArray[Any],
    *,
    runs: int,
    examples: int,
    classes: int | None,
) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
    """Return the score of each run, and what each of its test examples adds to it.

    Parameters
    ----------
    metric
        One with a function.
    run, example, labels, predictions
        Shape (n,): one row per prediction; runs are numbers below `runs`, sorted, examples numbers below `examples`.
    runs, examples
        How many there are; each run has two predictions or more.
    classes
        How many classes are distinguished; None for numbers.

    Returns
    -------
    tuple of numpy.ndarray
        Scores, shape (runs,); and run, unit and share of each pair of a run and a unit, shape (m,), run by run. A unit
        is an example, or a group of them for metrics that are not a mean over examples (except F1 macro and Matthews').
        Shares of a run sum to 0.
    """
    sizes = np.bincount(run, minlength=runs)
    if metric.of_each is not None:
        values = metric.of_each(labels, predictions)
        scores = np.bincount(run, values, minlength=runs) / sizes
        return scores, run, example, (values - scores[run]) / sizes[run]
    if metric.name in _COUNTED and classes is not None:
        table = _Confusion(run, labels, predictions, runs, classes)
        scores, without = _COUNTED[metric.name](table)
        moved = (scores[run] - without) * (1 - 1 / sizes[run])
        return scores, run, example, moved - (np.bincount(run, moved, minlength=runs) / sizes)[run]
    group = np.random.default_rng(0).permutation(examples)[example] % GROUPS
    return _of_groups(metric, run, group, labels, predictions, classes)


class _Confusion:
    """How often each class is right, true and predicted in every run, shape (runs, classes)."""

    def __init__(self, run: IntArray, labels: IntArray, predictions: IntArray, runs: int, classes: int) -> None:
        width = max(classes, int(labels.max()) + 1, int(predictions.max()) + 1)

        def count(values: IntArray, chosen: npt.NDArray[np.bool_]) -> IntArray:
            places = run[chosen] * width + values[chosen]
            return np.bincount(places, minlength=runs * width).reshape(runs, width)

        self.run, self.labels, self.answered, self.classes = run, labels, predictions >= 0, classes
        self.is_right = labels == predictions
        self.named = np.where(self.answered, predictions, 0)
        self.right = count(labels, self.is_right)
        self.support = count(labels, np.ones(len(run), dtype=bool))
        self.predicted = count(predictions, self.answered)
        self.unparsed = np.bincount(run, ~self.answered, minlength=runs)


def _f1(table: _Confusion) -> tuple[FloatArray, FloatArray]:
    """Return F1 macro, a class that does not occur counted as 0, and what it is without each prediction."""

    def f1(right: npt.NDArray[Any], both: npt.NDArray[Any]) -> FloatArray:
        found: FloatArray = 2 * right / np.maximum(both, 1)
        return found

    both = table.support + table.predicted
    of_class = f1(table.right, both)
    total = of_class.sum(axis=1)
    run, true, named = table.run, table.labels, table.named
    hit, missed = table.is_right, ~table.is_right & table.answered
    without = total[run] - of_class[run, true] + f1(table.right[run, true] - hit, both[run, true] - 1 - hit)
    of_named = f1(table.right[run, named], both[run, named] - 1) - of_class[run, named]
    return total / table.classes, (without + np.where(missed, of_named, 0.0)) / table.classes


def _matthews(table: _Confusion) -> tuple[FloatArray, FloatArray]:
    """Return Matthews' correlation coefficient, 0 where undefined, and what it is without each prediction."""
    run, true, named, answered = table.run, table.labels, table.named, table.answered
    size, right = table.support.sum(axis=1), table.right.sum(axis=1)
    dot = (table.support * table.predicted).sum(axis=1)
    support = np.square(table.support).sum(axis=1)
    predicted = np.square(table.predicted).sum(axis=1) + table.unparsed**2

    def value(right: Any, dot: Any, size: Any, support: Any, predicted: Any) -> FloatArray:
        spread = (size**2 - support).astype(np.float64) * (size**2 - predicted)
        return np.where(spread > 0, (right * size - dot) / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)

    own = np.where(answered, table.predicted[run, named], table.unparsed[run])
    less = table.predicted[run, true] + np.where(answered, table.support[run, named], 0) - table.is_right
    without = value(
        right[run] - table.is_right,
        dot[run] - less,
        size[run] - 1,
        support[run] - 2 * table.support[run, true] + 1,
        predicted[run] - 2 * own + 1,
    )
    return value(right, dot, size, support, predicted), without


_COUNTED: Final = {"f1_macro": _f1, "matthews_corrcoef": _matthews}


def _of_groups(
    metric: Metric,
    run: IntArray,
    group: IntArray,
    labels: npt.NDArray[Any],
    predictions: npt.NDArray[Any],
    classes: int | None,
) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
    """Leave out a group of examples at a time, whatever the metric; a group is the same examples in every run."""
    scores, found = [], []
    starts = np.flatnonzero(np.r_[True, np.diff(run) > 0, True])
    for number, (start, end) in enumerate(pairwise(starts)):
        truth, guess, groups = labels[start:end], predictions[start:end], group[start:end]
        whole = score(metric, truth, guess, classes)
        present, sizes = np.unique(groups, return_counts=True)
        other_groups = [groups != each for each in present]
        without = [
            score(metric, truth[rest], guess[rest], classes) if rest.any() else math.nan for rest in other_groups
        ]
        share = (whole - np.array(without)) * (1 - sizes / len(groups))
        scores.append(whole)
        found.append((np.full(len(present), number), present, share - share.mean()))
    runs, units, moved = (np.concatenate(part) for part in zip(*found, strict=True))
    return np.array(scores), runs, units, moved

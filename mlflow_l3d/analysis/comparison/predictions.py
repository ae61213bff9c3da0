"""The systems that are compared, from predictions: what each test example adds to the score of each run.

That is the change of the score if the example is left out. For a score that is not a mean over examples (F1, Matthews')
it is the jackknife's linear part, and the two-way layout of runs x examples holds for it as it does for the accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.importance.tables import LARGEST_SCORE, SMALLEST_SCORE
from mlflow_l3d.analysis.intervals import FloatArray, IntArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import occurring
from mlflow_l3d.metrics.known import score, scores_without

ANSWERS: Final = ["example_id", "label", "prediction"]
"""Columns of a table of predictions."""
_DIFFERENT: Final = 1e-6
"""Where a recorded score is further from the one of the recorded predictions, they do not belong together."""


class Predictions(NamedTuple):
    """Predictions of the runs of one system, one row each.

    Attributes
    ----------
    run
        Number of the run among the scores of its system.
    example_id, label, prediction
        As the cells record them.
    """

    run: IntArray
    example_id: npt.NDArray[Any]
    label: npt.NDArray[Any]
    prediction: npt.NDArray[Any]


def join_predictions(parts: Iterable[tuple[int, Any]], runs: int) -> Predictions | None:
    """Return the predictions of so many runs from number and table of each; None if one has fewer than two."""
    arrays = [[np.full(len(table), number), *(table[name].to_numpy() for name in ANSWERS)] for number, table in parts]
    if not arrays:
        return None
    joined = Predictions(*(np.concatenate(part) for part in zip(*arrays, strict=True)))
    return joined if np.bincount(joined.run, minlength=runs).min() >= 2 else None


def graded(answers: Predictions | None, metric: Metric) -> Predictions | None:
    """Return texts as right (0, as every label), wrong (1) or none (-1) for a metric of classes; others unchanged."""
    if answers is None or answers.label.dtype != object or not metric.scores_classes:
        return answers
    right = np.where(answers.prediction == answers.label, 0, np.where(pd.isna(answers.prediction), -1, 1))
    return answers._replace(label=np.zeros(len(right), dtype=np.int64), prediction=right)


def systems(
    names: Sequence[str],
    scores: Sequence[FloatArray],
    configurations: Sequence[Mapping[str, npt.NDArray[Any]]],
    tables: Sequence[Predictions | None],
    metric: Metric,
    classes: int | None = None,
    examples: int | None = None,
) -> tuple[list[System], str]:
    """Return the systems that are to be compared, and why the luck of test examples is not counted, if it is not.

    Parameters
    ----------
    names, scores, configurations
        One a system, as :class:`System` has them.
    tables
        Predictions, one a system, two or more of each run, see :func:`join_predictions`; empty if there are none.
    metric
        What the scores are.
    classes
        How many classes are distinguished; by default those that occur.
    examples
        Test examples of a run, if there are no predictions; None if not known.

    Raises
    ------
    ParameterError
        If an example has two labels, or scores are so large or small that their squares are not known.
    """
    for name, runs_scores in zip(names, scores, strict=True):
        size = float(np.abs(runs_scores).max(initial=0.0))
        if not SMALLEST_SCORE <= (size or 1.0) <= LARGEST_SCORE:
            allowed = f"has scores of about {size:.0e} ({name}); {SMALLEST_SCORE:g} to {LARGEST_SCORE:g} are allowed"
            raise ParameterError("metric", metric.name, allowed, "Log it in another unit.")
    predictions = [each for each in tables if each is not None]
    if len(predictions) < len(names):
        predictions = []
    size = sum(len(each.run) for each in predictions) / sum(map(len, scores)) or float(examples or 0)
    width = metric_width(metric)
    plain = [System(*each, width=width, examples=size) for each in zip(names, scores, configurations, strict=True)]
    if not predictions:
        return plain, "not every run has predictions"
    if metric.function is None:
        return plain, f"runs report {metric.name} as a number; name a metric of their predictions to count it"
    codes, distinct = pd.factorize(np.concatenate([each.example_id for each in predictions]), sort=True)
    _check_examples(names, codes, distinct, predictions)
    values = [np.unique(part) for each in predictions for part in (each.label, each.prediction)]
    classes = max(classes or 0, occurring(*values)) if metric.scores_classes else None
    found, start = [], 0
    for name, own, configuration, each in zip(names, scores, configurations, predictions, strict=True):
        example = codes[start : start + len(each.run)]
        start += len(each.run)
        place = each.run * np.int64(len(distinct)) + example
        order = slice(None) if (np.diff(place) > 0).all() else np.argsort(place)
        run = each.run[order]
        example = example[order]
        label = each.label[order]
        guess = each.prediction[order]
        again, runs, units, share = shares(
            metric, run, example, label, guess, runs=len(own), examples=len(distinct), classes=classes
        )
        if not np.allclose(again, own, rtol=0, atol=_DIFFERENT):
            return plain, f"the recorded {metric.name} is not that of the recorded predictions"
        is_grouped, nothing = units is not example, np.zeros(0, dtype=bool)
        right = label == guess if metric.scores_classes and not is_grouped else nothing
        grouped = np.bincount(example, minlength=len(distinct)) > 0 if is_grouped else nothing
        cells = runs, units, share, right, len(distinct), grouped
        found.append(System(name, own, configuration, *cells, width, len(run) / len(own)))
    return found, ""


def _check_examples(names: Sequence[str], codes: IntArray, known: Any, predictions: Sequence[Predictions]) -> None:
    labels = np.concatenate([each.label for each in predictions])
    of_example = np.empty(len(known), dtype=labels.dtype)
    of_example[codes] = labels
    if (other := np.flatnonzero(of_example[codes] != labels)).size:
        place = other[0]
        both = " and ".join(map(str, sorted((labels[place], of_example[codes[place]]))))
        allowed = f"test example {known[codes[place]]} has the labels {both}"
        raise ParameterError("runs", ", ".join(names), allowed, "Compare systems on one task.")


def metric_width(metric: Metric) -> float:
    """Return the highest less the lowest value of a metric, 1 if it is read in percent; 0 if it has no bounds."""
    return metric.span if math.isfinite(metric.span) else float(metric.percent)


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
    if metric.name in _OF_EACH and classes is not None:
        parts = [scores_without(metric, labels[a:b], predictions[a:b], classes) for a, b in _slices(run)]
        scores = np.array([whole for whole, _ in parts])
        moved = np.concatenate([whole - without for whole, without in parts]) * (1 - 1 / sizes[run])
        return scores, run, example, moved - (np.bincount(run, moved, minlength=runs) / sizes)[run]
    # A group is the same examples in every run.
    group = np.random.default_rng(0).permutation(examples)[example] % GROUPS
    whole_scores = []
    found = []
    for number, (start, end) in enumerate(_slices(run)):
        truth, guess, groups = labels[start:end], predictions[start:end], group[start:end]
        whole_scores.append(score(metric, truth, guess, classes))
        present, counts = np.unique(groups, return_counts=True)
        kept = [groups != each for each in present]
        without = [score(metric, truth[rest], guess[rest], classes) if rest.any() else math.nan for rest in kept]
        share = (whole_scores[-1] - np.array(without)) * (1 - counts / len(groups))
        found.append((np.full(len(present), number), present, share - share.mean()))
    of_runs, units, moved = (np.concatenate(part) for part in zip(*found, strict=True))
    return np.array(whole_scores), of_runs, units, moved


_OF_EACH: Final = ("f1_macro", "matthews_corrcoef")
"""Metrics of classes that are not a mean over examples, of which single examples are left out."""


def _slices(run: IntArray) -> Iterator[tuple[int, int]]:
    """Yield where each run begins and ends."""
    return pairwise(np.flatnonzero(np.r_[True, np.diff(run) > 0, True]).tolist())

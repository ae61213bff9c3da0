"""What other examples would do: more labelled or test ones; the luck of test examples; which training ones help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from mlflow_l3d.analysis.cure import UNKNOWN, Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.ensembles import Array, Masks, Members, score_many, tests_of
from mlflow_l3d.analysis.intervals import FloatArray, IntArray, jackknife_variance, t_quantile
from mlflow_l3d.metrics.base import Metric


class Point(NamedTuple):
    """The spread and the mean of scores, with their intervals, at one number of examples."""

    size: int
    std: Range
    mean: Range


def other_labels(now: int, size: int) -> Remedy:
    """Return another number of labelled examples as a remedy."""
    return Remedy("more_data", changes={"num_labelled": size}, words=f"{size:,} labelled examples in place of {now:,}")


def more_labels(points: Sequence[Point], *, now: int, size: int, unknown: str) -> Prediction:
    """Return what another number of labelled examples would do, from points of the same context.

    Parameters
    ----------
    points
        At different sizes, each with intervals of 95 %.
    now
        The size of the investigation, one of the points.
    size
        The size to predict, above `now`.
    unknown
        The reason if nothing is: a single size, or one without an interval.

    Notes
    -----
    The line through the size of the investigation and the other one nearest to `size`: the logarithm of the spread, and
    the mean, over the logarithm of the size. Two sizes show no bend, and further ones mislead where it begins, so a
    line gives a range and no point (nan). The mean may stay (scores level off), or change twice as much (in proportion
    to the size), or times the growth of the variance: runs that begin to learn move the mean and the variance by one
    factor. Once most of them learn, the spread may fall in proportion to the size.
    """
    here = next((point for point in points if point.size == now), None)
    known = [point for point in points if point.std.low > 0 and math.isfinite(point.std.high)]
    others = [point for point in known if point.size != now]
    remedy = other_labels(now, size)
    before = here.std.value if here else math.nan
    if here not in known or here is None or not others:
        return Prediction(remedy=remedy, basis="unknown", std_before=before, reason=unknown)
    other = min(others, key=lambda point: abs(math.log(point.size / size)))
    step = math.log(size / now) / math.log(now / other.size)
    growth = (before / other.std.value) ** step
    wide_here, wide_other = (math.log(each.std.high / each.std.low) / 2 for each in (here, other))
    half = math.exp(math.hypot((1 + step) * wide_here, step * wide_other))
    half_change = abs(step) * math.hypot(*((each.mean.high - each.mean.low) / 2 for each in (here, other)))
    change = step * (here.mean.value - other.mean.value)
    std = low = high = before * growth
    ends = change, change
    if other.size != size:
        low = min(std, before * now / size)
        high = max(std, before * math.sqrt(now / size))
        ends = 0.0, change * max(2.0, growth**2)
        std = change = math.nan
    return Prediction(
        remedy=remedy,
        basis="extrapolated",
        std=Range(std, low / half, high * half),
        mean_change=Range(change, min(ends) - half_change, max(ends) + half_change),
        std_before=before,
    )


def more_tests(golden_std: Range, *, luck: float, now: int, size: int) -> Prediction:
    """Return what another number of test examples would do to the spread: a closed form.

    Parameters
    ----------
    luck
        Variance of a score that the choice of its `now` examples causes: of the accuracy a, ``a (1 - a) / now``, on
        average over runs; nan if unknown. Above the whole, within its interval, it is the whole.
    """
    reason = "unknown, as the metric is not known for other test examples: its function is missing"
    if math.isfinite(luck):
        is_part = 0 <= luck <= max(golden_std.value, golden_std.high) ** 2
        reason = "" if is_part else "the test examples seem to cause more than all of the spread"
        luck = min(luck, golden_std.value**2)
    change = luck * (now / size - 1)
    ends = [math.sqrt(max(0.0, end**2 + change)) if math.isfinite(end) else math.nan for end in golden_std]
    return Prediction(
        remedy=Remedy("more_data", changes={"test_size": size}, words=f"{size:,} test examples in place of {now:,}"),
        basis="unknown" if reason else "exact",
        std=UNKNOWN if reason else Range(*ends),
        ratio=UNKNOWN if reason else Range(*(one / end for one, end in zip(ends, golden_std, strict=True))),
        mean_change=Range(0.0, 0.0, 0.0),
        std_before=golden_std.value,
        reason=reason,
    )


_BLOCKS: Final = 100
_FEW: Final = 20
"""Blocks of examples that are left out; rows, and blocks, if each row has its own examples."""


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

    No ensemble takes this part of the spread away.

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


_FEWEST_RUNS: Final = 30
_FOLDS: Final = 10
_NOISE: Final = np.logspace(-2, 4, 25)
"""Variance of the noise, in units of what the examples of a run cause: candidates."""


class GoodExamples(NamedTuple):
    """Effects of single examples.

    `r2` is the share of the variance of scores of runs that were held out; `best` has the places of the best set, empty
    without a signal, and the prediction its change of the mean.
    """

    r2: Range
    best: IntArray
    prediction: Prediction


class _Fit(NamedTuple):
    """What is likely of the effects: the expected ones, shape (E,), and for each candidate of the noise, shape (G,).

    Its weight, the variance of one effect, and the variances of the scores in the directions `vectors`, shape (G, R);
    `projected` are the scores in them.
    """

    effects: FloatArray
    weights: FloatArray
    variances: FloatArray
    sums: FloatArray
    vectors: FloatArray
    projected: FloatArray


def which_examples(
    included: Masks, scores: FloatArray, *, factor: str, groups: Array | None = None, metric: Metric | None = None
) -> GoodExamples:
    """Return the best fixed set of examples, if single examples have an effect that can be seen.

    Parameters
    ----------
    included
        Shape (R, E): which examples each run trained on, or was shown.
    scores
        Shape (R,): score of each run.
    factor
        The factor that drew them.
    groups
        Shape (E,): the class of each example; the best set then has of each as many as runs had on average.
    metric
        Says whether greater is better, as without it, and between which scores every mean lies.

    Notes
    -----
    Effects are independent draws of one normal distribution, whose variance and that of the noise maximise the
    likelihood of the scores; their expectation given the scores is a ridge regression, so it is shrunk as much as it
    must be, and the gain of the set that looks best is not overstated. R2 is computed on ten parts of the runs, each
    predicted from the others, variances estimated again each time.
    """
    scores = np.asarray(scores, dtype=np.float64)
    remedy = Remedy("fixed_examples", (factor,))
    r2 = UNKNOWN
    why = f"{len(scores)} runs: at least {_FEWEST_RUNS} with different examples and scores are needed"
    if len(scores) >= _FEWEST_RUNS and np.ptp(scores) > 0 and not (included == included[0]).all():
        r2 = _held_out(included, scores)
        why = f"no signal (R2 on held-out runs: {r2.value:z.2f}, {r2.low:z.2f} to {r2.high:z.2f})"
    if not r2.low > 0:
        return GoodExamples(r2, np.zeros(0, dtype=np.int64), Prediction(remedy=remedy, basis="unknown", reason=why))
    sign, limits = (1, (-math.inf, math.inf)) if metric is None else (metric.sign, metric.range)
    fit = _fit(included, scores)
    centre = included.mean(axis=0)
    groups = np.zeros(len(centre)) if groups is None else np.asarray(groups)
    best = []
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group)
        count = round(float(centre[places].sum()))
        best.append(places[np.argsort(-sign * fit.effects[places], kind="stable")[:count]])
    chosen = np.sort(np.concatenate(best))
    change = np.isin(np.arange(len(centre)), chosen) - centre
    # For each candidate of the noise: the expected gain, and its variance.
    along = fit.vectors.T @ ((included - centre) @ change)
    gains = (along * fit.projected / fit.sums).sum(axis=1)
    gain = float(fit.weights @ gains)
    left = fit.variances * (change @ change - (along**2 / fit.sums).sum(axis=1)) + (gains - gain) ** 2
    half = t_quantile(len(scores) - 1) * math.sqrt(max(0.0, float(fit.weights @ left)))
    lowest, highest = (end - float(scores.mean()) for end in limits)
    mean_change = Range(*np.clip((gain, gain - half, gain + half), lowest, highest).tolist())
    return GoodExamples(r2, chosen, Prediction(remedy=remedy, basis="extrapolated", mean_change=mean_change))


def _fit(included: Masks, scores: FloatArray) -> _Fit:
    design = included - included.mean(axis=0)
    kernel = design @ design.T
    centred = scores - scores.mean()
    # The mean is known to be 0, so its direction, made the last one, says nothing of the noise.
    values, vectors = np.linalg.eigh(kernel + 2 * np.trace(kernel) / len(scores))
    values, vectors = np.maximum(values[:-1], 0), vectors[:, :-1]
    projected = vectors.T @ centred
    noises = _NOISE * np.trace(kernel) / len(scores)
    sums = values + noises[:, None]
    variances = (projected**2 / sums).mean(axis=1)
    likelihood = -(np.log(sums).sum(axis=1) + len(projected) * np.log(variances)) / 2
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    effects = design.T @ (vectors @ (weights @ (projected / sums)))
    return _Fit(effects, weights, variances, sums, vectors, projected)


def _held_out(included: Masks, scores: FloatArray) -> Range:
    errors, spreads = np.empty(len(scores)), np.empty(len(scores))
    order = np.random.default_rng(len(scores)).permutation(len(scores))
    for fold in np.array_split(order, _FOLDS):
        rest = np.setdiff1d(order, fold)
        mean = scores[rest].mean()
        predicted = mean + (included[fold] - included[rest].mean(axis=0)) @ _fit(included[rest], scores[rest]).effects
        errors[fold] = (scores[fold] - predicted) ** 2
        spreads[fold] = (scores[fold] - mean) ** 2
    value = 1 - errors.sum() / spreads.sum()
    left = 1 - (errors.sum() - errors) / (spreads.sum() - spreads)
    half = t_quantile(len(scores) - 1) * math.sqrt(jackknife_variance(left))
    return Range(float(value), float(value - half), float(value + half))

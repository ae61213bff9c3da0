"""Which training examples or shots are good: ridge regression of scores over the examples that runs included."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from mlflow_l3d.analysis.cure.ensembles import Array, Masks
from mlflow_l3d.analysis.cure.remedy import UNKNOWN, Prediction, Range, Remedy
from mlflow_l3d.analysis.intervals import FloatArray, IntArray, jackknife_variance, t_quantile

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


def which_examples(included: Masks, scores: FloatArray, *, factor: str, groups: Array | None = None) -> GoodExamples:
    """Return the best fixed set of examples, if single examples have an effect that can be seen.

    Parameters
    ----------
    included
        Shape (R, E): which examples each run trained on, or was shown.
    scores
        Shape (R,): score of each run, greater is better.
    factor
        The factor that drew them.
    groups
        Shape (E,): the class of each example; the best set then has of each as many as runs had on average.

    Notes
    -----
    Effects are independent draws of one normal distribution, whose variance and that of the noise maximise the
    likelihood of the scores; their expectation given the scores is a ridge regression, so it is shrunk as much as it
    must be, and the gain of the set that looks best is not overstated. R2 is computed on ten parts of the runs, each
    predicted from the others, variances estimated again each time.
    """
    scores = np.asarray(scores, dtype=np.float64)
    remedy = Remedy("fixed_examples", (factor,))

    def unknown(r2: Range, why: str) -> GoodExamples:
        return GoodExamples(r2, np.zeros(0, dtype=np.int64), Prediction(remedy=remedy, basis="unknown", reason=why))

    if len(scores) < _FEWEST_RUNS or not np.ptp(scores) > 0 or (included == included[0]).all():
        return unknown(
            UNKNOWN, f"{len(scores)} runs: at least {_FEWEST_RUNS} with different examples and scores are needed"
        )
    r2 = _held_out(included, scores)
    if not r2.low > 0:
        return unknown(r2, f"no signal: R2 on held-out runs is {r2.value:z.2f} [{r2.low:z.2f}, {r2.high:z.2f}]")
    fit = _fit(included, scores)
    centre = included.mean(axis=0)
    groups = np.zeros(len(centre)) if groups is None else np.asarray(groups)
    best = []
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group)
        count = round(float(centre[places].sum()))
        best.append(places[np.argsort(-fit.effects[places], kind="stable")[:count]])
    chosen = np.sort(np.concatenate(best))
    change = np.isin(np.arange(len(centre)), chosen) - centre
    # For each candidate of the noise: the expected gain, and its variance.
    along = fit.vectors.T @ ((included - centre) @ change)
    gains = (along * fit.projected / fit.sums).sum(axis=1)
    gain = float(fit.weights @ gains)
    left = fit.variances * (change @ change - (along**2 / fit.sums).sum(axis=1)) + (gains - gain) ** 2
    half = t_quantile(len(scores) - 1) * math.sqrt(max(0.0, float(fit.weights @ left)))
    prediction = Prediction(remedy=remedy, basis="extrapolated", mean_change=Range(gain, gain - half, gain + half))
    return GoodExamples(r2, chosen, prediction)


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
        errors[fold], spreads[fold] = (scores[fold] - predicted) ** 2, (scores[fold] - mean) ** 2
    value = 1 - errors.sum() / spreads.sum()
    left = 1 - (errors.sum() - errors) / (spreads.sum() - spreads)
    half = t_quantile(len(scores) - 1) * math.sqrt(jackknife_variance(left))
    return Range(float(value), float(value - half), float(value + half))

"""Metrics by name and by kind of task, ours and those of other packages; and the scores of one set of predictions."""

from __future__ import annotations

import copyreg
import logging
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d import registry
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics import classification, regression, sequences
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.forms import form_of

_ERRORS: Final = frozenset(
    {"loss", "error", "errors", "mae", "mse", "rmse", "rmsle", "mape", "perplexity", "wer", "cer", "ter", "nll", "bpc"}
)
"""Words in names of metrics of which less is better, and which are not fractions."""
_SHARES: Final = re.compile(
    "accuracy|acc|f1|precision|recall|auc|auroc|auprc|em|exact|match|mcc|matthews|kappa|iou|dice|ndcg|mrr|bleu|rouge[1l]?"
    r"|map\d*"
)
"""Words in names of metrics that lie between 0 (or -1) and 1, or are written in percent."""
_PASSED: Final = re.compile(r"(?<![^\W_])pass(?:@|_at_)\d")
"""Pass@1 is such a metric, while ``pass: 3`` is a count."""
_OF_OTHER_MAPS: Final = frozenset({"feature", "features", "attention", "saliency", "size", "estimate"})
"""Next to one of these words, ``map`` does not mean the mean average precision."""

_LOWER: Final = re.compile(
    "seconds|duration|latency|runtime|time|cost|brier|ece|fpr|fnr|fdr|false|eer|ber|fid|ppl|bpb|aic|bic|smape|msle|crps"
    "|divergence|distance|regret|toxicity|hallucination|misclassification|forgetting|harmful|lpips|chamfer|epe|mpjpe"
    "|err|nrmse|rmsd|medae|(cross)?entropy|xent|kld?|bits|deviance|surprisal|hinge|pinball|mistakes|failures|violations"
)
"""More words in names of numbers of which less is better, and which alone make no score."""
_FRACTIONS: Final = frozenset(
    {"share", "rate", "fraction", "success", "consistency", "agreement", "synthetic", "judge", "hits"}
)
"""More words in names of metrics that are read in percent."""

_logger = logging.getLogger(__name__)


@cache
def registered() -> Mapping[str, Metric]:
    """Return name -> metric: ours, then those of the entry-point group ``mlflow_l3d.metrics``, sorted.

    An entry point that cannot be used is left out with a warning, so that a broken package costs its metric only.
    """
    metrics = {metric.name: metric for each in (classification, regression, sequences) for metric in each.METRICS}
    for name in registry.names("metric"):
        try:
            metric = registry.load("metric", name)
        except L3DError as error:
            _warn(str(error))
            continue
        if name in metrics or not isinstance(metric, Metric) or metric.name != name or metric.function is None:
            _warn(f"metric={name}: is not a Metric with a function of this name, or is built in. Left out.")
        else:
            metrics[name] = metric
    return metrics


def named(name: str) -> Metric:
    """Return the metric of a name.

    Of one that only an approach knows the name alone says more: of ``rmse``, ``validation_loss`` and the like smaller
    is better, unless ``:higher`` follows. Names with a word such as ``acc`` or ``share`` are read in percent, all
    others in their own unit.
    """
    alone, is_higher = split_direction(name)
    if is_higher is not None and name not in registered():
        return replace(named(alone), greater_is_better=is_higher)
    words = _words(name)
    is_lower = _is_lower(words)
    percent = not is_lower and (not _FRACTIONS.isdisjoint(words) or is_share(name))
    return registered().get(name, Metric(name, greater_is_better=not is_lower, percent=percent))


def assumed_direction(metric: Metric) -> str:
    """Return that more is taken to be better, and how to turn it, if the name of a metric does not say; else ""."""
    says = metric.name in registered() or metric.percent or sounds_like_metric(metric.name)
    if says or not metric.greater_is_better:
        return ""
    fix = f"if less is, evaluate, compare and gate its runs with --metric {metric.name}:lower"
    return f"Of {metric.name} more is taken to be better: {fix}."


def split_direction(text: str) -> tuple[str, bool | None]:
    """Return the name of a metric, and whether greater values are better if ``:lower`` or ``:higher`` follows it."""
    name, _, word = text.rpartition(":")
    return (name, word == "higher") if word in ("lower", "higher") else (text, None)


def _is_lower(words: list[str], *, is_score: bool = False) -> bool:
    """Return whether less is better: the last word that names a metric decides, and a negation turns errors around.

    ``logloss`` is an error; ``error_detection_f1`` and ``neg_mean_squared_error`` are scores. If the metric `is_score`,
    words that alone make none do not count.
    """
    negated = not {"neg", "negative", "negated", "free"}.isdisjoint(words) and "false" not in words
    if "likelihood" in words:
        return negated
    errors = [word for word in words if word in _ERRORS or word.endswith(("loss", "error"))]
    errors += [] if is_score else filter(_LOWER.fullmatch, words)
    last = next((word for word in reversed(words) if word in errors or _SHARES.fullmatch(word)), "")
    return last in errors and not negated


def _by_name(metric: Metric) -> tuple[Any, ...] | str:
    """Pickle and copy a registered metric by its name, since functions inside functions cannot be pickled."""
    if registered().get(metric.name) is metric:
        return named, (metric.name,)
    return metric.__reduce_ex__(2)


copyreg.pickle(Metric, _by_name)


def typed_name(metric: Metric) -> str:
    """Return the name from which :func:`named` makes the metric: with its direction, if the name says another."""
    if named(metric.name).greater_is_better == metric.greater_is_better:
        return metric.name
    return f"{metric.name}:{'higher' if metric.greater_is_better else 'lower'}"


def as_metric(metric: Metric | str) -> Metric:
    """Return a metric as it is, and the metric of a name."""
    return named(metric) if isinstance(metric, str) else metric


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+[0-9]*", name.lower())


def is_share(name: str) -> bool:
    """Return whether a metric lies between 0 (or -1) and 1: as is known, or as its name says."""
    metric = registered().get(name)
    if metric is not None:
        return math.isfinite(metric.range[1])
    words = _words(name)
    if not _OF_OTHER_MAPS.isdisjoint(words):
        words = [word for word in words if word != "map"]
    return not _is_lower(words) and (any(map(_SHARES.fullmatch, words)) or bool(_PASSED.search(name)))


def sounds_like_metric(name: str) -> bool:
    """Return whether a metric has this name, or a word in it says that it is one."""
    words = _words(name)
    has_word = _is_lower(words, is_score=True) or not {*_ERRORS, "score", "hits", "r2"}.isdisjoint(words)
    return has_word or is_share(name) or name in registered()


def of_kind(kind: str, *, secondary: bool = True) -> tuple[Metric, ...]:
    """Return the metrics that every approach has on a kind of task, with or without the secondary ones.

    The first is the default of the kind.
    """
    every = (each for each in registered().values() if kind in each.kinds and not each.opt_in and _installed(each))
    return tuple(each for each in every if secondary or not each.secondary)


@cache
def _installed(metric: Metric) -> bool:
    """Return whether what a metric needs is there."""
    return not metric.needs or find_spec(metric.needs) is not None


def check_installed(metric: Metric) -> None:
    """Raise if what a metric needs is not there; the error names the command that installs it."""
    if not _installed(metric):
        package = metric.needs.replace("_", "-")
        raise L3DError(f"metric={metric.name}: needs the package {package}. Run: pip install 'mlflow-l3d[agreement]'")


def scores_of(
    labels: npt.ArrayLike,
    predictions: npt.ArrayLike,
    kind: str = "classification",
    *,
    classes: int | None = None,
    only: Collection[str] = (),
    own: Collection[str] = (),
) -> dict[str, float]:
    """Return the scores of predictions by name.

    Parameters
    ----------
    labels
        Shape (n,): true class numbers, 0 or above; of a regression finite numbers; of other kinds as
        :mod:`mlflow_l3d.metrics.forms` says.
    predictions
        Shape (n,): likewise; the class -1 is an answer that names no class.
    kind
        That of the task.
    classes
        How many classes are distinguished; None for those that occur here. Not looked at if there are none.
    only
        Names of metrics of the kind; empty means all that every approach has.
    own
        Names of further metrics of the approach; of what only the approach can compute nothing is said.

    Returns
    -------
    dict
        Without a metric that has no value here, or whose function fails: a warning reports it.

    Raises
    ------
    ValueError
        If the arrays are empty, differ in length, or hold anything else.
    """
    form = form_of(kind)
    truth, guess = form.labels(labels), form.predictions(predictions)
    if len(truth) != len(guess) or not len(truth):
        raise ValueError(f"labels and predictions must be equally many, at least one: {len(truth)} and {len(guess)}")
    wanted_names = {*only} or {*own, *(metric.name for metric in of_kind(kind))}
    metrics = [each for each in registered().values() if each.name in wanted_names and kind in each.kinds]
    of_classes = classes if form.has_classes else None
    scores = {metric.name: score(metric, truth, guess, of_classes) for metric in metrics}
    return {name: value for name, value in scores.items() if math.isfinite(value)}


def score(metric: Metric, labels: npt.NDArray[Any], predictions: npt.NDArray[Any], classes: int | None = None) -> float:
    """Return one score of checked arrays; nan if there is none, with a warning where the function fails.

    Parameters
    ----------
    metric
        One with a function.
    labels, predictions
        As :class:`mlflow_l3d.metrics.base.Metric` says.
    classes
        How many classes are distinguished; None if that is not known, or there are none.
    """
    try:
        if classes is not None and metric.of_classes is not None:
            return float(metric.of_classes(labels, predictions, classes))
        return math.nan if metric.function is None else float(metric.function(labels, predictions))
    except Exception as error:  # noqa: BLE001 - another package's function may raise anything
        _warn(f"metric={metric.name}: has no value for some predictions ({type(error).__name__}: {error}).")
        return math.nan


@cache
def _warn(message: str) -> None:
    """Warn once in each process."""
    _logger.warning("%s", message)


def pseudo_values(
    metric: Metric, labels: npt.NDArray[Any], predictions: npt.NDArray[Any], classes: int | None = None
) -> npt.NDArray[np.float64]:
    """Return the jackknife's pseudo-values of a score: one per example, whose mean is the score but for its bias.

    Parameters
    ----------
    metric
        Has a function.
    labels, predictions
        Shape (n,), n at least 2, as the metric takes them.
    classes
        How many classes are distinguished.

    Returns
    -------
    numpy.ndarray
        Shape (n,): ``n s - (n - 1) s_i`` with the score ``s_i`` without example i. Of the accuracy: 1 where right.
    """
    if metric.of_each is not None:
        return metric.of_each(labels, predictions)
    whole, without = scores_without(metric, labels, predictions, classes)
    return len(labels) * whole - (len(labels) - 1) * without


def scores_without(
    metric: Metric, labels: npt.NDArray[Any], predictions: npt.NDArray[Any], classes: int | None
) -> tuple[float, npt.NDArray[np.float64]]:
    """Return the score, and that without each example, shape (n,); parameters as for :func:`pseudo_values`."""
    import pandas as pd

    # Examples with equal label and prediction are worth the same.
    pairs = np.stack([pd.factorize(labels)[0], pd.factorize(predictions)[0]])
    _, first, kind = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    without = [score(metric, np.delete(labels, place), np.delete(predictions, place), classes) for place in first]
    return score(metric, labels, predictions, classes), np.array(without)[kind.reshape(-1)]

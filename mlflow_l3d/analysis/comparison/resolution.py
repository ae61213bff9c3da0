"""What a difference can show at best: runs that are all alike leave an error, and an answer is right or wrong."""

from __future__ import annotations

import math

import numpy as np

from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric


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

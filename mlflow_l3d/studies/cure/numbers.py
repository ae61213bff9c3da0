"""What a trained remedy shows next to what was predicted: whether it leaves less spread, and no lower mean."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.consistency import Stability
from mlflow_l3d.analysis.cure import CHANGING, UNKNOWN, Prediction, Range, Remedy, helping, simplest
from mlflow_l3d.analysis.importance.shape import guessing_runs
from mlflow_l3d.analysis.importance.tables import std_interval
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, known, ratio_interval, t_quantile
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.gate.numbers import measure

Verdict: TypeAlias = Literal["verified", "open", "refuted"]


def against_collapse(predictions: Iterable[Prediction]) -> Prediction | None:
    """Return the remedy for runs that collapse: the first other training, or prompt, that was not tried; or None."""
    return next((each for each in predictions if each.remedy.kind in CHANGING and each.basis == "unknown"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A remedy that was trained.

    Attributes
    ----------
    prediction
        What was predicted of it, its standard deviation scaled to that of these pairs without the remedy.
    run_id
        Parent of its golden runs.
    runs, failed, collapsed
        Pairs of golden runs that are compared, with equal configurations; runs without a score; and those of all these
        runs that collapsed.
    plain, cured
        Standard deviations without and with it (ddof=1), with intervals.
    ratio
        The second over the first, with the interval of :func:`spread_ratio`.
    mean_change
        Mean score with it less mean score without, paired; with its interval.
    consistency, plain_consistency
        Share of predictions on which two golden runs agree, with it and without; nan if unknown.
    """

    prediction: Prediction
    run_id: str
    runs: int
    failed: int = 0
    collapsed: int = 0
    plain: Range = UNKNOWN
    cured: Range = UNKNOWN
    ratio: Range = UNKNOWN
    mean_change: Range = UNKNOWN
    consistency: float = math.nan
    plain_consistency: float = math.nan

    @property
    def pairs(self) -> str:
        """How many pairs are compared, and how many have a run without a score."""
        return counted(self.runs, "pair") + (f", {self.failed} failed" if self.failed else "")

    @property
    def over_predicted(self) -> Range:
        """The ratio over the predicted one, with the errors of both; the prediction is doubtful if it is not 1."""
        predicted = self.prediction.ratio
        return self.ratio.times(Range(*(1 / each for each in predicted))) if predicted.low > 0 else UNKNOWN

    @property
    def outside(self) -> list[str]:
        """Which of mean, and std without a predicted point, have no value in common with the predicted range."""
        made, is_range = self.prediction, math.isnan(self.prediction.std.value)
        pairs = {"std": (self.cured, made.std if is_range else UNKNOWN), "mean": (self.mean_change, made.mean_change)}
        return [name for name, (one, other) in pairs.items() if one.low > other.high or one.high < other.low]

    @property
    def roughness(self) -> str:
        """Why intervals of the spread do not hold: few runs collapsed; empty if they do."""
        # With fewer, but some, intervals of a ratio of standard deviations cover as little as 63 %.
        if 0 < self.collapsed < 5:
            return f"{self.collapsed} of {2 * self.runs} runs collapsed: intervals may be too short"
        return ""

    @property
    def less_spread(self) -> Verdict:
        """Whether it leaves less spread, at the level of the intervals; open if these do not hold."""
        ratio = UNKNOWN if self.roughness else self.ratio
        return "verified" if ratio.high < 1 else "refuted" if ratio.low > 1 else "open"

    def mean_kept(self, smallest_effect: float, sign: float) -> Verdict:
        """Return whether the mean is not lower: by less than the smallest effect; `sign` is -1 if less is better."""
        low, high = sorted((sign * self.mean_change.low, sign * self.mean_change.high))
        return "verified" if low > -smallest_effect else "refuted" if high < 0 else "open"


def spread_ratio(plain: FloatArray, cured: FloatArray, level: float = LEVEL) -> Range:
    """Return the ratio of two standard deviations of paired scores, cured over plain, and its interval.

    Parameters
    ----------
    plain, cured
        Shape (L,): scores of the same configurations, finite.
    level
        Confidence level.

    Notes
    -----
    A jackknife of the logarithm, which leaves out one pair at a time (Miller 1968, "Jackknifing variances", Annals of
    Mathematical Statistics 39): it takes the correlation of a pair and the tails of scores from the data. The test of
    Pitman and Morgan, a correlation of sums and differences, assumes normal pairs, and an F test independent ones, too.
    """
    ratio = _ratio(plain, cured)
    left_out = np.array([_ratio(np.delete(plain, at), np.delete(cured, at)) for at in range(len(plain))])
    return Range(ratio, *ratio_interval(ratio, left_out, level=level))


def _ratio(plain: FloatArray, cured: FloatArray) -> float:
    std = float(plain.std(ddof=1)) if len(plain) > 1 else 0.0
    return float(cured.std(ddof=1)) / std if std > 0 else math.nan


def verify(
    verified: Verified, plain: FloatArray, cured: FloatArray, level: float = LEVEL, *, chance: float | None = None
) -> Verified:
    """Return a verified remedy with its numbers.

    Parameters
    ----------
    verified
        The remedy, and what else its runs show.
    plain, cured
        Shape (L,): scores of the same configurations, nan if a run has none.
    level
        Confidence level.
    chance
        Score of guessing; None if there is none.
    """
    both = np.isfinite(plain) & np.isfinite(cured)
    verified = replace(verified, runs=int(both.sum()), failed=int((~both).sum()))
    if verified.runs < 2:
        return verified
    plain, cured = plain[both], cured[both]
    numbers = {"run": np.flatnonzero(both)}
    measured, _ = measure(System("cured", cured, numbers), System("plain", plain, numbers), count_examples=False)
    half = t_quantile(float(measured.degrees), level) * float(measured.error)
    change = float(measured.difference)
    made = verified.prediction
    std = float(plain.std(ddof=1))
    scale = (std or math.nan) / (made.std_before or math.nan)  # of equal scores nothing is known
    scaled = Range(*(scale * end for end in made.std))
    return replace(
        verified,
        prediction=replace(made, std=scaled, std_before=std),
        collapsed=guessing_runs(np.append(plain, cured), chance),
        plain=Range(std, *std_interval(plain, level=level)),
        cured=Range(float(cured.std(ddof=1)), *std_interval(cured, level=level)),
        ratio=spread_ratio(plain, cured, level),
        mean_change=Range(change, change - half, change + half),
    )


def agreement(tables: Iterable[pd.DataFrame | None]) -> float:
    """Return the share of predictions on which two golden runs agree; nan if it is not known."""
    stability = Stability(design_named("crossed").comparable(()))  # that of the paper
    for number, table in enumerate(tables):
        if table is None or table["prediction"].dtype.kind not in "iu":
            return math.nan
        place: dict[str, Any] = {"phase": "golden", "factor": None, "row": None, "column": None, "index": number}
        ids, labels, predictions = (table[name].to_numpy() for name in ("example_id", "label", "prediction"))
        stability.add(**place, example_ids=ids, labels=labels, predictions=predictions)
    golden = stability.consistencies().get("golden")
    return math.nan if golden is None else golden.consistency


@dataclass(frozen=True, kw_only=True)
class CureAnswer:
    """What would leave less luck, and what did.

    Attributes
    ----------
    metric, std, mean
        The metric; standard deviation (ddof=1) and mean of independent runs, in the unit of the scores.
    golden_std
        Their standard deviation as published (ddof=0).
    predictions
        All remedies, best first.
    verified
        Those that were trained.
    stored
        Golden runs that they could be compared with.
    smallest_effect
        Largest fall of a mean that counts as none.
    level
        Of the intervals of verified remedies: .95 of all of them together.
    collapsed, runs
        How many of the independent runs collapsed, see :attr:`.Gathered.collapsed`.
    is_pooled
        Whether rows of the tables are the golden runs.
    reasons
        What could not be predicted or verified, one line each.
    tried, upcoming
        Remedies of which golden runs were trained, by this command or before; and the next best ones, at most two.
    """

    metric: Metric
    std: float
    mean: float
    predictions: tuple[Prediction, ...]
    verified: tuple[Verified, ...] = ()
    stored: int = 0
    smallest_effect: float = 0.01
    golden_std: float = math.nan
    level: float = LEVEL
    collapsed: int = 0
    runs: int = 0
    is_pooled: bool = False
    reasons: tuple[str, ...] = ()
    tried: tuple[Remedy, ...] = ()
    upcoming: tuple[Prediction, ...] = ()

    @property
    def best(self) -> Verified | None:
        """The trained remedy that is established to leave less spread, and not a lower mean; None if there is none."""
        less = (each for each in self.ranked if each.less_spread == "verified")
        return next((each for each in less if self.mean_kept(each) != "refuted"), None)

    @property
    def ranked(self) -> list[Verified]:
        """The trained remedies: those that keep the mean first, then those that may; of these the least spread."""
        order = ("verified", "open", "refuted")
        with_ratio = sorted(self.verified, key=lambda each: (not each.ratio.value >= 0, each.ratio.value))
        return sorted(with_ratio, key=lambda each: order.index(self.mean_kept(each)))

    @property
    def leading(self) -> Verified | None:
        """The best trained remedy, or else the first of :attr:`ranked`; None if none was trained."""
        return self.best or next(iter(self.ranked), None)

    def mean_kept(self, verified: Verified) -> Verdict:
        """Return whether the mean of a trained remedy is not lower."""
        return verified.mean_kept(self.smallest_effect, self.metric.sign)

    def shown(self) -> list[Prediction]:
        """Return one known prediction of each kind over the same factors; those that help come first."""
        first = self.helping()
        rest = sorted(simplest(self.predictions), key=lambda each: each.std.value)
        return [*first, *(each for each in rest if each not in first)]

    def helping(self) -> list[Prediction]:
        """Return the remedies that are predicted to help a single result, best first."""
        return helping(self.predictions, self.std, self.metric.sign)

    @property
    def chosen(self) -> Prediction | None:
        """What is predicted of the remedy that a first screen is about; None if none helps."""
        if self.leading:
            return self.leading.prediction
        return against_collapse(self.predictions) if self.collapsed else next(iter(self.helping()), None)

    def metrics(self) -> dict[str, float]:
        """Return what MLflow holds: the spread without a remedy, and with the trained one that leads."""
        values = {"golden_std": self.golden_std, "score_mean": self.mean}
        if (best := self.leading) is not None:
            values |= {"cured_std": best.cured.value, "cured_mean_change": best.mean_change.value}
            values |= {"predicted_std": best.prediction.std.value, "std_ratio": best.ratio.value}
        return known(values)

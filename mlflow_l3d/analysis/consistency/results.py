"""Records of agreement: of one group of runs, and how much of the instability of predictions a factor explains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.intervals import FloatArray, known, means_without, ratio_interval


@dataclass(frozen=True, slots=True)
class Consistency:
    """Agreement of single predictions between runs (Zhou et al. 2025, equations 2 and 3).

    Attributes
    ----------
    group
        A factor (runs of one row, averaged over rows: only that factor differs), or ``golden`` (every factor differs).
    consistency, correct_consistency
        CON and CCON: share of pairs of runs that agree on an example, and that agree and are right.
    runs, groups, pairs_of_predictions
        Runs in groups of two or more, groups averaged over, and comparisons behind the numbers.
    unparsed_share
        Share of predictions that name no class (-1); they agree with nothing.
    common_examples
        Mean number of examples that a pair of runs of a group shares, pairs that share none included.
    fleiss_kappa
        Agreement beyond chance, whose observed agreement is CON; nan if all predict one class.
    accuracy_std
        Standard deviation of the accuracy within a group: root of the mean over groups of the variance (ddof=1).
    accuracy_std_population
        The same without the noise of a finite test set (:func:`population_variance`); 0 if the test
        set alone explains the spread, nan if runs of a group have different test sets.
    """

    group: str
    consistency: float
    correct_consistency: float
    runs: int
    groups: int
    pairs_of_predictions: int
    unparsed_share: float
    common_examples: float = math.nan
    fleiss_kappa: float = math.nan
    accuracy_std: float = math.nan
    accuracy_std_population: float = math.nan

    @property
    def pairs_of_runs(self) -> float:
        """How many pairs of runs there are, those without a shared example included; nan if not known."""
        return round(self.pairs_of_predictions / self.common_examples) if self.common_examples > 0 else math.nan

    @property
    def agreement_on_wrong(self) -> float:
        """CON - CCON: share of pairs that give the same wrong answer."""
        return self.consistency - self.correct_consistency

    def metrics(self) -> dict[str, float]:
        """Return the parent metrics of this group, by their plain names; those that are nan are left out."""
        return known({"consistency": self.consistency, "correct_consistency": self.correct_consistency})

    def details(self) -> dict[str, float]:
        """Return the further metrics that a finished parent has; those that are nan are left out."""
        names = ("fleiss_kappa", "accuracy_std", "accuracy_std_population", "unparsed_share")
        return known({name: float(getattr(self, name)) for name in names})


def population_variance(accuracies: npt.ArrayLike, correct_consistency: float, examples: int) -> float:
    """Return the variance of the accuracy that an infinite test set would leave.

    Parameters
    ----------
    accuracies
        Shape (S,): accuracy of each run on the same n examples, fractions; nan if a run is missing.
    correct_consistency
        CCON of the same runs: mean over pairs of runs of the share of examples that both have right.
    examples
        n.

    Returns
    -------
    float
        In squared units of the accuracy; below zero where runs differ less than the test set alone lets expect. nan
        below two runs or examples.

    Notes
    -----
    ``s2_pop = (n s2 - (Abar - CCON)) / (n - 1)`` with the sample variance s2 (ddof=1) and the mean accuracy Abar.
    Unbiased where the examples are drawn independently of each other: equally good runs have 0 on average, though s2
    does not. For the accuracy only, and for one test set that all runs share.
    """
    values = np.asarray(accuracies, dtype=np.float64).reshape(-1)
    finite_values = values[np.isfinite(values)]
    if len(finite_values) < 2 or examples < 2 or not math.isfinite(correct_consistency):
        return math.nan
    spread = examples * float(finite_values.var(ddof=1))
    return (spread - (float(finite_values.mean()) - correct_consistency)) / (examples - 1)


def population_std(accuracies: npt.ArrayLike, correct_consistency: float, examples: int) -> float:
    """Return the root of :func:`population_variance`, 0 if that is below zero."""
    return root(population_variance(accuracies, correct_consistency, examples))


def root(variance: float) -> float:
    """Return the root of a variance, 0 if it is below zero and nan if it is nan."""
    return math.nan if math.isnan(variance) else math.sqrt(max(0.0, variance))


@dataclass(frozen=True, slots=True)
class PredictionImportance:
    """Importance of a factor for single predictions, next to its importance for the score.

    Attributes
    ----------
    factor
        The investigated factor.
    share
        ``(1 - CON within rows) / (1 - CON of golden runs)``: the total Sobol index of the one-hot predictions, that is
        the share of their variance that changing this factor alone causes. Not cut at 1: by chance, or where the
        golden runs are too alike, it may lie above. nan where golden runs never disagree.
    share_ci_low, share_ci_high
        95 % jackknife interval of it, not cut either.
    importance
        ``sqrt(share) - sqrt(1 - share)`` with the share cut at 1: on the scale of the importance of a score, above 0
        where the factor matters more, interactions included, than all others without it. Its interval equals that of
        the share on the same scale.
    consistency
        CON within rows.
    rows
        Rows behind the number.
    interval_over
        Units left out one at a time: ``rows``, and if given ``columns`` and ``golden runs``; ``rows with golden runs``
        where the golden runs belong to the rows and left with them.
    """

    factor: str
    share: float
    share_ci_low: float
    share_ci_high: float
    importance: float
    consistency: float
    rows: int
    interval_over: tuple[str, ...]

    @property
    def importance_interval(self) -> tuple[float, float]:
        """Interval of the importance: that of the share on its scale."""
        return _importance_of(self.share_ci_low), _importance_of(self.share_ci_high)

    def metrics(self) -> dict[str, float]:
        """Return the numbers under names of their own; those that are nan are left out."""
        low, high = self.importance_interval
        values = {
            "prediction_importance": self.importance,
            "prediction_importance_corrected_ci_low": low,
            "prediction_importance_corrected_ci_high": high,
            "prediction_share": self.share,
            "prediction_share_ci_low": self.share_ci_low,
            "prediction_share_ci_high": self.share_ci_high,
        }
        return known(values)


def prediction_importance(
    within: Consistency,
    golden: Consistency,
    row_values: Sequence[float] | FloatArray,
    left_out: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]] = MappingProxyType({}),
) -> PredictionImportance:
    """Return the importance of a factor for single predictions.

    Parameters
    ----------
    within
        Consistency of the factor's table: only that factor differs between the runs of a row.
    golden
        Consistency of golden runs, in which every factor differs.
    row_values
        Shape (M,): CON of each row, whose mean equals that of `within`; nan if a row has no pair.
    left_out
        Further units -> CON within rows and of golden runs without each of them. Of ``columns``, if all rows have the
        same ones: else the interval is too narrow. Of ``golden runs``; or of ``rows with golden runs``, if these belong
        to the rows, so that both parts of the ratio lose a row together.

    Notes
    -----
    A pair of runs disagrees on an example with probability ``1 - CON``, half the expected squared distance of their
    one-hot predictions. So the numerator is the expected variance given all other factors, the denominator the total
    variance: Jansen's form of the total Sobol index, for vectors. Interval: jackknife of its logarithm, t quantiles;
    variances over the left-out units are added.
    """
    every = np.asarray(row_values, dtype=np.float64)
    rows = every[~np.isnan(every)]
    if "rows with golden runs" not in left_out:
        left_out = {"rows": (means_without(rows), golden.consistency), **left_out}
    ratio = float(_ratios(within.consistency, golden.consistency))
    low, high = ratio_interval(ratio, *(_ratios(*each) for each in left_out.values()))
    numbers = (ratio, low, high, _importance_of(ratio), within.consistency, len(rows))
    return PredictionImportance(within.group, *numbers, tuple(left_out))


def _importance_of(share: float) -> float:
    """Return a share on the scale of importance, cut at 1; nan if it is not known."""
    cut = share if math.isnan(share) else min(1.0, share)
    return math.sqrt(cut) - math.sqrt(1 - cut)


def _ratios(within: npt.ArrayLike, golden: npt.ArrayLike) -> FloatArray:
    """Return ``(1 - within) / (1 - golden)``; nan where golden runs never disagree."""
    golden_left = 1 - np.asarray(golden, dtype=np.float64)
    varies = golden_left > 0
    ratios: FloatArray = (1 - np.asarray(within, dtype=np.float64)) / np.where(varies, golden_left, 1.0)
    return np.where(varies, ratios, math.nan)

"""The record of one group of runs: how far their predictions agree, and what a finite test set adds to their spread."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.typing import known


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
        Runs counted, groups averaged over, and comparisons behind the numbers.
    unparsed_share
        Share of predictions that name no class (-1); they agree with nothing.
    common_examples
        Mean number of examples that a pair of runs shares: all of them where runs have one test set.
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
        """How many pairs of runs were compared; nan if it is not known."""
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
    """Return the variance of the accuracy that a test set without end would leave.

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

"""How narrow an interval will be with a wanted probability, by what a pilot says of its own error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.estimate import Variances, atanh_left, importance_of_logit, importances_of_variances
from mlflow_l3d.analysis.importance.estimators import TableModel
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, jackknife_variance, t_quantile

MAIN_SHARE: Final = 0.5
"""Share of the contributed variance taken as the main effect if a pilot does not identify it (nested, radial)."""


def optimal_columns(total_index: float) -> int:
    """Return the number of columns that tells most about S_T for a given number of cells, nested design.

    Parameters
    ----------
    total_index
        S_T, in [0, 1]; more than 0.99 is taken for 0.99, since no number of columns is enough at 1.

    Returns
    -------
    int
        ``N* = 1 + 1 / (1 - S_T)`` rounded, at least 2: 2 at S_T = 0.1, 3 at 0.5, 11 at 0.9.
    """
    return max(2, round(1 + 1 / (1 - min(total_index, 0.99))))


def expected_half_width(pilot: VarianceComponents, model: TableModel, *, rows: int, columns: int) -> float:
    """Return half the width that the interval of the corrected importance will have.

    Parameters
    ----------
    pilot
        Variances from a pilot, of any design. One from a nested or radial pilot does not say how much is main effect;
        half is taken to be (:data:`MAIN_SHARE`).
    model
        Of the investigation that is planned.
    rows, columns
        Its M and N.

    Returns
    -------
    float
        In (0, 1]; nan if there is no interval (fewer than three rows, or columns in the crossed design), or
        the pilot has no variance.

    Notes
    -----
    Delta method: normal approximation of the error of logit(S_T), mapped to importance with the t quantile that the
    interval will use. If the other factors have almost no effect (S_T near 1) it says too much.
    """
    is_constant = math.isnan(pilot.total) or pilot.total <= 0 or pilot.contributed <= 0
    if is_constant or rows < 3 or columns < model.least_columns:
        return math.nan
    others_share, by_rows, by_columns = logit_variances(pilot, model, rows=rows, columns=columns)
    variance, degrees = by_rows + by_columns, rows - 1.0
    if by_columns:
        degrees = variance**2 / (by_columns**2 / (columns - 1) + by_rows**2 / (rows - 1))
    half = t_quantile(degrees) * math.sqrt(variance)
    centre = math.log(1 / others_share - 1)
    return (importance_of_logit(centre + half) - importance_of_logit(centre - half)) / 2


def logit_variances(
    pilot: VarianceComponents, model: TableModel, *, rows: int, columns: int
) -> tuple[float, float, float]:
    """Return 1 - S_T, and the variances of logit(S_T) that rows and columns bring, for normal effects.

    If the pilot says that nothing else matters, the logit has no value: 1 - S_T is not smaller than can be seen.
    """
    main, interaction, mitigated = (part / pilot.contributed for part in variance_parts(pilot))
    mitigated = max(mitigated, 1 / (columns * rows))
    others_share = min(mitigated / (1 + mitigated), 1 - 1e-12)  # of a run that diverged it would round to 1
    if not model.shared_columns:
        return others_share, _nested_logit_variance(mitigated, rows, columns), 0.0
    variance = _crossed_logit_variance(main, interaction, mitigated, rows, columns)
    by_columns = 2 * (main + interaction / rows) ** 2 / (columns - 1)
    return others_share, max(0.0, variance - by_columns), by_columns


def variance_parts(pilot: VarianceComponents) -> tuple[float, float, float]:
    """Return main effect, interaction and mitigated variance, none below zero."""
    mitigated = max(0.0, pilot.mitigated)
    if math.isnan(pilot.main):
        return MAIN_SHARE * pilot.contributed, (1 - MAIN_SHARE) * pilot.contributed, mitigated
    main = min(max(0.0, pilot.main), pilot.contributed)
    return main, pilot.contributed - main, mitigated


def _crossed_logit_variance(main: float, interaction: float, mitigated: float, rows: int, columns: int) -> float:
    residual_degrees = (rows - 1) * (columns - 1)
    of_rows, of_columns = columns * mitigated + interaction, rows * main + interaction
    residual = 2 * interaction**2 / residual_degrees
    contributed = 2 * (of_columns / rows) ** 2 / (columns - 1) + (1 - 1 / rows) ** 2 * residual
    others = (2 * of_rows**2 / (rows - 1) + residual) / columns**2
    covariance = -(1 - 1 / rows) / columns * residual
    tau2 = main + interaction
    return contributed / tau2**2 + others / mitigated**2 - 2 * covariance / (tau2 * mitigated)


def _nested_logit_variance(mitigated: float, rows: int, columns: int) -> float:
    """Return the variance where the contributed one is 1."""
    within = 2 / (rows * (columns - 1))
    others = (2 * (columns * mitigated + 1) ** 2 / (rows - 1) + within) / columns**2
    return within + others / mitigated**2 + 2 * within / (columns * mitigated)


DRAWS: Final = 256
NORMAL_TAILS: Final = 14.0
"""Relative variance of a squared effect's square: kurtosis of a chi-squared variable of one degree, less 1."""
TAILS: Final = 1.5
"""A pilot's sample kurtosis is too small by about this, see the simulation in docs/evidence/simulations.md."""
FEW: Final = 3
"""The logarithm of the variance of n draws has about the variance ``tails / (n + FEW)``, also for few."""
SKEWED: Final = 3
"""The interval of a table of few columns is wider than by their variance alone, since it is not symmetrical."""
LEAST_LEFT: Final = 0.02
MOST_LEFT: Final = 0.999
"""Bounds of the 1 - S_T that a draw may have: a logit has no value at 0 and 1."""


@dataclass(frozen=True)
class Outlook:
    """The facts about a factor before an investigation.

    Attributes
    ----------
    components
        Variances, found or assumed.
    model
        Of the pilot; None where variances are assumed. Effects are taken for normal then.
    errors
        Jackknife variances of atanh(1 - S_T) in the pilot, over rows and, where columns are draws, over columns.
    tails
        For each, how much such a variance may be off: relative variance of one draw's part.
    """

    components: VarianceComponents
    model: TableModel | None = None
    errors: tuple[float, ...] = ()
    tails: tuple[float, ...] = (NORMAL_TAILS,)

    @classmethod
    def of(cls, pilot: VarianceComponents | Outlook) -> Outlook:
        """Return the outlook that is given, or that of normal effects with the variances that are."""
        return pilot if isinstance(pilot, Outlook) else cls(pilot)

    @classmethod
    def measured(cls, components: VarianceComponents, model: TableModel, without: Sequence[Variances]) -> Outlook:
        """Return the outlook of a pilot; that of normal effects where leaving out a row or column leaves no value.

        Parameters
        ----------
        components, model
            Of the pilot.
        without
            Of the :class:`~mlflow_l3d.analysis.importance.estimate.Estimate` of its table.
        """
        values = [atanh_left(*each) for each in without]
        if not (values and all(np.isfinite(each).all() and np.ptp(each) > 0 for each in values)):
            return cls(components)
        squares = [np.square(each - each.mean()) for each in values]
        tails = tuple(TAILS * float((np.square(each).mean() / each.mean() ** 2) - 1) for each in squares)
        return cls(components, model, tuple(map(jackknife_variance, values)), tails)

    def variances(self, model: TableModel, rows: int, columns: int) -> tuple[float, float]:
        """Return the variances of atanh(1 - S_T) that rows and columns of a table bring."""
        parts = self.components
        if self.model is not None and self.model.shared_columns and model.shared_columns:
            return self.errors[0] * parts.rows / rows, self.errors[1] * parts.columns / columns
        others_share, by_rows, by_columns = logit_variances(parts, model, rows=rows, columns=columns)
        scale = (others_share / (1 + others_share)) ** 2
        if self.model is not None:
            # The other kinds of table have as many times the error of normal effects as the pilot has over its rows.
            others_share, of_pilot, _ = logit_variances(parts, self.model, rows=parts.rows, columns=parts.columns)
            scale *= self.errors[0] / of_pilot / (others_share / (1 + others_share)) ** 2
        return by_rows * scale, by_columns * scale * (1 + SKEWED / (columns - 1))


def half_width_of(
    pilot: VarianceComponents | Outlook, model: TableModel, *, rows: int, columns: int, assurance: float | None = None
) -> float:
    """Return the half-width within which the interval of the corrected importance stays with some probability.

    Parameters
    ----------
    pilot
        The facts about the factor before the investigation.
    model, rows, columns
        As for :func:`~mlflow_l3d.analysis.planning.assurance.expected_half_width`.
    assurance
        The probability; None for the half-width that is expected of normal effects, which is met in half of all
        investigations only.

    Returns
    -------
    float
        That quantile over draws, always the same ones, of what is not known: S_T, by the error of the pilot and that of
        the table, and how much the errors of both are off. nan if there is no interval, or the pilot has no
        variance.
    """
    from scipy.special import expit

    outlook = Outlook.of(pilot)
    if assurance is None:
        return expected_half_width(outlook.components, model, rows=rows, columns=columns)
    if rows < 3 or columns < model.least_columns or not outlook.components.contributed > 0:
        return math.nan
    size = (outlook.components.rows, outlook.components.columns) if outlook.model else (math.inf, math.inf)
    expectation = outlook.variances(model, rows, columns)
    of_rows, of_columns, centre = _draws()
    by_rows = expectation[0] * _off(of_rows, outlook.tails[0], size[0], rows)
    by_columns = expectation[1] * _off(of_columns, outlook.tails[-1], size[-1], columns)
    variance = by_rows + by_columns
    per_degree = (by_rows**2 / (rows - 1) + by_columns**2 / (columns - 1)) / variance**2
    half = np.interp(per_degree, *_quantiles()) * np.sqrt(variance)
    parts = outlook.components
    shares = np.array(parts.contributed), np.array(parts.mitigated)
    if outlook.model is None:
        others_share, *_ = logit_variances(parts, model, rows=rows, columns=columns)
        shares = np.array(1 - others_share), np.array(others_share)
    middle = atanh_left(*shares) + centre * math.sqrt(sum(outlook.errors) + sum(expectation))
    if model.name == "radial":
        ends = [np.maximum(0.0, np.tanh(middle + side * half)) for side in (-1, 1)]
    else:
        lefts = np.clip(np.tanh(middle), LEAST_LEFT, MOST_LEFT)
        logits, half = np.log(1 / lefts - 1), half * (1 + lefts) / lefts
        ends = [expit(-logits - side * half) for side in (1, -1)]
    high, low = (importances_of_variances(1 - end, end) for end in ends)
    return float(np.interp(assurance, np.linspace(0, 1, DRAWS), np.sort((high - low) / 2)))


def _off(draws: FloatArray, tails: float, pilot: float, planned: int) -> FloatArray:
    """Return the factors by which errors of a table differ from those that a pilot of another size lets expect."""
    of_pilot, of_table = tails / (pilot + FEW), tails / (planned + FEW)
    return np.exp(draws * math.sqrt(of_pilot + of_table) + (of_pilot - of_table) / 2)


@cache
def _quantiles() -> tuple[FloatArray, FloatArray]:
    """Return 1 / degrees of freedom, rising, and Student's quantile for each, to look up: a plan asks for millions."""
    from scipy.special import stdtrit

    per_degree = np.linspace(0, 1, 2049)[1:]
    return per_degree, stdtrit(1 / per_degree, (1 + LEVEL) / 2)


@cache
def _draws() -> FloatArray:
    """Return three sets of standard normal values, evenly spread, in different orders."""
    from scipy.special import ndtri

    generator = np.random.default_rng(0)
    values = ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
    return np.stack([generator.permutation(values) for _ in range(3)])

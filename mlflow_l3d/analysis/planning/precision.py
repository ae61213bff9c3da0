"""How exact an investigation will be, before it is run."""

from __future__ import annotations

import math
from typing import Final

from mlflow_l3d.analysis.importance.estimate import importance_of_logit
from mlflow_l3d.analysis.importance.models import TableModel
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.jackknife import LEVEL, t_quantile

MAIN_SHARE: Final = 0.5
"""Share of the contributed variance taken as the main effect where a pilot cannot tell (nested, radial)."""


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


def expected_half_width(
    pilot: VarianceComponents, model: TableModel, *, rows: int, columns: int, level: float = LEVEL
) -> float:
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
    level
        Confidence level.

    Returns
    -------
    float
        In (0, 1]; nan if there will be no interval (fewer than three rows, or columns in the crossed design), or
        the pilot has no variance.

    Notes
    -----
    Delta method: normal approximation of the error of logit(S_T), mapped to importance with the t quantile that the
    interval will use. Where the other factors hardly matter (S_T near 1) it says too much.
    """
    if math.isnan(pilot.total) or pilot.total <= 0 or pilot.contributed <= 0:
        return math.nan
    if rows < 3 or columns < model.least_columns:
        return math.nan
    others_share, by_rows, by_columns = logit_variances(pilot, model, rows=rows, columns=columns)
    variance, degrees = by_rows + by_columns, rows - 1.0
    if by_columns:
        degrees = variance**2 / (by_columns**2 / (columns - 1) + by_rows**2 / (rows - 1))
    half, centre = t_quantile(degrees, level) * math.sqrt(variance), math.log(1 / others_share - 1)
    return (importance_of_logit(centre + half) - importance_of_logit(centre - half)) / 2


def logit_variances(
    pilot: VarianceComponents, model: TableModel, *, rows: int, columns: int
) -> tuple[float, float, float]:
    """Return 1 - S_T, and the variances of logit(S_T) that rows and columns bring, for normal effects.

    Where the pilot says that nothing else matters, the logit has no value: 1 - S_T is no less than can be seen.
    """
    main, interaction, mitigated = (part / pilot.contributed for part in variance_parts(pilot))
    mitigated = max(mitigated, 1 / (columns * rows))
    others_share = mitigated / (1 + mitigated)
    if not model.shared_columns:
        return others_share, _nested_logit_variance(1.0, mitigated, rows, columns), 0.0
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


def _nested_logit_variance(contributed: float, mitigated: float, rows: int, columns: int) -> float:
    within = 2 * contributed**2 / (rows * (columns - 1))
    of_rows = columns * mitigated + contributed
    others = (2 * of_rows**2 / (rows - 1) + within) / columns**2
    return within / contributed**2 + others / mitigated**2 + 2 * within / (columns * contributed * mitigated)

"""Variance components of a crossed table that lacks cells, by restricted maximum likelihood."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate, Variances, leave_out
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import known_std, usable
from mlflow_l3d.analysis.importance.variances import MeanSquares, VarianceComponents
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import L3DError

Missing = Literal["anova", "reml"]
MISSING: Final = get_args(Missing)
"""How the corrected score of a table that lacks cells is estimated."""
MOST_FITS: Final = 130
"""Rows and columns together up to which :func:`reml_estimate` gives an interval."""


def reml_components(scores: npt.ArrayLike) -> VarianceComponents | None:
    """Return the variance components by restricted maximum likelihood (crossed random effects of rows and columns).

    Parameters
    ----------
    scores
        Shape (M, N), nan if a score is missing.

    Returns
    -------
    VarianceComponents or None
        No component is below zero; on a complete table they are those of the analysis of variance where that has none
        below zero. `rows` and `columns` are those with at least one score. None if there are fewer than two rows,
        two columns, or four scores, or no row has two scores.

    Raises
    ------
    L3DError
        If the fit does not converge.
    """
    table = usable(scores)
    row, column = np.nonzero(np.isfinite(table))
    frame = pd.DataFrame({"row": row, "column": column, "score": table[row, column]})
    counts = frame["row"].value_counts()
    if len(counts) < 2 or frame["column"].nunique() < 2 or len(frame) < 4 or counts.max() < 2:
        return None
    rows, columns = len(counts), int(frame["column"].nunique())
    values = frame["score"].to_numpy(dtype=np.float64)
    scale = known_std(values)
    of_rows = main = residual = 0.0
    if scale > 0:
        # The search has absolute tolerances, so it is given scores of unit variance.
        frame = frame.assign(score=(values - values.mean()) / scale)
        of_rows, main, residual = (scale**2 * part for part in _fit(frame))
    degrees = MeanSquares(rows, columns, residual, residual, rows * main + residual).contributed_degrees
    parts = (main + residual, of_rows, main, residual)
    return VarianceComponents("crossed", "reml", rows, columns, *parts, contributed_degrees=degrees)


def reml_estimate(table: npt.ArrayLike) -> Estimate | None:
    """Return the corrected importance of a crossed table that lacks cells, with its error.

    Parameters
    ----------
    table
        Shape (M, N), nan if a score is missing.

    Returns
    -------
    Estimate or None
        None where too few cells are left. Interval as in the crossed design, by the jackknife of logit(S_T): variance
        over rows plus variance over columns, Welch's degrees of freedom. There is none where a component is
        zero with or without some row or column, and above :data:`MOST_FITS` rows and columns together, for every one
        of them takes a fit of its own.
    """
    scores = usable(table)
    components = reml_components(scores)
    if components is None:
        return None
    rows = np.flatnonzero(np.isfinite(scores).any(axis=1))
    columns = np.flatnonzero(np.isfinite(scores).any(axis=0))
    if min(len(rows), len(columns)) < 3 or len(rows) + len(columns) > MOST_FITS:
        return Estimate(components)
    without = [_without_each(scores, places, axis) for axis, places in enumerate((rows, columns))]
    # A part that is zero, or not known, gives no logit.
    if not (components.contributed > 0 and components.mitigated > 0):
        return Estimate(components)
    return Estimate(components, leave_out(components.contributed, components.mitigated, *without))


def with_reml(record: Importance) -> Importance:
    """Return the record of a crossed table that lacks cells, corrected score and interval from every cell.

    The published score stays as it is.
    """
    try:
        estimate = reml_estimate(record.table)
    except L3DError:  # the likelihood has no clear maximum: L3D002 says which estimate was taken
        return record
    return record if estimate is None else record.estimated(estimate)


def _without_each(scores: FloatArray, places: npt.NDArray[np.intp], axis: int) -> Variances:
    components = [reml_components(np.delete(scores, one, axis)) for one in places]
    parts = [(math.nan, math.nan) if each is None else (each.contributed, each.mitigated) for each in components]
    contributed, mitigated = np.array(parts).T
    return contributed, mitigated


def _fit(frame: pd.DataFrame) -> tuple[float, float, float]:
    """Return the variances of rows, of columns, and the residual."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    effects = {"rows": "0 + C(row)", "columns": "0 + C(column)"}
    everything = frame.assign(everything=0)
    fit: Any = None
    with warnings.catch_warnings():
        # A component at zero, and a first method that fails, are told by warnings; whether it converged is looked at.
        warnings.simplefilter("ignore")
        for method in ("bfgs", "lbfgs", "powell"):
            model = MixedLM.from_formula("score ~ 1", everything, groups="everything", vc_formula=effects)
            try:
                fit = model.fit(reml=True, method=method)
            except np.linalg.LinAlgError:
                continue
            if fit.converged:
                break
    if fit is None or not fit.converged:
        msg = "missing=reml: the likelihood has no clear maximum. Use missing=anova, or run the missing cells."
        raise L3DError(msg)
    variances = dict(zip(fit.model.exog_vc.names, fit.vcomp, strict=True))
    return float(variances["rows"]), float(variances["columns"]), float(fit.scale)

"""Crossed tables that lack cells: analysis of variance by fitting constants, and restricted maximum likelihood.

Constants are fitted in closed form (Henderson 1953, method 3). What columns explain beyond rows is what the residual
sum of squares loses when column effects are fitted after row effects, and the other way round. With n scores and `rank`
degrees of freedom for columns (N - 1, unless the table falls into parts that share no row) their expectations are
linear in the variances, whatever cells are missing::

    E[columns beyond rows] = (n - M) s2_F + rank s2_E
    E[rows beyond columns] = (n - N) s2_R + (M + rank - N) s2_E
    E[residual]            = (n - M - rank) s2_E

Without a missing cell these are the sums of squares of the usual analysis.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate, Variances, leave_out
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import known_std, rounding_variance, usable, with_scores
from mlflow_l3d.analysis.importance.variances import MeanSquares, VarianceComponents
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import L3DError

_SINGULAR = 1e-9
"""Eigenvalues below this share of the largest are zero: directions that the scores say nothing about."""


def unbalanced_components(table: FloatArray) -> MeanSquares | None:
    """Return the mean squares of a crossed table that lacks cells.

    Parameters
    ----------
    table
        Shape (M, N), nan if a score is missing; every row and every column has one.

    Returns
    -------
    MeanSquares or None
        None if no degree of freedom is left for rows, columns or the residual.
    """
    finite, (rows, columns) = np.isfinite(table), table.shape
    if rows < columns:  # fewer equations
        turned = unbalanced_components(table.T)
        if turned is None:
            return None
        squares = turned.of_columns, turned.residual, turned.of_rows, turned.column_size, turned.row_size
        return MeanSquares(rows, columns, *squares, turned.residual_degrees)
    count = int(finite.sum())
    in_row = finite.sum(axis=1)
    in_column = finite.sum(axis=0)
    scores = np.where(finite, table - np.nanmean(table), 0.0)
    within_rows = np.where(finite, scores - (scores.sum(axis=1) / in_row)[:, None], 0.0)
    # The normal equations for column effects, rows fitted.
    values, vectors = np.linalg.eigh(np.diag(in_column) - (finite / in_row[:, None]).T @ finite)
    used = values > _SINGULAR * max(values.max(), 1.0)
    of_columns = float((np.square(within_rows.sum(axis=0) @ vectors)[used] / values[used]).sum())
    residual = float(np.square(within_rows).sum()) - of_columns
    within_columns = float(np.square(scores).sum() - (np.square(scores.sum(axis=0)) / in_column).sum())
    rank = int(used.sum())
    degrees = rows + rank - columns, count - rows - rank, rank
    if min(degrees) < 1:
        return None
    floor = rounding_variance(table[finite])
    parts = (within_columns - residual, residual, of_columns)
    of_rows, rest, column_square = (
        part / free if part > floor * free else 0.0 for part, free in zip(parts, degrees, strict=True)
    )
    sizes = (count - columns) / degrees[0], (count - rows) / rank
    return MeanSquares(rows, columns, of_rows, rest, column_square, *sizes, degrees[1])


def variances_without_each(
    table: FloatArray,
    estimated: Callable[[FloatArray], MeanSquares | VarianceComponents | None] = unbalanced_components,
) -> tuple[Variances, Variances]:
    """Return contributed and (untruncated) mitigated variance without each row in turn, and without each column.

    Parameters
    ----------
    table
        As for :func:`unbalanced_components`.
    estimated
        Estimates both from a table; they are nan if it returns None.
    """
    without = []
    for axis, members in enumerate(table.shape):
        others = (estimated(with_scores(np.delete(table, one, axis))) for one in range(members))
        parts = [(math.nan, math.nan) if each is None else (each.contributed, each.mitigated) for each in others]
        contributed, mitigated = np.array(parts).T
        without.append((contributed, mitigated))
    return without[0], without[1]


Missing = Literal["anova", "reml"]
"""How the corrected importance of a table that lacks cells is estimated."""
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
        No component is below zero; on a complete table they equal those of the analysis of variance where that has none
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
    degrees = MeanSquares.complete(rows, columns, residual, residual, rows * main + residual).contributed_degrees
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
    scores = with_scores(usable(table))
    components = reml_components(scores)
    if components is None:
        return None
    # A part that is zero, or not known, gives no logit.
    is_positive = components.contributed > 0 and components.mitigated > 0
    if min(scores.shape) < 3 or sum(scores.shape) > MOST_FITS or not is_positive:
        return Estimate(components)
    without = variances_without_each(scores, reml_components)
    jackknife = leave_out(components.contributed, components.mitigated, *without)
    return Estimate(components, jackknife=jackknife, without=without)


def with_reml(record: Importance) -> Importance:
    """Return the record of a crossed table that lacks cells, corrected importance and interval from every cell.

    The importance stays as it is.
    """
    try:
        estimate = reml_estimate(record.table)
    except L3DError:  # the likelihood has no clear maximum: L3D002 says which estimate was taken
        return record
    return record if estimate is None else record.estimated(estimate)


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

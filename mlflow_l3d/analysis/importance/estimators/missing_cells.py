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
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate, Variances, leave_out
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import known_std, rounding_variance, usable
from mlflow_l3d.analysis.importance.variances import MeanSquares, VarianceComponents
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import L3DError

_SINGULAR = 1e-9
"""Eigenvalues below this share of the largest are zero: directions that the scores say nothing about."""


class _Sums(NamedTuple):
    """Sums over the scores of T tables, of which the first axis is the table."""

    scores: FloatArray
    """(T,): number of scores."""
    rows: FloatArray
    """(T,): rows with a score."""
    in_column: FloatArray
    """(T, N): number of scores of each column."""
    of_columns: FloatArray
    """(T, N): their sums."""
    squares: FloatArray
    """(T,): sum of squares."""
    within_rows: FloatArray
    """(T,): sum of squares about the means of rows."""
    matrix: FloatArray
    """(T, N, N): of the normal equations for column effects, rows fitted, ..."""
    right: FloatArray
    """(T, N): ... and their right-hand sides."""


class _Fit(NamedTuple):
    """Sums of squares of T tables, shape (T,) each, and what their expectations are made of."""

    of_rows: FloatArray
    of_columns: FloatArray
    residual: FloatArray
    row_degrees: FloatArray
    column_degrees: FloatArray
    degrees: FloatArray
    row_weight: FloatArray
    """n - N: what s2_R counts for in the expectation of `of_rows`."""
    column_weight: FloatArray
    """n - M."""

    def variances(self, *, turned: bool = False) -> Variances:
        """Return contributed and (untruncated) mitigated variance; nan if a degree of freedom is missing.

        `turned` exchanges rows and columns.
        """
        rows = self.of_rows, self.row_degrees, self.row_weight
        columns = self.of_columns, self.column_degrees, self.column_weight
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = self.residual / np.where(self.degrees > 0, self.degrees, np.nan)
            of_rows, of_columns = (
                (squares - degrees * residual) / weight for squares, degrees, weight in (rows, columns)
            )
        of_factor, mitigated = (of_rows, of_columns) if turned else (of_columns, of_rows)
        return of_factor + residual, mitigated


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
    fit = _solved(_total(_of_each_row(table - np.nanmean(table))), rounding_variance(table[np.isfinite(table)]))
    of_rows, of_columns, rest, row_degrees, column_degrees, degrees, row_weight, column_weight = (
        float(each[0]) for each in fit
    )
    if min(row_degrees, column_degrees, degrees) < 1:
        return None
    squares = of_rows / row_degrees, rest / degrees, of_columns / column_degrees
    sizes = row_weight / row_degrees, column_weight / column_degrees
    return MeanSquares(len(table), table.shape[1], *squares, *sizes, int(degrees))


def variances_without_each(table: FloatArray) -> tuple[Variances, Variances]:
    """Return contributed and mitigated variance without each row in turn, shape (M,), and without each column, (N,).

    Parameters
    ----------
    table
        As for :func:`unbalanced_components`.
    """
    wide = table.shape[1] > table.shape[0]
    values, floor = (table.T if wide else table) - np.nanmean(table), rounding_variance(table[np.isfinite(table)])
    parts = _of_each_row(values)
    long = _solved(_Sums(*(total - part for total, part in zip(_total(parts), parts, strict=True))), floor)
    # The short side has few members, so that each table is summed up anew; a column of nan takes no part.
    columns = np.arange(values.shape[1])
    each = [_total(_of_each_row(np.where(columns == j, np.nan, values))) for j in columns]
    short = _solved(_Sums(*(np.concatenate(variances) for variances in zip(*each, strict=True))), floor)
    variances = long.variances(turned=wide), short.variances(turned=wide)
    return variances[::-1] if wide else variances


def _of_each_row(values: FloatArray) -> _Sums:
    """Return what each row adds to the sums of its table, nan if a score is missing."""
    finite = np.isfinite(values)
    count = finite.sum(axis=1, dtype=np.float64)
    scores = np.where(finite, values, 0.0)
    share = finite / np.maximum(count, 1)[:, None]
    about_mean = np.where(finite, values - (share * scores).sum(axis=1)[:, None], 0.0)
    weights = finite.astype(np.float64)
    matrix = -weights[:, :, None] * share[:, None, :]
    matrix[:, np.arange(values.shape[1]), np.arange(values.shape[1])] += weights
    within = np.square(about_mean).sum(axis=1)
    squares = np.square(scores).sum(axis=1)
    return _Sums(count, np.minimum(count, 1), weights, scores, squares, within, matrix, about_mean)


def _total(parts: _Sums) -> _Sums:
    """Return the sums of one table from those of its rows."""
    return _Sums(*(part.sum(axis=0, keepdims=True) for part in parts))


def _solved(sums: _Sums, floor: float) -> _Fit:
    """Fit rows and columns; sums of squares of no more than `floor` a degree of freedom are rounding, and zero."""
    values, vectors = np.linalg.eigh(sums.matrix)
    used = values > _SINGULAR * np.maximum(values.max(axis=1, keepdims=True), 1)
    along = np.einsum("tij,ti->tj", vectors, sums.right)
    of_columns = (np.square(along) / np.where(used, values, np.inf)).sum(axis=1)
    rank = used.sum(axis=1, dtype=np.float64)
    columns = (sums.in_column > 0).sum(axis=1, dtype=np.float64)
    within_columns = sums.squares - (np.square(sums.of_columns) / np.maximum(sums.in_column, 1)).sum(axis=1)
    residual = sums.within_rows - of_columns
    expected_squares = (within_columns - residual, of_columns, residual)
    degrees = (sums.rows + rank - columns, rank, sums.scores - sums.rows - rank)
    of_rows, of_columns, residual = (
        np.where(each <= floor * np.maximum(free, 1), 0.0, each)
        for each, free in zip(expected_squares, degrees, strict=True)
    )
    return _Fit(of_rows, of_columns, residual, *degrees, sums.scores - columns, sums.scores - sums.rows)


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
    without = tuple(_without_each(scores, places, axis) for axis, places in enumerate((rows, columns)))
    # A part that is zero, or not known, gives no logit.
    if not (components.contributed > 0 and components.mitigated > 0):
        return Estimate(components)
    return Estimate(components, leave_out(components.contributed, components.mitigated, *without), without=without)


def with_reml(record: Importance) -> Importance:
    """Return the record of a crossed table that lacks cells, corrected importance and interval from every cell.

    The importance stays as it is.
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

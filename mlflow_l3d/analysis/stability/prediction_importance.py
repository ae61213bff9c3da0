"""How much of the instability of single predictions one factor explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.jackknife import ratio_interval
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.analysis.typing import FloatArray


@dataclass(frozen=True, slots=True)
class PredictionImportance:
    """Importance of a factor for single predictions, beside its importance for the score.

    Attributes
    ----------
    factor
        The investigated factor.
    share
        ``(1 - CON within rows) / (1 - CON of golden runs)``: the total Sobol index of the one-hot predictions, that is
        the share of their variance that changing this factor alone brings about. Not cut at 1: by chance, or where the
        golden runs are too alike, it may lie above. nan where golden runs never disagree.
    share_ci_low, share_ci_high
        95 % jackknife interval of it, not cut either.
    importance
        ``sqrt(share) - sqrt(1 - share)`` with the share cut at 1: on the scale of the importance of a score, above 0
        where the factor matters more than all others together.
    consistency, golden_consistency
        CON within rows, and of golden runs.
    rows
        Rows behind the number.
    interval_over
        What was left out one at a time: ``rows``, and where given ``columns`` and ``golden runs``; ``rows with golden
        runs`` where the golden runs belong to the rows and left with them.
    """

    factor: str
    share: float
    share_ci_low: float
    share_ci_high: float
    importance: float
    consistency: float
    golden_consistency: float
    rows: int
    interval_over: tuple[str, ...]

    def metrics(self) -> dict[str, float]:
        """Return the numbers under names of their own; those that are nan are left out."""
        values = {
            "prediction_importance": self.importance,
            "prediction_share": self.share,
            "prediction_share_ci_low": self.share_ci_low,
            "prediction_share_ci_high": self.share_ci_high,
        }
        return {name: value for name, value in values.items() if not math.isnan(value)}


def prediction_importance(
    within: Consistency,
    golden: Consistency,
    row_values: Sequence[float] | FloatArray,
    *,
    without_column: npt.ArrayLike | None = None,
    without_golden: npt.ArrayLike | None = None,
    golden_without_row: npt.ArrayLike | None = None,
) -> PredictionImportance:
    """Return the importance of a factor for single predictions.

    Parameters
    ----------
    within
        Consistency of the factor's table: only that factor differs between the runs of a row.
    golden
        Consistency of golden runs, in which every factor differs.
    row_values
        Shape (M,): CON of each row, whose mean is that of `within`; nan where a row has no pair.
    without_column
        Shape (N,): CON within rows where one column is left out of all rows. A crossed design has the same N
        configurations in every row, so without these the interval is too narrow.
    without_golden
        Shape (L,): CON of the golden runs without one of them.
    golden_without_row
        Shape (M,): CON of the golden runs without those that belong to a row. In the radial design the runs of the rows
        are the golden runs, so both parts of the ratio lose a row together; instead of `without_golden`. A row whose
        value is nan then still counts as a row that may be left out.

    Raises
    ------
    ValueError
        If the mean of `row_values` is not the consistency of `within`, a value lies outside [0, 1], or
        `golden_without_row` has another length than `row_values`, or stands beside `without_golden`.

    Notes
    -----
    A pair of runs disagrees on an example with probability ``1 - CON``, half the expected squared distance of their
    one-hot predictions. So the numerator is the expected variance given all other factors, the denominator the total
    variance: Jansen's form of the total Sobol index, for vectors. Interval: jackknife of its logarithm, t quantiles;
    variances of what is left out are added.
    """
    every = _checked(row_values, "row_values")
    rows = every[~np.isnan(every)]
    known = len(rows) > 0 and not math.isnan(within.consistency)
    if known and not math.isclose(float(rows.mean()), within.consistency, rel_tol=0, abs_tol=1e-9):
        msg = f"row_values have the mean {rows.mean()}, but CON within rows is {within.consistency}"
        raise ValueError(msg)
    ratio = _ratio(within.consistency, golden.consistency)
    if golden_without_row is None:
        left_out, over = [_without_one(rows, golden.consistency)], ["rows"]
    else:
        goldens = _checked(golden_without_row, "golden_without_row")
        if len(goldens) != len(every) or without_golden is not None:
            msg = "golden_without_row must have one value for each of row_values, and stands instead of without_golden"
            raise ValueError(msg)
        left_out, over = [_without_one_jointly(every, goldens)], ["rows with golden runs"]
    if without_column is not None:
        left_out.append(_ratios(_checked(without_column, "without_column"), golden.consistency))
        over.append("columns")
    if without_golden is not None:
        goldens = _checked(without_golden, "without_golden")
        left_out.append(np.array([_ratio(within.consistency, value) for value in goldens.tolist()]))
        over.append("golden runs")
    low, high = ratio_interval(ratio, *left_out)
    cut = min(1.0, ratio)
    return PredictionImportance(
        factor=within.group,
        share=ratio,
        share_ci_low=low,
        share_ci_high=high,
        importance=ratio if math.isnan(ratio) else math.sqrt(cut) - math.sqrt(1 - cut),
        consistency=within.consistency,
        golden_consistency=golden.consistency,
        rows=len(rows),
        interval_over=tuple(over),
    )


def _checked(values: npt.ArrayLike, what: str) -> FloatArray:
    given: FloatArray = np.asarray(values, dtype=np.float64)
    if given.ndim != 1 or bool(((given < 0) | (given > 1)).any()):
        msg = f"{what} must be one axis of shares in [0, 1]"
        raise ValueError(msg)
    return given


def _ratio(within: float, golden: float) -> float:
    return (1 - within) / (1 - golden) if golden < 1 else math.nan


def _ratios(within: FloatArray, golden: float) -> FloatArray:
    return (1 - within) / (1 - golden) if golden < 1 else np.full(len(within), math.nan)


def _without_one(rows: FloatArray, golden: float) -> FloatArray:
    """Return shape (M,): the ratio without one row."""
    count = len(rows)
    if count < 2:
        return np.full(count, math.nan)
    return _ratios((rows.sum() - rows) / (count - 1), golden)


def _without_one_jointly(rows: FloatArray, goldens: FloatArray) -> FloatArray:
    """Return shape (M,): the ratio without one row and the golden runs that belong to it."""
    known = ~np.isnan(rows)
    count = int(known.sum())
    if count < 2:
        return np.full(len(rows), math.nan)
    total = float(rows[known].sum())
    within = np.where(known, (total - np.where(known, rows, 0.0)) / (count - 1), total / count)
    return np.array([_ratio(one, golden) for one, golden in zip(within.tolist(), goldens.tolist(), strict=True)])

"""The points of a sweep as one table in long form: one row a point and factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.sweep.point import TASK, SweptPoint, choices_of, is_numeric, value_of, value_text
from mlflow_l3d.analysis.typing import with_interval

IMPORTANCE: Final = (
    *with_interval("importance"),
    *with_interval("importance_corrected"),
    "moves_by_std",
    "unevenness",
    "contributed_std",
    "mitigated_std",
    *with_interval("golden_std"),
    "score_mean",
    "score_std",
    "collapsed_share",
    "consistency",
    "correct_consistency",
    "prediction_importance",
)
"""Metrics of a factor that the table has, in its order; as in docs/statistics.md."""
OF_CHOICE: Final = "choice."
"""What stands before the name of a choice in the table, as in the parameters of a parent."""


def long_table(points: Sequence[SweptPoint]) -> pd.DataFrame:
    """Return one row a point and factor, in the order of points; a point without an analysis has one row.

    Parameters
    ----------
    points
        At least one.

    Returns
    -------
    pandas.DataFrame
        ``point`` (number from 0), ``run_id``, ``task``, one column ``choice.<name>`` for each choice in which points
        differ, ``metric``, ``design``, ``factor`` (the empty text where the point has none), the numbers of
        :data:`IMPORTANCE` (fractions; nan where there is none), ``level``, ``cells_missing``, ``cells_failed`` (of the
        whole point), ``error``.
    """
    choices = {name: values for name, values in choices_of(points).items() if name != TASK}
    rows: list[dict[str, Any]] = []
    for at, point in enumerate(points):
        place = {"point": at, "run_id": point.run_id, "task": point.task}
        for name, values in choices.items():
            value = value_of(point, name)
            # A column has one type: numbers beside texts become texts.
            place[OF_CHOICE + name] = value if value is None or is_numeric(values) else value_text(value)
        rows += [{**place, **each, "error": point.error} for each in _of_factors(point.analysis)]
    frame = pd.DataFrame(rows)
    return frame.astype(dict.fromkeys((*IMPORTANCE, "level", "cells_missing", "cells_failed"), "float64"))


def _of_factors(analysis: Analysis | None) -> list[dict[str, Any]]:
    """Return one row a factor; one without numbers where there is none."""
    nothing = {"metric": "", "design": "", "factor": "", **dict.fromkeys((*IMPORTANCE, "level"), math.nan)}
    if analysis is None:
        return [{**nothing, "cells_missing": math.nan, "cells_failed": math.nan}]
    whole = {"metric": analysis.metric, "design": analysis.design}
    failed = float(analysis.cells_failed)
    if not analysis.importances:
        return [{**nothing, **whole, "cells_missing": math.nan, "cells_failed": failed}]
    rows = []
    for factor, record in analysis.importances.items():
        numbers = analysis.numbers(factor)
        own = {"level": record.level, "cells_missing": float(record.cells_missing), "cells_failed": failed}
        rows.append({**whole, "factor": factor, **{name: numbers.get(name, math.nan) for name in IMPORTANCE}, **own})
    return rows

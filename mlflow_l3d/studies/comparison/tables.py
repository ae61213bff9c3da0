"""Which luck decides the difference of two systems: the cells of both, paired by configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.comparison.reading import SEED, Runs
from mlflow_l3d.tracking import names


def importances_of_differences(task: str, systems: Mapping[str, Runs], metric: Metric, level: float) -> pd.DataFrame:
    """Return the importance of each factor for each difference: one row per pair and factor.

    Parameters
    ----------
    task
        The task.
    systems
        Name -> runs; pairs of different designs have no common tables.
    metric
        The metric, a column of scores.
    level
        Confidence level of the intervals.

    Returns
    -------
    pandas.DataFrame
        task, first, second, factor, and the metrics of :class:`mlflow_l3d.analysis.importance.results.Importance` of
        the table whose scores are differences of cells with equal configurations.
    """
    rows = [
        {"task": task, "first": first, "second": second, "factor": factor, **record.metrics()}
        for first, second in combinations(systems, 2)
        for factor, record in _of_pair(systems[first], systems[second], metric, level).items()
    ]
    return pd.DataFrame(rows)


def _of_pair(one: Runs, other: Runs, metric: Metric, level: float) -> Mapping[str, Importance]:
    design = one.planned.design_of(one.cells)
    if other.planned.design_of(other.cells) is not design or design.baseline or not design.ablates:
        return {}
    place = list(names.COORDINATES)
    both = one.cells.merge(other.cells, on=place, suffixes=("", ".other"))
    shared = [
        name
        for name in one.cells
        if str(name).startswith(SEED) and f"{name}.other" in both and (both[name] == both[f"{name}.other"]).any()
    ]
    same = (both[shared].to_numpy() == both[[f"{name}.other" for name in shared]].to_numpy()).all(axis=1)
    both = both[same & bool(shared)]
    both = both.assign(**{metric.name: both[metric.name] - both[f"{metric.name}.other"]})
    factors = [
        factor
        for factor in both["factor"].dropna().unique()
        if all(f"{SEED}{name}" in shared for name in str(factor).split("+"))
        # With fewer rows the spread of row means is undefined.
        and both.loc[both["factor"].eq(factor), "row"].nunique() >= 2
    ]
    both = both[both["factor"].isna() | both["factor"].isin(factors)]
    if not factors:
        return {}
    plan = replace(one.planned, factors=factors, rows=None, columns=None, golden_runs=None)
    try:
        return design.importances(plan.tables(both, metric.name), missing=plan.missing, level=level)
    except L3DError:  # the shared cells do not form a table of this design
        return {}

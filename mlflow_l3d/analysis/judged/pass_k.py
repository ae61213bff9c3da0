"""How often k answers to a row all pass (pass^k), or one of them does (pass@k)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, check_level
from mlflow_l3d.analysis.judged.results import PassK
from mlflow_l3d.analysis.judged.table import mean_interval, usable_judgements
from mlflow_l3d.errors import ParameterError


def pass_k(successes: npt.ArrayLike, attempts: npt.ArrayLike, k: int, *, level: float = LEVEL) -> PassK:
    """Return pass^k and pass@k from the answers to each row.

    Parameters
    ----------
    successes, attempts
        Shape (rows,): answers that passed, and all answers.
    k
        Answers at a time, 1 or more. Rows with fewer are left out and counted.
    level
        Of the intervals.

    Returns
    -------
    PassK
        Numbers are nan if no row has k answers.

    Raises
    ------
    ParameterError
        If k is below 1, or a row has more successes than attempts.

    Notes
    -----
    Of each row the share of all sets of k answers that pass: ``C(c, k) / C(n, k)`` and ``1 - C(n - c, k) / C(n, k)``,
    without bias (Chen et al. 2021, "Evaluating large language models trained on code"; Yao et al. 2024, tau-bench).
    The interval takes rows as independent, see :func:`mlflow_l3d.analysis.judged.table.mean_interval`.

    Examples
    --------
    >>> found = pass_k([4, 2, 0], [4, 4, 4], 2)
    >>> round(found.all_pass, 4), round(found.any_pass, 4)
    (0.3889, 0.6111)
    """
    check_level(level)
    passed, asked = np.asarray(successes, dtype=np.int64), np.asarray(attempts, dtype=np.int64)
    if k < 1:
        raise ParameterError("k", k, "must be 1 or more")
    wrong = np.flatnonzero((passed > asked) | (passed < 0))
    if len(wrong):
        raise ParameterError("successes", passed[wrong[0]], f"must be 0 to the attempts of its row: {asked[wrong[0]]}")
    enough = asked >= k
    passed, asked = passed[enough], asked[enough]
    every, none = _chosen(passed, asked, k), _chosen(asked - passed, asked, k)
    limits = [mean_interval(share, level, shares=True) for share in (every, 1 - none)]
    means = [float(share.mean()) if len(share) else math.nan for share in (every, 1 - none)]
    return PassK(k, means[0], *limits[0], means[1], *limits[1], len(every), int((~enough).sum()))


def _chosen(good: npt.NDArray[np.int64], size: npt.NDArray[np.int64], k: int) -> FloatArray:
    """Return C(good, k) / C(size, k)."""
    factors = [np.maximum(good - each, 0) / (size - each) for each in range(k)]
    return np.asarray(np.prod(factors, axis=0), dtype=np.float64)


def pass_table(table: pd.DataFrame, kmax: int | None = None, *, level: float = LEVEL) -> pd.DataFrame:
    """Return pass^k and pass@k of a table of judgements with values 0 and 1.

    An answer passes if more than half of its judgements are 1. Answers that failed are left out.

    Parameters
    ----------
    table
        See :func:`mlflow_l3d.analysis.judged.components.components`.
    kmax
        Largest k; None for the most answers that all rows have.
    level
        Of the intervals.

    Returns
    -------
    pandas.DataFrame
        One line per k from 1: the fields of :class:`PassK`.

    Raises
    ------
    ParameterError
        If a value is neither 0 nor 1.

    Examples
    --------
    >>> frame = pd.DataFrame({"row": ["a", "a", "b", "b"], "answer": range(4), "judge": "exact", "value": [1, 0, 1, 1]})
    >>> pass_table(frame)[["k", "all_pass", "any_pass"]].values.tolist()
    [[1.0, 0.75, 0.75], [2.0, 0.5, 1.0]]
    """
    data = usable_judgements(table).table
    other = data.loc[~data["value"].isin((0, 1)), "value"]
    if len(other):
        raise ParameterError("value", other.iloc[0], "must be 0 or 1 for pass^k", "Turn the scores into passes first.")
    passes = data.groupby(["row", "answer"])["value"].mean().gt(0.5).groupby("row").agg(["sum", "size"])
    largest = kmax or int(passes["size"].min() if len(passes) else 0)
    lines = [pass_k(passes["sum"], passes["size"], k, level=level) for k in range(1, largest + 1)]
    return pd.DataFrame(lines, columns=list(PassK.__dataclass_fields__))

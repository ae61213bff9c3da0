"""How often k answers to a row all pass (pass^k), or one of them does (pass@k)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.consistency.examples import all_drawn
from mlflow_l3d.analysis.judged.results import PassK
from mlflow_l3d.analysis.judged.table import mean_interval, usable_judgements


def pass_k(successes: npt.ArrayLike, attempts: npt.ArrayLike, k: int, row: npt.ArrayLike | None = None) -> PassK:
    """Return pass^k and pass@k from the answers to each row.

    Parameters
    ----------
    successes, attempts
        Shape (rows,): answers that passed, and all answers.
    k
        Answers at a time, 1 or more. Rows with fewer are left out.
    row
        The row of each number, if rows were answered in several settings; all settings count alike.

    Returns
    -------
    PassK
        Numbers are nan if no row has k answers.

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
    passed, asked = np.asarray(successes, dtype=np.int64), np.asarray(attempts, dtype=np.int64)
    row = np.arange(len(asked)) if row is None else np.asarray(row)
    passed, asked, row = passed[asked >= k], asked[asked >= k], row[asked >= k]
    chosen = {"every": all_drawn(passed, asked, k), "some": 1 - all_drawn(asked - passed, asked, k)}
    shares = pd.DataFrame(chosen).groupby(row).mean()
    every, some = (
        (float(shares[name].mean()), *mean_interval(shares[name].to_numpy(), shares=True)) for name in shares
    )
    return PassK(k, *every, *some, len(shares))


def pass_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return pass^k and pass@k of a table of judgements with values 0 and 1: one line per k that all rows have.

    An answer passes if more than half of its judgements are 1. Answers that failed are left out. The k answers have the
    same setting, such as prompt and model; the mean over settings is given.

    Examples
    --------
    >>> frame = pd.DataFrame({"row": ["a", "a", "b", "b"], "answer": range(4), "judge": "exact", "value": [1, 0, 1, 1]})
    >>> pass_table(frame)[["k", "all_pass", "any_pass"]].values.tolist()
    [[1.0, 0.75, 0.75], [2.0, 0.5, 1.0]]
    """
    data, settings, *_ = usable_judgements(table)
    cell = ["row", *settings]
    passes = data.groupby([*cell, "answer"])["value"].mean().gt(0.5).groupby(cell).agg(["sum", "size"]).reset_index()
    most = int(passes["size"].min() if len(passes) else 0)
    lines = [pass_k(passes["sum"], passes["size"], k, passes["row"]) for k in range(1, most + 1)]
    return pd.DataFrame(lines, columns=list(PassK.__dataclass_fields__))

"""The tables of Zhou et al. 2025 over several seeds studies, in their layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.seeds.study import SeedsStudy

TABLE_1: Final = {"metric_mean": "score", "var": "VAR", "con": "CON", "ccon": "CCON"}
TABLE_7: Final = {
    "P": ("precision", "precision_std"),
    "R": ("recall", "recall_std"),
    "F1": ("f1", "f1_std"),
    "score": ("metric_mean", "var"),
    "CON": ("con", "con_std"),
    "CCON": ("ccon", "ccon_std"),
}
_COLUMNS: Final = {
    **{"seeds": ("own", "runs"), "metric_mean": ("own", "mean"), "var": ("own", "var")},
    **{"con": ("con", "mean"), "ccon": ("ccon", "mean"), "con_std": ("con", "std"), "ccon_std": ("ccon", "std")},
    **{
        name: (measure, value)
        for measure in ("precision", "recall", "f1")
        for name, value in ((measure, "mean"), (f"{measure}_std", "var"))
    },
    **{f"{name}_ci_{end}": ("own", f"{name}_ci_{end}") for name in ("mean", "std") for end in ("low", "high")},
    **{f"{name}_ci_{end}": (name, f"mean_ci_{end}") for name in ("con", "ccon") for end in ("low", "high")},
}
"""Column -> which record of a study holds it, and where; nan in studies without the record."""


def study_rows(studies: Sequence[SeedsStudy]) -> pd.DataFrame:
    """Return one row a study, in the columns of the papers' tables; fractions.

    Returns
    -------
    pandas.DataFrame
        ``model, benchmark, task, metric, training_size, seeds, metric_mean, var, con, ccon, con_std, ccon_std,
        precision, precision_std, recall, recall_std, f1, f1_std``, then the intervals ``mean_ci_low, mean_ci_high,
        std_ci_low, std_ci_high, con_ci_low, con_ci_high, ccon_ci_low, ccon_ci_high``, and ``kappa, robust_share,
        fragile_share`` with ``kappa_ci_low, ..., fragile_ci_high``, and ``constant_seeds``. ``var`` and ``..._std``
        have ddof=0 (equation 1), the interval is of the standard deviation over all seeds. Of regression ``con`` is
        CON-PEAR; ccon, precision, recall and f1 are nan.
    """
    return pd.DataFrame([_row(study) for study in studies])


def _row(study: SeedsStudy) -> dict[str, object]:
    records = {
        "own": study.own,
        "con": study.pairs.get("consistency_pearson" if study.kind == "regression" else "consistency"),
        "ccon": study.pairs.get("correct_consistency"),
        **{name: study.spreads.get(f"{name}_macro") for name in ("precision", "recall", "f1")},
    }
    row: dict[str, object] = {
        "model": study.model,
        "benchmark": study.benchmark,
        "task": study.task,
        "metric": study.metric,
        "training_size": math.nan if study.training_size is None else float(study.training_size),
    }
    for column, (record, value) in _COLUMNS.items():
        row[column] = getattr(records[record], value, math.nan)
    row["kappa"] = study.together.get("fleiss_kappa", math.nan)
    row |= {name: getattr(study.examples, name, math.nan) for name in ("robust_share", "fragile_share")}
    for short, name in (("kappa", "fleiss_kappa"), ("robust", "robust_share"), ("fragile", "fragile_share")):
        row[f"{short}_ci_low"], row[f"{short}_ci_high"] = study.intervals.get(name, (math.nan, math.nan))
    return row | {"constant_seeds": len(study.constant_seeds)}


def table_1(rows: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """Return Table 1 of Zhou et al. 2025: (model, benchmark) -> score, VAR, CON, CCON (rows) of each task (columns).

    Parameters
    ----------
    rows
        As :func:`study_rows` gives, or the papers' own numbers in the same columns; in whatever unit.
    """
    found = {}
    for (model, benchmark), part in rows.groupby(["model", "benchmark"], sort=False):
        wide = part.set_index("task")[list(TABLE_1)].T
        found[str(model), str(benchmark)] = wide.rename(index=TABLE_1).rename_axis(index=None, columns=None)
    return found


def table_7(rows: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """Return Tables 7 and 8: (model, benchmark) -> one row a task; columns P, R, F1, score, CON, CCON x mean, std.

    Parameters
    ----------
    rows
        As in :func:`table_1`.
    """
    found = {}
    columns = pd.MultiIndex.from_product([TABLE_7, ("mean", "std")])
    names = [name for pair in TABLE_7.values() for name in pair]
    for (model, benchmark), part in rows.groupby(["model", "benchmark"], sort=False):
        tasks = pd.Index(part["task"].tolist())
        values = part[names].to_numpy(dtype=np.float64)
        found[str(model), str(benchmark)] = pd.DataFrame(values, index=tasks, columns=columns)
    return found

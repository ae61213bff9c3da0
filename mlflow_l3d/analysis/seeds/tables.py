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
    nothing = (math.nan,) * 6
    numeric = study.kind == "regression"
    con = study.pairs.get("consistency_pearson" if numeric else "consistency")
    ccon = None if numeric else study.pairs.get("correct_consistency")
    con_values = nothing if con is None else (con.mean, con.std, con.mean_ci_low, con.mean_ci_high)
    ccon_values = nothing if ccon is None else (ccon.mean, ccon.std, ccon.mean_ci_low, ccon.mean_ci_high)
    row: dict[str, object] = {
        "model": study.model,
        "benchmark": study.benchmark,
        "task": study.task,
        "metric": study.metric,
        "training_size": math.nan if study.training_size is None else float(study.training_size),
        "seeds": study.own.runs,
        "metric_mean": study.own.mean,
        "var": study.own.var,
        "con": con_values[0],
        "ccon": ccon_values[0],
        "con_std": con_values[1],
        "ccon_std": ccon_values[1],
    }
    for short, name in (("precision", "precision_macro"), ("recall", "recall_macro"), ("f1", "f1_macro")):
        spread = None if numeric else study.spreads.get(name)
        row |= {short: math.nan if spread is None else spread.mean}
        row |= {f"{short}_std": math.nan if spread is None else spread.var}
    own, examples = study.own, study.examples
    return row | {
        "mean_ci_low": own.mean_ci_low,
        "mean_ci_high": own.mean_ci_high,
        "std_ci_low": own.std_ci_low,
        "std_ci_high": own.std_ci_high,
        "con_ci_low": con_values[2],
        "con_ci_high": con_values[3],
        "ccon_ci_low": ccon_values[2],
        "ccon_ci_high": ccon_values[3],
        "kappa": study.together.get("fleiss_kappa", math.nan),
        "robust_share": math.nan if examples is None else examples.robust_share,
        "fragile_share": math.nan if examples is None else examples.fragile_share,
        **{
            f"{short}_ci_{end}": limit
            for short, name in (("kappa", "fleiss_kappa"), ("robust", "robust_share"), ("fragile", "fragile_share"))
            for end, limit in zip(("low", "high"), study.intervals.get(name, (math.nan, math.nan)), strict=True)
        },
        "constant_seeds": len(study.constant_seeds),
    }


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

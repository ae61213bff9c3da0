"""Several seeds studies side by side: the tables of Zhou et al. 2025, the seed x task matrix, what holds over tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.tables import usable
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, known, with_interval
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.metrics.regression import unit_length
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.studies.seeds.numbers import SeedsStudy
from mlflow_l3d.studies.seeds.numbers.better_seed import BetterSeed, better_seed

TABLE_7: Final = {
    "P": ("precision", "precision_std"),
    "R": ("recall", "recall_std"),
    "F1": ("f1", "f1_std"),
    "score": ("metric_mean", "var"),
    "CON": ("con", "con_std"),
    "CCON": ("ccon", "ccon_std"),
}


@dataclass(frozen=True, slots=True)
class ModelOverTasks:
    """What holds over the tasks of one model.

    Attributes
    ----------
    model
        Its name.
    rows
        One row per task; see :func:`study_rows`.
    matrix
        Own metric of each task (rows) under each seed (columns), fractions; only seeds that all tasks have.
    better_seed
        Whether one is better; None below two tasks or two seeds in common.
    correlations
        Of the training size with VAR, CON and CCON, on the log scale and on the size itself (`scale`).
    notes
        What a reader must know about them.
    """

    model: str
    rows: pd.DataFrame
    matrix: pd.DataFrame
    better_seed: BetterSeed | None
    correlations: pd.DataFrame
    notes: tuple[str, ...]

    def metrics(self) -> dict[str, float]:
        """Return the single numbers by name; those that are nan are left out."""
        metrics = {} if self.better_seed is None else self.better_seed.metrics()
        for row in self.correlations[self.correlations["scale"] == "log"].to_dict("records"):
            for name in (*with_interval("pearson"), *with_interval("spearman")):
                metrics[f"size_{name}/{row['measure']}"] = float(row[name])
        return known(metrics)


def over_tasks(studies: Sequence[SeedsStudy]) -> tuple[ModelOverTasks, ...]:
    """Compare studies over tasks, each model by itself, in the order in which models come.

    Parameters
    ----------
    studies
        One for each task and model.

    Raises
    ------
    ParameterError
        If there is none, or two have the same task, benchmark and model.
    """
    if not studies:
        raise ParameterError("studies", "(none)", "must be at least one seeds study")
    models = []
    for name in dict.fromkeys(study.model for study in studies):
        of_model = [study for study in studies if study.model == name]
        rows, matrix = study_rows(of_model), seed_matrix(of_model)
        better = better_seed(matrix) if min(matrix.shape) >= 2 else None
        notes = [*_notes(of_model, matrix, better)]
        has_unit = (scales_of(rows) == 1) | (rows["metric"].nunique() == 1)
        if others := ", ".join(rows["task"][~has_unit]):
            notes.append(f"Not in the correlation with VAR, for a unit of its own: {others}.")
        correlations = size_correlations(rows.assign(var=rows["var"].where(has_unit)))
        models.append(ModelOverTasks(name, rows, matrix, better, correlations, tuple(notes)))
    return tuple(models)


def seed_matrix(studies: Sequence[SeedsStudy]) -> pd.DataFrame:
    """Return the own metric of each task (rows) under each seed (columns) that all tasks have; nan for a failed run.

    Two tasks of one name are distinguished by their benchmark. The sign of errors (``mse``, ``mae``) is turned.
    """
    names = [study.task for study in studies]
    labels = [
        f"{study.task} ({study.benchmark})" if names.count(study.task) > 1 and study.benchmark else study.task
        for study in studies
    ]
    if repeated := [label for at, label in enumerate(labels) if label in labels[:at]]:
        raise ParameterError("task", repeated[0], "must have one study for each model", "Use compare.")
    shared = [seed for seed in studies[0].seeds if all(seed in study.seeds for study in studies)]
    rows = [study.metric.sign * study.scores[study.metric.name].reindex(shared).astype(float) for study in studies]
    return pd.concat(rows, axis=1, keys=pd.Index(labels, name="task")).T.rename_axis(columns="seed")


def _notes(studies: Sequence[SeedsStudy], matrix: pd.DataFrame, better: BetterSeed | None) -> Iterator[str]:
    """Yield what a reader must know: seeds, tasks and sizes that are missing somewhere, or say little."""
    if absent := len({seed for study in studies for seed in study.seeds}) - matrix.shape[1]:
        yield f"{absent} seeds that not all tasks have are left out of the comparison."
    if better is not None and better.left_out:
        listed = ", ".join(better.left_out)
        yield f"Not in the test, for a missing score or because all seeds score the same: {listed}."
    if collapsed := [f"{study.task} ({len(study.collapsed_seeds)})" for study in studies if study.collapsed_seeds]:
        yield f"Seeds that collapsed (they dominate VAR): {', '.join(collapsed)}."
    if unknown := [study.task for study in studies if study.training_size is None]:
        yield f"Training size not known, so not in the correlation: {', '.join(unknown)}."
    sizes = {study.training_size for study in studies} - {None}
    tasks = len(studies) - len(unknown)
    if len(sizes) == 1 and tasks > 1:
        yield f"All tasks have {sizes.pop():,} training examples, so nothing can be said about their number."
    elif 1 < tasks < 30:
        alike = "It treats those that share data, or differ in more than size, as independent"
        yield f"{tasks} tasks are few for a correlation. {alike}."


def size_correlation(
    sizes: npt.ArrayLike, values: npt.ArrayLike, *, scale: Literal["log", "size"] = "log"
) -> dict[str, float]:
    """Return the correlation of training size with a measure, over tasks.

    Parameters
    ----------
    sizes
        Shape (n,): training examples of each task, above 0; nan where unknown.
    values
        Shape (n,): the measure; nan if a task has none.
    scale
        ``log``: of the logarithm of the size (the axis of Figure 2 of Zhou et al. 2025); ``size``: of the size itself.

    Returns
    -------
    dict
        ``tasks``: how many have both; ``pearson`` with Fisher's z interval, which is nan below four tasks;
        ``spearman``, which the scale does not change, with the interval of Bonett and Wright 2000.

    Raises
    ------
    ParameterError
        If a size is not above 0.

    Notes
    -----
    Fisher's interval assumes that both are normal over tasks; of ten tasks or so that cannot be checked, and tasks that
    share data (RTE is in both benchmarks) count as two. A task with one huge training set rules the correlation with
    the size itself.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    size, value = usable(sizes), usable(values)
    if (size <= 0).any():
        raise ParameterError("training_size", float(size[size <= 0][0]), "must be above 0")
    both = np.isfinite(size) & np.isfinite(value)
    size = np.log10(size[both]) if scale == "log" else size[both]
    value = value[both]
    numbers: dict[str, float] = {"tasks": len(size)}
    for name, pair in (("pearson", (size, value)), ("spearman", (rankdata(size), rankdata(value)))):
        units = unit_length(np.stack(pair))
        correlation = float(np.clip(units[0] @ units[1], -1.0, 1.0)) if len(size) > 1 else math.nan
        low, high = math.nan, math.nan
        if len(size) > 3 and abs(correlation) < 1:
            inflation = 1 if name == "pearson" else 1 + correlation**2 / 2
            half = float(ndtri((1 + LEVEL) / 2)) * math.sqrt(inflation / (len(size) - 3))
            low, high = (math.tanh(math.atanh(correlation) + end) for end in (-half, half))
        numbers |= dict(zip(with_interval(name), (correlation, low, high), strict=True))
    return numbers


def size_correlations(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per scale and measure: ``measure``, ``scale``, and what :func:`size_correlation` returns.

    Parameters
    ----------
    rows
        One row per task, as :func:`mlflow_l3d.studies.seeds.numbers.over_tasks.study_rows` returns them.
    """
    scales: tuple[Literal["log", "size"], ...] = ("log", "size")
    return pd.DataFrame(
        {"measure": measure, "scale": scale} | size_correlation(rows["training_size"], rows[measure], scale=scale)
        for scale in scales
        for measure in ("var", "con", "ccon")
    )


def task_rows(models: Sequence[ModelOverTasks]) -> list[dict[Any, Any]]:
    """Return the tasks of all models whose spread is known, the largest first, errors in their own unit last.

    A row is one of :func:`study_rows`, with the metric as an object,
    a name, the scores of the seeds around their mean, in per cent (none of errors), and their standard deviation
    (ddof=1) as text.
    """
    rows: list[dict[Any, Any]] = []
    for model in models:
        for row, (label, scores) in zip(model.rows.to_dict("records"), model.matrix.iterrows(), strict=True):
            name = f"{label}, {model.model}" if len(models) > 1 and model.model else str(label)
            metric = named(row["metric"])
            around = 100 * (scores - scores.mean()).dropna() if metric.percent else ()
            size = f"{unit_of(metric).typical(row['std'])}{unit_of(metric).behind}"
            rows.append({**row, "name": name, "metric": metric, "around": around, "size": size})
    rows = [row for row in rows if not math.isnan(row["std"])]
    return sorted(rows, key=lambda row: (not row["metric"].percent, -row["std"]))


def rows_of_one_unit(models: Sequence[ModelOverTasks]) -> list[dict[Any, Any]]:
    """Return the tasks whose spreads can be compared, the largest first: those in per cent, else of one metric."""
    rows = task_rows(models)
    return [row for row in rows if row["metric"].percent or row["metric"].name == rows[0]["metric"].name]


def scales_of(rows: pd.DataFrame) -> FloatArray:
    """Return what scores, shape (tasks,), are multiplied by before they are shown in percentage points, or in units."""
    return np.array([unit_of(named(name)).scale / 100 for name in rows["metric"]])


def study_rows(studies: Sequence[SeedsStudy]) -> pd.DataFrame:
    """Return one row a study, in the columns of the papers' tables; fractions.

    Returns
    -------
    pandas.DataFrame
        ``model, benchmark, task, metric, training_size, seeds, metric_mean, var, std, con, ccon, con_std, ccon_std,
        precision, precision_std, recall, recall_std, f1, f1_std``, then the intervals ``mean_ci_low, mean_ci_high,
        std_ci_low, std_ci_high, con_ci_low, con_ci_high, ccon_ci_low, ccon_ci_high``, and ``kappa, robust_share,
        fragile_share`` with ``kappa_ci_low, ..., fragile_ci_high``, and ``constant_seeds``. ``std`` has ddof=1 and
        the interval, ``var`` and ``..._std`` have ddof=0 (equation 1). Of regression ``con`` is
        CON-PEAR; ccon, precision, recall and f1 are nan.
    """
    rows = []
    for study in studies:
        scores, pairs = study.own, study.pairs
        con = pairs.get("consistency", pairs.get("consistency_pearson"))
        ccon = pairs.get("correct_consistency")
        columns: list[tuple[str, object, str]] = [("seeds", scores, "runs"), ("metric_mean", scores, "mean")]
        columns += [("var", scores, "var"), ("std", scores, "std"), ("con", con, "mean"), ("ccon", ccon, "mean")]
        columns += [("con_std", con, "std"), ("ccon_std", ccon, "std")]
        for name in ("precision", "recall", "f1"):
            macro = study.spreads.get(f"{name}_macro")
            columns += [(name, macro, "mean"), (f"{name}_std", macro, "var")]
        columns += [(end, scores, end) for name in ("mean", "std") for end in with_interval(name)[1:]]
        columns += [(f"con_{end}", con, f"mean_{end}") for end in ("ci_low", "ci_high")]
        columns += [(f"ccon_{end}", ccon, f"mean_{end}") for end in ("ci_low", "ci_high")]
        row: dict[str, object] = {name: getattr(study, name) for name in ("model", "benchmark", "task")}
        row |= {"metric": study.metric.name, "training_size": float(study.training_size or math.nan)}
        row |= {column: getattr(record, number, math.nan) for column, record, number in columns}
        row["kappa"] = study.together.get("fleiss_kappa", math.nan)
        row |= {name: getattr(study.examples, name, math.nan) for name in ("robust_share", "fragile_share")}
        for short, name in (("kappa", "fleiss_kappa"), ("robust", "robust_share"), ("fragile", "fragile_share")):
            row[f"{short}_ci_low"], row[f"{short}_ci_high"] = study.intervals.get(name, (math.nan, math.nan))
        rows.append({**row, "constant_seeds": len(study.constant_seeds)})
    return pd.DataFrame(rows)


def table_7(rows: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """Return Tables 7 and 8: (model, benchmark) -> one row per task; columns P, R, F1, score, CON, CCON x mean, std.

    Parameters
    ----------
    rows
        As :func:`study_rows` gives, or the papers' own numbers in the same columns; in whatever unit.
    """
    columns = pd.MultiIndex.from_product([TABLE_7, ("mean", "std")])
    names = [*chain.from_iterable(TABLE_7.values())]
    tables = {}
    for (model, benchmark), part in rows.groupby(["model", "benchmark"], sort=False):
        tables[str(model), str(benchmark)] = part.set_index("task")[names].astype(np.float64).set_axis(columns, axis=1)
    return tables

"""Reads the independent runs of parent runs, and their predictions, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.comparison.predictions import Predictions, graded, join_predictions, systems
from mlflow_l3d.analysis.comparison.system import System, within_settings
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.intervals import IntArray
from mlflow_l3d.designs import Planned
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.comparison.parents import Parent
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.groups.numbers.grouping import short_name
from mlflow_l3d.studies.groups.numbers.settings import seed_axes, unit_numbers
from mlflow_l3d.studies.importing.imported import recorded_grouping
from mlflow_l3d.studies.investigation.evaluate import check_metric, planned_by
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.predictions import rows_by_cell, with_whole_averages
from mlflow_l3d.tracking.earlier.reader import fetch_artifact, fetch_frame, read_investigation, read_predictions

if TYPE_CHECKING:
    import pyarrow as pa

SEED: Final = "seed."


class Runs(NamedTuple):
    """The independent runs of one parent run: golden ones, or base runs of the radial design.

    Attributes
    ----------
    scores
        Shape (L,).
    seeds
        Factor -> shape (L,).
    predictions
        None if a run has none.
    failed
        Runs without a score.
    classes
        Number of classes of the task; 0 if unknown.
    examples
        Test examples of a run; None if the parent run does not record it.
    cells, planned
        All cells of the plan, those of the tables included, and the plan.
    settings, units
        Shape (L,): in words, the setting of each run of files with several settings, else empty; and the number of
        the independent run that each belongs to, see :func:`mlflow_l3d.studies.groups.numbers.settings.unit_numbers`.
    seed
        Shape (L,): the number of the seed of each run, whatever its setting; the unit's if files have one setting.
    """

    scores: npt.NDArray[np.float64]
    seeds: Mapping[str, npt.NDArray[Any]]
    predictions: Predictions | None
    failed: int
    classes: int
    examples: int | None
    cells: pd.DataFrame
    planned: Planned
    settings: npt.NDArray[np.object_]
    units: IntArray
    seed: IntArray


def systems_of(runs: Mapping[str, Runs], metric: Metric) -> tuple[list[System], list[str]]:
    """Return the systems with these runs on one task, and notes for the reader of the comparison.

    Raises
    ------
    ParameterError
        If the test sets differ, or the settings.
    """
    settings = {name: sorted({*system.settings}) for name, system in runs.items()}
    first, *others = settings.values()
    if others.count(first) < len(others):
        listed = "; ".join(f"{name}: {', '.join(words) or 'one'}" for name, words in settings.items())
        fix = "Evaluate their files again with --only NAME=VALUE, and name those runs."
        raise ParameterError("runs", ", ".join(runs), f"have different settings ({listed})", fix)
    notes = []
    for name, system in runs.items():
        if system.failed:
            every = system.failed + len(system.scores)
            notes.append(f"{name}: {system.failed} of {every} runs failed; the others count.")
        chance = metric.chance_level(system.classes)
        below = 0 if chance is None else int((system.scores < chance).sum())
        if 0 < below <= len(system.scores) / 2:
            notes.append(
                f"{name}: {below} of {len(system.scores)} runs scored below chance. Few such runs change a mean a lot, "
                "and the interval of 20 runs may then contain the truth in only nine of ten cases."
            )
    scores, seeds, tables = zip(*((each.scores, each.seeds, each.predictions) for each in runs.values()), strict=True)
    classes = max(system.classes for system in runs.values()) or None
    examples = max(system.examples or 0 for system in runs.values())
    compared, why = systems(list(runs), scores, seeds, tables, metric, classes, examples)
    if why:
        notes.append(f"The luck of the test examples is not counted: {why}. Intervals hold for these test examples.")
    independent = []
    for each in compared:
        recorded = runs[each.name]
        averaged = replace(each.averaged(recorded.units), lost=recorded.failed)
        if first:
            of_units = np.unique(recorded.units, return_index=True)[1]
            setting = np.searchsorted(first, recorded.settings[of_units])
            seed = recorded.seed[of_units]
            averaged = within_settings(averaged, setting, pd.factorize(seed)[0])
        if averaged.runs < each.runs:
            shared = f"{each.runs} runs have {averaged.runs} seeds"
            notes.append(f"{each.name}: {shared}. Runs with the same seed are averaged and count as one.")
        independent.append(averaged)
    if first:
        settings_text = f"Each of {len(first)} settings has equal weight: {', '.join(first)}"
        notes.append(f"{settings_text}. Runs are compared within them.")
    return independent, notes


def read_runs(client: Client, parent: Parent, metric: Metric) -> Runs:
    """Return the independent runs of one parent run; raise a ParameterError if it has none, or no such metric."""
    with temporary_folder() as folder:
        listed = fetch_frame(client, parent.run_id, names.CELLS, folder)
        every = read_investigation(parent.run_id, client).cells if listed is None else listed
        planned = planned_by(parent.run)
        every = every.assign(**{name: None for name in names.COORDINATES if name not in every})  # a seeds study
        every = every.astype(dict.fromkeys(("row", "column", "index"), "Int64"))
        every = planned.select(every)
        phase = "golden" if every["phase"].eq("golden").any() else "base"
        cells = every[every["phase"].eq(phase)]
        if cells.empty:
            fix = "Independent runs are needed: golden_runs=N, not pooled."
            raise ParameterError("runs", parent.run_id, "has no golden runs", fix)
        check_metric(cells.dropna(axis=1, how="all"), metric)
        kept = cells[cells["status"].eq("FINISHED") & cells[metric.name].notna()]
        kept = kept.sort_values("index" if phase == "golden" else "row", kind="stable").reset_index(drop=True)
        predictions = join_predictions(answers_of_parent(client, parent.run_id, kept), len(kept))
        predictions = predictions or join_predictions(answers_of_cells(client, kept), len(kept))
        if metric.of_classes is not None:
            answers = None if predictions is None else predictions._asdict()
            kept = with_whole_averages(parent.run_id, parent.document, kept, answers)
        of_seeds = kept[[name for name in map(str, kept) if name.startswith(SEED)]].dropna(axis=1)
        recorded = {name.removeprefix(SEED): of_seeds[name].to_numpy() for name in map(str, of_seeds)}
        settings, units, seed, seeds = _independent(parent, kept)
        return Runs(
            kept[metric.name].to_numpy(dtype=np.float64),
            seeds or recorded,
            graded(predictions, metric),
            len(cells) - len(kept),
            parent.classes or 0,
            (parent.document.get("task") or {}).get("test_size"),
            every,
            planned,
            settings,
            units,
            seed,
        )


def _independent(parent: Parent, cells: pd.DataFrame) -> tuple[Any, IntArray, IntArray, Mapping[str, Any]]:
    """Return setting, independent run and seed of each run of files, as `evaluate` groups them, and shared seeds.

    Raises
    ------
    ParameterError
        If seeds are crossed, or a setting has one independent run.
    """
    settings, every = np.zeros(0, dtype=object), np.arange(len(cells))
    if not parent.document.get("groups"):
        return settings, every, every, {}
    grouping = recorded_grouping(parent.document, cells)
    group, seeds = pd.Series(grouping.group), grouping.known_seeds
    axes = seed_axes(group, seeds)
    if axes[1:]:
        crossed = " and ".join(short_name(axis[0]) for axis in axes)
        fix = "Evaluate one file with the runs of all systems, and a column that names the system."
        raise ParameterError("runs", parent.run_id, f"has crossed seeds ({crossed}), which are not compared here", fix)
    units = unit_numbers(group, seeds, axes[0] if axes else ())
    values = seeds[axes[0][0]] if axes else units
    if len(grouping.names) == 1:
        is_whole = units.nunique() < len(units) and values.str.fullmatch("-?[0-9]+").all()
        shared = {"seed": values.astype(int).to_numpy()} if is_whole else {}
        return settings, units.to_numpy(), units.to_numpy(), shared
    settings = np.array(grouping.names, dtype=object)[grouping.group]
    alone = units.groupby(settings).nunique().eq(1)
    if alone.any():
        fix = "Evaluate its files again with --only NAME=VALUE, and name that run."
        raise ParameterError("runs", parent.run_id, f"has one run of {alone.idxmax()}, whose luck is unknown", fix)
    return settings, units.to_numpy(), pd.factorize(values)[0], {"seed": values.to_numpy()} if axes else {}


def answers_of_parent(client: Client, run_id: str, cells: pd.DataFrame) -> Iterator[tuple[int, pa.Table]]:
    """Yield places of cells and their predictions, some at a time, from the parent's one table.

    Nothing if it has none, or cells have no keys of their own.
    """
    with temporary_folder() as folder:
        path = fetch_artifact(client, run_id, names.PREDICTIONS, folder)
        if path is not None and cells["cell_key"].notna().all() and cells["cell_key"].is_unique:
            yield from rows_by_cell(path, cells["cell_key"])


def answers_of_cells(client: Client, cells: pd.DataFrame) -> Iterator[tuple[int, pa.Table]]:
    """Yield places of cells and their predictions from their own runs, until one has none."""
    with closing(read_predictions(client, cells)) as read:
        for number, (_, table) in enumerate(read):
            if table is None:
                return
            yield number, table


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
    both = one.cells.merge(other.cells, on=[*names.COORDINATES], suffixes=("", ".other"))
    shared = [
        name
        for name in one.cells
        if str(name).startswith(SEED) and f"{name}.other" in both and (both[name] == both[f"{name}.other"]).any()
    ]
    same = (both[shared].to_numpy() == both[[f"{name}.other" for name in shared]].to_numpy()).all(axis=1)
    both = both[same & bool(shared)]
    both = both.assign(**{metric.name: both[metric.name] - both[f"{metric.name}.other"]})
    rows = both.groupby("factor")["row"].nunique()  # with fewer than two the spread of row means is undefined
    factors = [
        factor
        for factor in both["factor"].dropna().unique()
        if rows[factor] >= 2 and all(f"{SEED}{name}" in shared for name in str(factor).split("+"))
    ]
    both = both[both["factor"].isna() | both["factor"].isin(factors)]
    if not factors:
        return {}
    plan = replace(one.planned, factors=factors, rows=None, columns=None, golden_runs=None)
    try:
        return design.importances(plan.tables(both, metric.name), missing=plan.missing, level=level)
    except L3DError:  # the shared cells do not form a table of this design
        return {}

"""Several seeds studies side by side: the seed x task matrix, and what holds over tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.jackknife import LEVEL
from mlflow_l3d.analysis.seeds.better_seed import BetterSeed, better_seed
from mlflow_l3d.analysis.seeds.friedman import SeedPower, seed_power
from mlflow_l3d.analysis.seeds.size_correlation import MEASURES, size_correlations
from mlflow_l3d.analysis.seeds.study import SeedsStudy
from mlflow_l3d.analysis.seeds.tables import study_rows
from mlflow_l3d.analysis.typing import known
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named


@dataclass(frozen=True, slots=True)
class ModelOverTasks:
    """What holds over the tasks of one model.

    Attributes
    ----------
    model
        Its name.
    rows
        One row a task; see :func:`study_rows`.
    matrix
        Own metric of each task (rows) under each seed (columns), fractions; only seeds that all tasks have.
    better_seed
        Whether one is better; None below two tasks or two seeds in common.
    power
        What so many seeds and tasks could have shown; None likewise.
    correlations
        Of the training size with VAR, CON and CCON, on the log scale and on the size itself (`scale`).
    notes
        What a reader must know about them.
    """

    model: str
    rows: pd.DataFrame
    matrix: pd.DataFrame
    better_seed: BetterSeed | None
    power: SeedPower | None
    correlations: pd.DataFrame
    notes: tuple[str, ...]

    def metrics(self) -> dict[str, float]:
        """Return the single numbers by name; those that are nan are left out."""
        found = {} if self.better_seed is None else self.better_seed.metrics()
        logs = self.correlations[self.correlations["scale"] == "log"]
        for row in logs.to_dict("records"):
            for kind in ("pearson", "spearman"):
                for end in ("", "_ci_low", "_ci_high"):
                    found[f"size_{kind}{end}/{row['measure']}"] = float(row[kind + end])
        return known(found)


def over_tasks(studies: Sequence[SeedsStudy], *, level: float = LEVEL) -> tuple[ModelOverTasks, ...]:
    """Compare studies over tasks, each model by itself, in the order in which models come.

    Parameters
    ----------
    studies
        One for each task and model.
    level
        Confidence level of test and intervals.

    Raises
    ------
    ParameterError
        If there is none, or two have the same task, benchmark and model.
    """
    if not studies:
        raise ParameterError("studies", "(none)", "must be at least one seeds study")
    models = dict.fromkeys(study.model for study in studies)
    return tuple(_of_model(name, [one for one in studies if one.model == name], level) for name in models)


def seed_matrix(studies: Sequence[SeedsStudy]) -> pd.DataFrame:
    """Return the own metric of each task (rows) under each seed (columns) that all tasks have; nan for a failed run.

    Two tasks of one name are told apart by their benchmark. The sign of errors (``mse``, ``mae``) is turned.
    """
    names = [study.task for study in studies]
    labels = [
        f"{study.task} ({study.benchmark})" if names.count(study.task) > 1 and study.benchmark else study.task
        for study in studies
    ]
    if repeated := [label for at, label in enumerate(labels) if label in labels[:at]]:
        raise ParameterError("task", repeated[0], "must have one study for each model")
    shared = [seed for seed in studies[0].seeds if all(seed in study.seeds for study in studies)]
    rows = [
        named(study.metric).sign * study.scores[study.metric].reindex(shared).to_numpy(dtype=np.float64)
        for study in studies
    ]
    values = np.array(rows, dtype=np.float64).reshape(len(studies), len(shared))
    return pd.DataFrame(values, index=pd.Index(labels, name="task"), columns=pd.Index(shared, name="seed"))


def _of_model(model: str, studies: Sequence[SeedsStudy], level: float) -> ModelOverTasks:
    rows = study_rows(studies)
    matrix = seed_matrix(studies)
    enough = min(matrix.shape) >= 2
    found = better_seed(matrix, level=level) if enough else None
    tested = 0 if found is None else len(found.tasks)
    power = seed_power(matrix.shape[1], tested, level=level) if tested >= 2 else None
    correlations = pd.concat(
        [size_correlations(rows, measures=MEASURES, scale=scale, level=level) for scale in ("log", "size")],
        ignore_index=True,
    )
    return ModelOverTasks(model, rows, matrix, found, power, correlations, _notes(studies, matrix, found))


def _notes(studies: Sequence[SeedsStudy], matrix: pd.DataFrame, found: BetterSeed | None) -> tuple[str, ...]:
    notes = []
    everything = {seed for study in studies for seed in study.seeds}
    if len(everything) > matrix.shape[1]:
        notes.append(
            f"{len(everything) - matrix.shape[1]} seeds that not all tasks have are left out of the comparison."
        )
    if found is not None and found.left_out:
        listed = ", ".join(found.left_out)
        notes.append(f"Not in the test, for a missing score or because all seeds score the same: {listed}.")
    collapsed = [f"{study.task} ({len(study.collapsed_seeds)})" for study in studies if study.collapsed_seeds]
    if collapsed:
        notes.append(f"Seeds that collapsed (they dominate VAR): {', '.join(collapsed)}.")
    unknown = [study.task for study in studies if study.training_size is None]
    if unknown:
        notes.append(f"Training size not known, so not in the correlation: {', '.join(unknown)}.")
    sizes = {study.training_size for study in studies} - {None}
    if len(sizes) == 1 and len(studies) - len(unknown) > 1:
        notes.append(f"All tasks have {sizes.pop():,} training examples, so nothing can be said about their number.")
    elif 0 < len(studies) - len(unknown) < 30:
        notes.append(
            f"{len(studies) - len(unknown)} tasks are few for a correlation, and it takes those that share data, "
            "or differ in more than size, as if they did not."
        )
    return tuple(notes)

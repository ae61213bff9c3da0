"""What a budget buys: the runs and test examples for which the mean score of what is planned is known best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.metrics.known import pseudo_values
from mlflow_l3d.studies.budget import Budget
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.studies.planning.numbers import FEWEST_RUNS, ScoreVariances, best, projection, score_variances
from mlflow_l3d.tasks.resolve import unused_test_examples
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.reader import read_investigation, read_predictions

_SHOWN: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000)


def projected(
    request: InvestigationRequest, client: Client | None, run_id: str | None, budget: Budget, seconds: float
) -> tuple[pd.DataFrame | None, str]:
    """Return how to spend a budget so that the mean score is known best.

    Parameters
    ----------
    request
        What is planned.
    client
        Where the pilot is; None where no server answers.
    run_id
        The pilot, whose golden (or base) runs say what varies; None if there is none.
    budget
        What there is.
    seconds
        Of a cell of the pilot.

    Returns
    -------
    tuple
        Rows of :func:`mlflow_l3d.studies.planning.numbers.projection`, with ``best``, None if there are none; and the
        result, or why there is none.
    """
    if client is None or run_id is None:
        return None, "nothing is known of how scores vary. pilot=run measures it."
    if request.metric.function is None:
        return None, f"{request.metric} comes from the approach itself, and not from predictions. Name another metric."
    lists = request.setup.approach.levels(request.setup.task, request.setup.hyperparameters)
    variances = _variances(request, client, run_id, lists)
    if variances is None:
        return None, f"the pilot has fewer than {FEWEST_RUNS} golden runs with predictions on examples in common."
    per_run, per_example, costs = _costs(request, budget, seconds, variances.per_run)
    if not math.isfinite(per_run + per_example):
        return None, "the seconds of a cell are not known. Give cells, or pilot=run."
    amount = next(float(each) for each in (budget.cells, budget.requests, budget.seconds) if each is not None)
    table, task = projection(variances, amount, per_run=per_run, per_example=per_example), request.setup.task
    if (unused := unused_test_examples(task)) is not None:  # else any number may be in a test set
        table = table[table["examples"] <= unused + len(task.split(dict.fromkeys(TASK_FACTORS, 0)).test)]
    if table.empty:
        return None, f"it does not pay for {FEWEST_RUNS} cells ({costs})."
    top = best(table)
    wanted = {*_SHOWN, variances.pool, round(variances.per_run), int(top["examples"])}
    shown = table[table["examples"].isin(wanted)].reset_index(drop=True)
    test_set = "the same in all cells" if variances.shared else f"redrawn in each from the pilot's {variances.pool:,}"
    note = (
        f"the mean {request.metric} is known best with {_counted(top, variances.levels, lists)}, each with "
        f"{top['examples']:,.0f} test examples, {test_set} ({costs})."
    )
    return shown.assign(best=shown["examples"] == top["examples"]), note


def _counted(row: pd.Series, levels: int, lists: Mapping[str, int]) -> str:
    """Return how many cells there are, and of a list how many for each element."""
    of_each = f" for each of {levels:,} {' x '.join(lists)}" if levels > 1 else ""
    return f"{row['runs'] / levels:,.0f} cells{of_each}"


def _costs(request: InvestigationRequest, budget: Budget, seconds: float, examples: float) -> tuple[float, float, str]:
    """Return what a cell costs, in the unit of the budget: by itself, for each of its examples, and both in words."""
    if budget.cells is not None:
        return 1.0, 0.0, "a cell costs the same with any number of test examples"
    reference = len(request.setup.task.reference_ids)  # each cell predicts these, too
    if budget.requests is not None:
        return reference, 1.0, "a request for each"
    if request.setup.approach.only_evaluates:
        each = seconds / (examples + reference)
        return reference * each, each, f"{each:.3g} s for each, as nothing is trained"
    return seconds, 0.0, f"{seconds:.3g} s a cell, most of it training"


def _variances(
    request: InvestigationRequest, client: Client, run_id: str, lists: Mapping[str, int]
) -> ScoreVariances | None:
    """Return what scores of the pilot's independent runs are made of; None if it cannot be estimated."""
    cells = read_investigation(run_id, client).cells
    # Phases of cells whose factors are all drawn anew.
    cells = cells[cells["phase"].isin(("golden", "base")) & cells["status"].eq("FINISHED")]
    classes = len(request.setup.task.class_names) or None
    values, ids, level, count = [], [], [], math.prod(lists.values())
    places = tuple((cells[f"seed.{name}"] % length).to_numpy(dtype=np.int64) for name, length in lists.items())
    numbers = np.ravel_multi_index(places, tuple(lists.values())).tolist() if lists else [0] * len(cells)
    with closing(read_predictions(client, cells)) as read:
        for number, (_, found) in zip(numbers, read, strict=True):
            if found is None or found.num_rows < 2:
                continue
            example_ids, labels, predictions = (
                np.asarray(found.column(name).to_pandas()) for name in ("example_id", "label", "prediction")
            )
            own = pseudo_values(request.metric, labels, predictions, classes)
            if np.isfinite(own).all():
                values.append(own)
                # Ids that numpy can sort; those of pandas' texts are objects.
                ids.append(example_ids if example_ids.dtype.kind in "iu" else example_ids.astype(str))
                level.append(number)
    return score_variances(values, ids, level, count)

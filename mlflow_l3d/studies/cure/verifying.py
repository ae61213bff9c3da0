"""Verifying remedies: golden runs with a remedy next to the stored ones without, at the same configurations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pandas as pd

from mlflow_l3d.analysis.consistency.consistency import Stability
from mlflow_l3d.analysis.cure.remedy import MEASURED, Prediction
from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.sources import PUBLISHED
from mlflow_l3d.paths import cache_folder, write_whole
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.studies.base import locked
from mlflow_l3d.studies.cure.changed import FEWEST, cured_request, member_keys, stored_runs, trained
from mlflow_l3d.studies.cure.numbers.verified import Verified, verify
from mlflow_l3d.studies.cure.request import CureRequest
from mlflow_l3d.studies.gate.golden import GoldenRequest, GoldenRuns
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.reader import read_predictions
from mlflow_l3d.tracking.opening import spooled_cells


@dataclass(frozen=True)
class Planned:
    """A remedy that is to be trained.

    Attributes
    ----------
    prediction
        What is predicted of it.
    request
        Its golden runs.
    done, trainings
        Trainings that are done, and those that are left; members that are stored need none.
    is_line
        Whether its golden runs have another number of labels, and a line through them is all that is known.
    """

    prediction: Prediction
    request: GoldenRequest
    done: int
    trainings: int
    is_line: bool = False


def plan_remedies(client: Client, request: CureRequest) -> tuple[list[Planned], list[str]]:
    """Return the first remedies, at most so many, that are trained within the budget, and why others are not."""
    planned: list[Planned] = []
    notes: list[str] = []
    if not (most := request.arguments["verify"]) or request.golden is None:
        return planned, notes
    left = request.budget.cells or math.inf
    if request.budget.seconds is not None:
        left = request.budget.seconds * request.workers / request.gathered.seconds * request.each
    chosen = request.chosen()
    if not chosen:
        notes.append("Nothing is verified, since no remedy that can be trained is predicted to help.")
    for prediction in chosen:
        if len(planned) == most:
            break
        words = remedy_words(prediction.remedy)
        try:
            golden = cured_request(request.golden, prediction.remedy)
        except L3DError as error:
            notes.append(f"{words}: not verified ({error})")
            continue
        stored = request.each * prediction.remedy.trainings * (prediction.remedy.members > 1)
        each = prediction.trainings - stored  # the stored run is a member
        done = {*finished_cells(client, golden.context_key), *spooled_cells(client, golden.key)}
        missing = [cell.key not in done for cell in golden.cells()]
        affordable = next((at for at in range(len(missing), 0, -1) if sum(missing[:at]) * each <= left), 0)
        if affordable < min(FEWEST, request.golden.runs):
            notes.append(f"{words}: not verified, since the budget does not pay for {FEWEST} golden runs.")
            continue
        trainings = sum(missing[:affordable]) * each
        left -= trainings
        golden = replace(golden, runs=affordable)
        is_line = trained(request.golden, prediction.remedy) != prediction.remedy
        planned.append(Planned(prediction, golden, affordable * each - trainings, trainings, is_line))
    return planned, notes


def fetch_members(client: Client, request: GoldenRequest) -> None:
    """Bring the stored members of cured golden runs to their folder, each once."""
    folder, (context, keys) = cache_folder("members"), member_keys(request)
    if not (keys := [key for key in keys if not (folder / f"{key}.parquet").is_file()]):
        return
    cells = stored_runs(client, keys, context)
    metrics = [name for name in cells.select_dtypes("number") if name not in ("row", "column", "index")]
    rows = cells.to_dict("records")
    for row, (_, table) in zip(rows, read_predictions(client, cells, scores=True, reference=True), strict=True):
        if table is None:
            continue
        values = {name: float(row[name]) for name in metrics if math.isfinite(row[name])}
        # A reader looks for the Parquet file first.
        write_whole(folder / f"{row['cell_key']}.json", json.dumps(values))
        write_whole(folder / f"{row['cell_key']}.parquet", table.to_pandas().to_parquet(index=False))


def verify_remedies(
    client: Client, request: CureRequest, planned: Sequence[Planned], run_id: str, *, progress: bool
) -> Iterator[Verified]:
    """Train the planned remedies one after the other, and yield what came of each that was trained itself."""
    side, metric = request.side, request.gathered.metric
    level = 1 - (1 - LEVEL) / len(planned)
    plain_agreement = cache(lambda runs: _agreement(side.predictions(client, runs)))
    for each in planned:
        runs = each.request.runs
        if each.prediction.remedy.members > 1:
            fetch_members(client, each.request)
        training = GoldenRuns(replace(each.request, gate=run_id), progress=progress)
        waiting = f"Another process trains the {each.request.side}. Waiting for it."  # then its runs are done
        with locked(cache_folder("members") / f"{each.request.key}.lock", waiting), training.opened():
            training.advance(runs)
            agreement = _agreement(training.predictions(runs))
            training.finish(runs)
        parent = training.recorder.parent.run_id
        made = each.prediction
        if each.is_line:
            continue
        if made.remedy.kind in MEASURED and made.basis != "extrapolated":  # its prediction was made from these runs
            made = Prediction(remedy=made.remedy, basis="unknown", trainings=made.trainings, seconds=made.seconds)
        begun = Verified(prediction=made, run_id=parent, runs=runs, consistency=agreement)
        begun = replace(begun, plain_consistency=plain_agreement(runs))
        yield verify(begun, side.scores(metric.name, runs), training.scores, level, chance=request.gathered.chance)


def _agreement(tables: Iterable[pd.DataFrame | None]) -> float:
    """Return the share of predictions on which two golden runs agree; nan if it is not known."""
    stability = Stability(design_named(PUBLISHED).comparable(()))
    for number, table in enumerate(tables):
        if table is None or table["prediction"].dtype.kind not in "iu":
            return math.nan
        place: dict[str, Any] = {"phase": "golden", "factor": None, "row": None, "column": None, "index": number}
        ids, labels, predictions = (table[name].to_numpy() for name in ("example_id", "label", "prediction"))
        stability.add(**place, example_ids=ids, labels=labels, predictions=predictions)
    golden = stability.consistencies().get("golden")
    return math.nan if golden is None else golden.consistency

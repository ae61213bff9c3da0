"""The found setting against the given one, on configurations that were not searched on."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from mlflow_l3d.analysis.search import HeldOut, held_out
from mlflow_l3d.studies.base import executor_of, job_of
from mlflow_l3d.studies.progress import progress_bar
from mlflow_l3d.studies.search.cells import held_out_cells
from mlflow_l3d.studies.search.results import known_endings
from mlflow_l3d.studies.search.trials import Tuned

if TYPE_CHECKING:
    from mlflow_l3d.approaches.hyperparameters import Value
    from mlflow_l3d.studies.search.request import SearchRequest
    from mlflow_l3d.tracking.recorder import RunRecorder
    from mlflow_l3d.tracking.records import TrialRecord

_logger = logging.getLogger("mlflow_l3d")


def compare(
    request: SearchRequest, best: Mapping[str, Value], recorder: RunRecorder[TrialRecord], *, progress: bool
) -> HeldOut | None:
    """Train both settings on configurations not searched on, and score the test examples.

    Parameters
    ----------
    request
        What was searched; its hyperparameters are the given setting.
    best
        The found setting.
    recorder
        Takes the records; what it knows already is not trained.
    progress
        Whether to show a progress bar on stderr.

    Returns
    -------
    HeldOut or None
        None where no comparison is asked for, or the settings are the same.
    """
    setup = request.setup
    if not request.held_out_runs or dict(best) == dict(setup.hyperparameters):
        return None
    settings = {"found": best, "given": setup.hyperparameters}
    cells = held_out_cells(setup.approach, request.context_key, settings, request.compared_on)
    scores = {key: ending.score for key, ending in known_endings(recorder, "held_out").items()}
    missing = [cell for _, cell in cells if cell.key not in scores]
    kinds = {cell.key: (kind, cell) for kind, cell in cells}
    tuned = Tuned(setup.approach, metric=request.metric, evaluated="test")
    shown = progress_bar("held out", "trial", total=len(missing), shown=progress and bool(missing))
    executor = executor_of(setup, job_of(setup, tuned))
    with shown as bar, closing(executor.run(iter(missing))) as outcomes:
        for outcome in outcomes:
            kind, cell = kinds[outcome.key]
            name = f"held out {cell.trial_number}, {kind}"
            recorder.add(cell.record("held_out", name, "failed" if outcome.error else "complete", outcome))
            if outcome.error is None:
                scores[outcome.key] = float(outcome.metrics["score"])
            else:
                _logger.warning("%s failed: %s", name, outcome.error)
            bar.update()
    found, given = ([scores.get(cell.key, math.nan) for own, cell in cells if own == kind] for kind in settings)
    return held_out(found, given)

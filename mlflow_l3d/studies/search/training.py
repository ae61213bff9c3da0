"""Training of trials: an approach around the user's, whose cells are settings of hyperparameters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal

import numpy as np

from mlflow_l3d.approaches.base import Approach, CellwiseSession, Session
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import Cell, Logged, Outcome, content_key
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import run_cell, run_cells
from mlflow_l3d.execution.sessions import cells_at_once, close_session, prepared
from mlflow_l3d.studies.search.optimiser import new_study
from mlflow_l3d.studies.search.trials import REPORTED, TrialCell, evaluated_on
from mlflow_l3d.tasks.base import Task

STRIDE: Final = 1000
"""Steps of a configuration in what a trial reports: more than any approach of ours has epochs."""


@dataclass(eq=False)
class Tuned(Approach):
    """The user's approach, trained with other hyperparameters in each cell and scored on the validation part.

    Cells must be :class:`TrialCell`. No test example is looked at: whatever the settings of the task say, the
    validation part takes its place.

    Outcomes have predictions if test examples are looked at.
    Metrics: ``score``, the mean of the metric over the configurations; ``score_std``
    (n - 1) if there are several; ``pruned``, 1 if the trial was ended early; ``configurations_done``;
    ``epochs_done``, of all configurations together, if the approach has curves. Curves come from the approach,
    and the reported one: each value is the mean over the configurations that have that epoch.

    Parameters
    ----------
    approach
        The user's.
    metric
        What is scored: one that every approach with predictions has, or one of the approach's own.
    pruner
        ``none``: nothing is reported, Optuna is not needed where trials are trained, and an approach that takes several
        cells in a call gets the configurations of a trial at once. Else a name from
        :func:`mlflow_l3d.studies.search.optimiser.pruner_name`: configurations are trained one after the other, and a
        trial that is ended early has no further one. An approach whose sessions report no epochs reports nothing.
    greater_is_better
        Whether of two scores the greater is the better one.
    evaluated
        ``test`` to compare settings once the search is over; then test examples are looked at.
    """

    approach: Approach
    metric: str
    pruner: str = "none"
    greater_is_better: bool = True
    evaluated: Literal["test", "validation"] = "validation"
    self_tested = False  # its outcomes may be of validation examples

    def __post_init__(self) -> None:
        """Take the name of the user's approach, and what it says of itself."""
        for name in ("name", "version", "factors", "numerics", "dependencies", "model_revision", "classes", "metrics"):
            setattr(self, name, getattr(self.approach, name))

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> TunedSession:
        """Return a session; the user's approach is prepared with the first trial, for its hyperparameters."""
        task = evaluated_on(task, self.evaluated)
        return TunedSession(self, Job(self.approach, task, hyperparameters, model, device, cache))


class TunedSession(CellwiseSession):
    """Trains trials one after the other; the inner session stays while the hyperparameters do.

    Parameters
    ----------
    tuned
        The approach.
    job
        Of the user's approach; its hyperparameters are replaced by those of the trials.
    """

    def __init__(self, tuned: Tuned, job: Job) -> None:
        self.tuned, self.job = tuned, job
        self._inner: Session | None = None

    def close(self) -> None:
        """Close the inner session."""
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()

    def run_cell(self, cell: Cell) -> Outcome:
        """Train and score a trial."""
        assert isinstance(cell, TrialCell)
        session = self._session(cell.hyperparameters)
        cells = []
        for number, seeds in enumerate(cell.configurations_seeds):
            key = content_key({"trial": cell.key, "configuration": number})
            cells.append(Cell("golden", None, None, None, number, {}, dict(seeds), key))
        report = TrialReport(cell, self.tuned) if self.tuned.pruner != "none" and session.reports_epochs else None
        outcomes = self._together(session, cells) if report is None else self._in_turn(session, cells, report)
        for number, outcome in enumerate(outcomes):
            if outcome.error is not None:
                where = f"configuration {number}: " if len(cells) > 1 else ""
                return Outcome(cell.key, error=f"{where}{outcome.error}", traceback=outcome.traceback)
        scores = [self._score(outcome) for outcome in outcomes]
        curves = [outcome.curves for outcome in outcomes]
        metrics = {
            "score": float(np.mean(scores)),
            "pruned": float(report is not None and report.pruned),
            "configurations_done": float(len(scores)),
        }
        if len(scores) > 1:
            metrics["score_std"] = float(np.std(scores, ddof=1))
        if epochs := sum(max(map(len, of_names.values()), default=0) for of_names in curves):
            metrics["epochs_done"] = float(epochs)
        logged = None if report is None else report.logged()
        answers, first = {}, outcomes[0]
        if self.tuned.evaluated == "test" and first.predictions is not None:
            tested = slice(None) if first.reference is None else ~first.reference
            answers = {name: getattr(first, name)[tested] for name in ("example_ids", "labels", "predictions")}
        return Outcome(cell.key, metrics=metrics, curves=mean_curves(curves), logged=logged, **answers)

    def _session(self, hyperparameters: Mapping[str, Value]) -> Session:
        """Return the inner session for these hyperparameters; there is one at a time."""
        if self._inner is None or dict(self.job.hyperparameters) != dict(hyperparameters):
            close_session(self.job, self)
            self.job = replace(self.job, hyperparameters=dict(hyperparameters))
            self._inner = prepared(self.job)
        return self._inner

    def _together(self, session: Session, cells: Sequence[Cell]) -> list[Outcome]:
        """Train the configurations, as many in a call as the inner session takes; return theirs in their order."""
        most = cells_at_once(session, self.job)
        calls = (cells[start : start + most] for start in range(0, len(cells), most))
        outcomes = {outcome.key: outcome for call in calls for outcome in run_cells(session, call, self.job)}
        return [outcomes[cell.key] for cell in cells]

    def _in_turn(self, session: Session, cells: Sequence[Cell], report: TrialReport) -> list[Outcome]:
        """Train one configuration after the other, until one fails or the trial is ended early."""
        outcomes: list[Outcome] = []
        reported = f"validation_{self.tuned.metric}"
        session.on_epoch_end = report.on_epoch_end
        try:
            for cell in cells:
                report.begin([self._score(outcome) for outcome in outcomes])
                outcome = run_cell(session, cell, self.job)
                outcomes.append(replace(outcome, curves={reported: report.curve, **outcome.curves}))
                if outcome.error is not None or report.pruned:
                    break
        finally:
            session.on_epoch_end = None
        return outcomes

    def _score(self, outcome: Outcome) -> float:
        if self.tuned.metric not in outcome.metrics:
            returned = ", ".join(sorted(outcome.metrics))
            approach = f"approach {self.job.approach.name} did not return it, it returned {returned}."
            raise L3DError(f"metric={self.tuned.metric}: {approach}")
        return float(outcome.metrics[self.tuned.metric])


def mean_curves(curves: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Return for every name the mean over the curves that reach an epoch, epoch by epoch.

    Parameters
    ----------
    curves
        Name -> one value per epoch, for each configuration; lengths may differ.
    """
    means: dict[str, list[float]] = {}
    for name in dict.fromkeys(name for of_names in curves for name in of_names):
        epochs = zip_longest(*(of_names.get(name, ()) for of_names in curves))
        means[name] = [float(np.mean([score for score in epoch if score is not None])) for epoch in epochs]
    return {name: values for name, values in means.items() if values}


class TrialReport:
    """The watcher of one trial, over all of its configurations.

    What is reported at epoch e of configuration c is step ``c * STRIDE + e``, and the mean of the scores of the
    configurations that are done and the present score of this one. The pruner compares it with the trials that had
    ended when this one began, in a study of its own. The first trial of a search is never ended early: it is the
    setting that was given, and all others are compared with its score.

    Parameters
    ----------
    cell
        The trial.
    tuned
        Pruner, metric and its direction; epochs are compared by ``validation_<metric>``, those without it are not
        reported.
    """

    def __init__(self, cell: TrialCell, tuned: Tuned) -> None:
        study = new_study(tuned.pruner, greater_is_better=tuned.greater_is_better)
        study.add_trials(cell.earlier)
        self._trial = study.ask()
        self._name = f"validation_{tuned.metric}"
        self._may_end = cell.index != 0
        self._finished: Sequence[float] = ()
        self._curve: dict[int, float] = {}
        self.reports: dict[int, float] = {}
        self.pruned = False

    def begin(self, finished: Sequence[float]) -> None:
        """Begin the next configuration; `finished` are the scores of those before it."""
        self._finished, self._curve = tuple(finished), {}

    @property
    def curve(self) -> list[float]:
        """The scores of the epochs of this configuration that were seen, in their order."""
        return [self._curve[epoch] for epoch in sorted(self._curve)]

    def logged(self) -> Logged:
        """Return what was reported, for the record of the trial."""
        now = int(time.time() * 1000)
        return Logged(metrics=[(REPORTED, value, now, step) for step, value in self.reports.items()])

    def on_epoch_end(self, key: str, epoch: int, scores: Mapping[str, float]) -> bool:
        """Report an epoch; see :data:`mlflow_l3d.approaches.base.OnEpochEnd`."""
        del key
        if self._name not in scores:
            return self.pruned
        score = float(scores[self._name])
        self._curve[epoch] = score
        done = len(self._finished)
        step = done * STRIDE + epoch
        if not self.pruned and epoch < STRIDE and step not in self.reports:
            self.reports[step] = (sum(self._finished) + score) / (done + 1)
            self._trial.report(self.reports[step], step)
            self.pruned = self._may_end and self._trial.should_prune()
        return self.pruned

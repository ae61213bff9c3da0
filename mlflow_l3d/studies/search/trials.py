"""Training of trials: an approach around the user's, whose cells are settings of hyperparameters."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from mlflow_l3d.approaches.base import Approach, CellwiseSession, Session
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import run_cell, run_cells
from mlflow_l3d.execution.sessions import cells_at_once, prepared
from mlflow_l3d.plan.cells import Cell, Outcome, content_key
from mlflow_l3d.studies.search.cells import TrialCell
from mlflow_l3d.studies.search.reports import Reports, TrialReport
from mlflow_l3d.studies.search.samplers import pruner_name
from mlflow_l3d.tasks.base import Task

STRIDE: Final = 1000
"""Steps of a configuration in what a trial reports: more than any approach of ours has epochs."""

_logger = logging.getLogger(__name__)


class Tuned(Approach):
    """The user's approach, trained with other hyperparameters in each cell and scored on the validation part.

    Cells must be :class:`TrialCell`. No test example is looked at: whatever the settings of the task say, the
    validation part stands in its place.

    Outcomes have no predictions. Metrics: ``score``, the mean of the metric over the configurations; ``score_std``
    (n - 1) where there are several; ``pruned``, 1 where the trial was told to end; ``configurations_done``;
    ``epochs_done``, of all configurations together, where the approach has curves. Curves are those of the approach,
    and the reported one: each value is the mean over the configurations that have that epoch.

    Parameters
    ----------
    approach
        The user's.
    metric
        What is scored: one that every approach with predictions has, or one of the approach's own.
    pruner
        ``none``: nothing is reported, Optuna is not needed where trials are trained, and an approach that takes several
        cells in a call gets the configurations of a trial at once. Else a name for
        :func:`mlflow_l3d.studies.search.samplers.pruner_of`: configurations are trained one after the other, and a
        trial that is told to end has no further one. An approach whose sessions report no epochs reports nothing.
    storage, folder
        See :func:`mlflow_l3d.studies.search.storages.storage_of`; opened where trials are trained.
    stride
        See :class:`mlflow_l3d.studies.search.reports.TrialReport`.
    evaluated
        ``test`` to compare settings once the search is over: whatever was said of test examples above holds no more.
    """

    def __init__(
        self,
        approach: Approach,
        *,
        metric: str,
        pruner: str = "none",
        storage: str = "auto",
        folder: Path = Path(),
        stride: int = STRIDE,
        evaluated: Literal["test", "validation"] = "validation",
    ) -> None:
        self.approach, self.metric = approach, metric
        self.pruner = pruner_name(pruner)
        self.storage, self.folder, self.stride = storage, folder, stride
        self.evaluated: Literal["test", "validation"] = evaluated
        self.name: str = approach.name
        self.version: str = approach.version
        self.factors: tuple[str, ...] = approach.factors
        self.hyperparameters = approach.hyperparameters
        self.metrics: tuple[str, ...] = ("score",)
        self.default_model: str = approach.default_model
        self.default_task: str = approach.default_task

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return those of the user's approach."""
        return self.approach.inactive_factors(hyperparameters)

    def model_revision(self, model: str) -> str:
        """Return that of the user's approach."""
        return self.approach.model_revision(model)

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return those of the user's approach."""
        return self.approach.numerics(device)

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> TunedSession:
        """Return a session; the user's approach is prepared with the first trial, for its hyperparameters."""
        bound = replace(task, settings=replace(task.settings, evaluated=self.evaluated))
        return TunedSession(self, Job(self.approach, bound, hyperparameters, model, device, cache))


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
        self._reports: Reports | None = None
        if tuned.pruner != "none":
            self._reports = Reports(tuned.storage, tuned.folder, tuned.pruner, tuned.metric, tuned.stride)

    def close(self) -> None:
        """Close the inner session."""
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()

    def run_cell(self, cell: Cell) -> Outcome:
        """Train and score a trial."""
        if not isinstance(cell, TrialCell):
            msg = f"a search trains trials, and was given the cell {cell.name}."
            raise L3DError(msg)
        session = self._session(cell.hyperparameters)
        cells = [_configuration(cell, number) for number in range(len(cell.configurations_seeds))]
        report = self._reports.of(cell) if self._reports is not None and session.reports_epochs else None
        outcomes = self._together(session, cells) if report is None else self._in_turn(session, cells, report)
        for number, outcome in enumerate(outcomes):
            if outcome.error is not None:
                where = f"configuration {number}: " if len(cells) > 1 else ""
                return Outcome(cell.key, error=f"{where}{outcome.error}", traceback=outcome.traceback)
        scores = [self._score(outcome) for outcome in outcomes]
        metrics = {
            "score": float(np.mean(scores)),
            "pruned": float(report is not None and report.pruned),
            "configurations_done": float(len(scores)),
        }
        if len(scores) > 1:
            metrics["score_std"] = float(np.std(scores, ddof=1))
        if epochs := sum(max(map(len, outcome.curves.values()), default=0) for outcome in outcomes):
            metrics["epochs_done"] = float(epochs)
        return Outcome(cell.key, metrics=metrics, curves=mean_curves([outcome.curves for outcome in outcomes]))

    def _session(self, hyperparameters: Mapping[str, Value]) -> Session:
        """Return the inner session for these hyperparameters; there is one at a time."""
        if self._inner is None or dict(self.job.hyperparameters) != dict(hyperparameters):
            try:
                self.close()
            except Exception:
                _logger.warning("approach %s could not close its session", self.job.approach.name, exc_info=True)
            self.job = replace(self.job, hyperparameters=dict(hyperparameters))
            self._inner = prepared(self.job)
        return self._inner

    def _together(self, session: Session, cells: Sequence[Cell]) -> list[Outcome]:
        """Train the configurations, as many in a call as the inner session takes; return theirs in their order."""
        most = cells_at_once(session, self.job)
        found: dict[str, Outcome] = {}
        for start in range(0, len(cells), most):
            for outcome in run_cells(session, cells[start : start + most], self.job):
                found[outcome.key] = outcome
        return [found[cell.key] for cell in cells]

    def _in_turn(self, session: Session, cells: Sequence[Cell], report: TrialReport) -> list[Outcome]:
        """Train one configuration after the other, until one fails or the trial is told to end."""
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
            has = ", ".join(sorted(outcome.metrics))
            msg = f"metric={self.tuned.metric}: approach {self.job.approach.name} did not return it, it returned {has}."
            raise L3DError(msg)
        return float(outcome.metrics[self.tuned.metric])


def _configuration(cell: TrialCell, number: int) -> Cell:
    """Return the cell of one configuration of a trial."""
    key = content_key({"trial": cell.key, "configuration": number})
    return Cell("golden", None, None, None, number, {}, dict(cell.configurations_seeds[number]), key)


def mean_curves(curves: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Return for every name the mean over the curves that reach an epoch, epoch by epoch.

    Parameters
    ----------
    curves
        Name -> one value an epoch, for each configuration; lengths may differ.
    """
    found: dict[str, list[float]] = {}
    for name in dict.fromkeys(name for own in curves for name in own):
        lines = [own[name] for own in curves if len(own.get(name, ()))]
        longest = max(map(len, lines), default=0)
        means = [float(np.mean([line[at] for line in lines if at < len(line)])) for at in range(longest)]
        if means:
            found[name] = means
    return found

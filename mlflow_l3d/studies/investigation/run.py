"""The main job: request -> plan of cells -> executor -> recorder -> analysis -> report; its numbers while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Unpack

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.shape import long_tails
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.importance.verdicts import joint_level
from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.analysis.planning.stopping import EpsilonRule, IntervalRule
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.execution.environment import deferred_interrupts
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.studies.cells import CellStudy
from mlflow_l3d.studies.files import temporary_folder, write_result
from mlflow_l3d.studies.investigation.parameters import InvestigateOptions
from mlflow_l3d.studies.investigation.report.runs import read_predicted
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.investigation.results import (
    Investigation,
    cells_frame,
    settings_of,
    spooled_predictions,
    write_artifacts,
)
from mlflow_l3d.studies.investigation.scoring import plan_of, score
from mlflow_l3d.studies.self_test import SelfTest
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tracking import names


@with_signature(InvestigateOptions)
def investigate(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    progress: bool | None = None,
    **parameters: Unpack[InvestigateOptions],
) -> Investigation:
    """Investigate how much of a score is luck, and which kind of luck.

    Parameters
    ----------
    task
        Labelled data: a file, a name, a pandas data frame, a data set of the library `datasets`, or a
        :class:`~mlflow_l3d.tasks.base.Task`.
    approach
        The name of an approach, a function with the decorator ``training``, or another
        :class:`~mlflow_l3d.approaches.base.Approach`.
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **parameters
        As on the command line (``mlflow-l3d investigate --help-all``): ``factor``, ``model``,
        ``investigation_runs``, ``mitigation_runs``, ``root_seed``, ...

    Returns
    -------
    Investigation
        The result: ``summary()``, ``to_frame()``, ``cure()``. Its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> factors = "data_order,model_initialisation"
    >>> investigation = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic", factor=factors, design="radial", mitigation_runs=20, executor="inline"
    ... )
    >>> investigation.to_frame()[["factor", "importance", "verdict"]].round(2)
                     factor  importance    verdict
    0            data_order        0.40  undecided
    1  model_initialisation       -0.56      minor
    """
    return InvestigationStudy.conduct(parameters, approach=approach, task=task, progress=progress)


@with_signature(InvestigateOptions)
def self_test(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    progress: bool | None = None,
    **parameters: Unpack[InvestigateOptions],
) -> SelfTest:
    """Return what a new seed of each factor changes in the results, from a few trial runs; nothing is logged.

    Parameters
    ----------
    task, approach, progress, **parameters
        Those of :func:`investigate`.

    Raises
    ------
    L3DError
        If a trial run fails.

    Examples
    --------
    >>> import mlflow_l3d
    >>> mlflow_l3d.self_test("synthetic", approach="synthetic", factor="data_order", executor="inline")
    self-test: what a new seed changes
    data_order            106 of 400 predictions
    sample_choice         9 of 400 predictions
    model_initialisation  4 of 400 predictions
    model_randomness      2 of 400 predictions
    replicate             nothing
    """
    return InvestigationStudy.try_seeds(parameters, approach=approach, task=task, progress=progress)


class Monitor:
    """Tables of scores that fill up in any order; a stopping rule looks at them after every row.

    Parameters
    ----------
    request
        What is investigated; its plan may have a rule that ends the investigation.

    Attributes
    ----------
    steps_done
        Steps that are complete, with all before them.
    stopped
        Rows after which all factors' rules said stop, which ends the investigation; None while it continues.
    """

    def __init__(self, request: InvestigationRequest) -> None:
        plan = request.plan
        self.metric = request.metric
        self.failed = 0
        self.design = request.design()
        self.scores = self.design.empty(pooled=plan.golden_pooled)
        self._chance = self.metric.chance_level(len(request.setup.task.class_names))
        self._rules: dict[str, EpsilonRule | IntervalRule] = {
            factor: EpsilonRule(plan.epsilon)
            if plan.stop == "epsilon"
            else IntervalRule(plan.half_width, factors=len(request.factors))
            for factor in (request.factors if plan.stop != "none" else ())
        }
        self.stopped: int | None = None
        self._left = np.array([self.design.step_size(step) for step in range(self.design.steps)])
        self.steps_done = 0

    @property
    def interim_analyses(self) -> pd.DataFrame | None:
        """One row a look, ``factor`` and the columns of `INTERIM_COLUMNS` of analysis/planning/stopping.py; or None."""
        if not self._rules:
            return None
        looks = pd.concat({factor: rule.history_frame() for factor, rule in self._rules.items()}, names=["factor"])
        return looks.reset_index("factor").sort_values("rows", kind="stable", ignore_index=True)

    def add(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Take the score of one cell; a cell without the metric counts as failed."""
        score = metrics.get(self.metric.name, np.nan)
        self.failed += int(np.isnan(score))
        self.design.fill(self.scores, cell, score)
        self._left[self.design.step_of(cell)] -= 1

    def new_steps(self) -> list[tuple[int, dict[str, float]]]:
        """Return (steps done, the parent's metrics) for each completed since the last call, with all before it.

        None come after the step at which the stopping rule says stop.
        """
        steps: list[tuple[int, dict[str, float]]] = []
        while self.stopped is None and self.steps_done < len(self._left) and self._left[self.steps_done] == 0:
            self.steps_done += 1
            part = self.design.first(self.scores, self.steps_done, len(self._left))
            steps.append((self.steps_done, self._metrics(part)))
            if self._rules:
                self._look(part)
        return steps

    def _look(self, scores: Tables) -> None:
        """Let the rules look after one more row; each row is looked at once, in order."""
        # The papers' bounds are of percentage points, as people read most scores.
        scale = unit_of(self.metric).scale
        scores = scores.changed(lambda values: scale * values)
        rows = len(next(iter(scores.tables.values())))
        for factor, rule in self._rules.items():
            if isinstance(rule, EpsilonRule):
                rule.analyse(scores.tables[factor], self.design.golden_scores(scores))
            else:
                tails = partial(self._has_long_tails, scores, factor)
                rule.analyse(rows, partial(self._estimate, scores, factor), tails)
        if all(rule.stopped for rule in self._rules.values()):
            self.stopped = rows

    def _estimate(self, scores: Tables, factor: str, rows: int) -> Estimate | None:
        return self.design.estimate(self.design.first(scores, rows, self.steps_done), factor)

    def _has_long_tails(self, scores: Tables, factor: str, rows: int) -> bool:
        return long_tails(self.design.golden_scores(scores), scores.tables[factor][:rows])

    def _metrics(self, scores: Tables) -> dict[str, float]:
        records = self.design.importances(scores, chance=self._chance, level=joint_level(LEVEL, len(scores.tables)))
        return Analysis(self.metric, records, cells_failed=self.failed).metrics(details=False)


class InvestigationStudy(CellStudy[InvestigationRequest, Investigation]):
    """One investigation under way; rows that are incomplete when its stopping rule says stop are not scored."""

    specify = staticmethod(specify)

    def __init__(self, request: InvestigationRequest, *, progress: bool | None = False) -> None:
        super().__init__(request, progress=progress)
        self.monitor = Monitor(request)

    @property
    def progress_title(self) -> str:
        """What stands before the progress bar."""
        return self.request.factor_words

    @property
    def stopped(self) -> bool:
        """Whether the stopping rule says stop."""
        return self.monitor.stopped is not None

    @property
    def most_ahead(self) -> int:
        """Under a stopping rule, the cells of a row, or as many as are done."""
        if self.request.plan.stop == "none":
            return super().most_ahead
        return max(self.monitor.design.step_size(0), self.reused + self.computed)

    def on_known(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Let the monitor know."""
        self.monitor.add(cell, metrics)
        for step, values in self.monitor.new_steps():
            self.recorder.log_metrics(values, step)

    def conclude(self, rows: int | None = None) -> Investigation:
        """Score everything once more from the records, write the parent's artifacts, and end the parent.

        Parameters
        ----------
        rows
            As many as are there, if nothing stopped it before; None for all.
        """
        request, recorder = self.request, self.recorder
        rows = request.plan.mitigation_runs if rows is None else rows
        if not request.final_runs:
            request = request.truncate(self.monitor.stopped or rows)
            runs = request.changed(request.run_numbers())
            recorder.log_params({f"resolved.{name}": value for name, value in runs.items()})
        with deferred_interrupts():
            run_ids = recorder.run_ids()
        cells = cells_frame(request.design().cells(), request.metric, recorder.spool, run_ids)
        cells = request.plan.design.order(cells, request.factors)
        with temporary_folder() as folder:
            scored = score(
                cells,
                spooled_predictions(cells, recorder.spool),
                metric=request.metric,
                planned=plan_of(request),
                interim_analyses=self.monitor.interim_analyses,
                table_file=folder / names.PREDICTIONS,
            )
            notes = (*self.failure_notes, *request.plan.early_end(request.given["golden_runs"]), *request.notes(cells))
            about = request.about(recorder, settings_of(request), notes)
            result = Investigation(
                request=request,
                about=about,
                analysis=scored.analysis,
                cells=cells,
                predicted=read_predicted(scored.analysis, folder / names.PREDICTIONS, len(about.source.classes)),
                **self.result(),
            )
            write_result(folder, result)
            write_artifacts(folder, scored, cells, document=request.document(), report=result.report())
            for step, metrics in sorted(scored.consistency_steps.items()):
                recorder.log_metrics(metrics, step)
            recorder.log_metrics(scored.analysis.metrics(), request.design().steps)
            recorder.wait()
            whole = bool(self.monitor.stopped) or rows == self.request.plan.mitigation_runs
            complete = whole and scored.analysis.cells_failed == 0
            recorder.finish(folder, complete=complete, description=result.description())
        return result

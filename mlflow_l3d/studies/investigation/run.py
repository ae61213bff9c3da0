"""The main job: request -> plan of cells -> executor -> recorder -> analysis -> report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.designs.analyse import Planned
from mlflow_l3d.execution.environment import deferred_interrupts
from mlflow_l3d.parameters.declaration import with_signature
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.cells import CellStudy, CellStudyResult
from mlflow_l3d.studies.files import temporary_folder, write_result
from mlflow_l3d.studies.investigation.monitor import Monitor
from mlflow_l3d.studies.investigation.parameters import InvestigateOptions
from mlflow_l3d.studies.investigation.report.runs import read_predicted
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.investigation.results import Analysed, cells_frame, spooled_predictions, write_artifacts
from mlflow_l3d.studies.investigation.scoring import score
from mlflow_l3d.studies.self_test import SelfTest
from mlflow_l3d.studies.shown import under_way
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.pages import runs_page


@dataclass(frozen=True, kw_only=True, repr=False)
class Investigation(CellStudyResult[InvestigationRequest], Analysed):
    """A finished investigation: ``summary()`` is its text, ``to_frame()`` has one row per factor.

    It is a :class:`mlflow_l3d.studies.cells.CellStudyResult`.

    Attributes
    ----------
    analysis
        Importance, consistency and checks.
    cells
        One row per cell: coordinates, metrics, run id.
    predicted
        What the runs predict for fragile examples, see
        :func:`mlflow_l3d.studies.investigation.report.runs.read_predicted`.
    """

    @property
    def line(self) -> str:
        """What the terminal says of the runs."""
        return self.of_cells(f"{counted(self.computed, 'run')} computed")


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

    def carry_out(self) -> Investigation:
        """Train, and score the records."""
        self.train()
        with under_way("scoring", shown=self.progress):
            return self.conclude(self.request.plan.mitigation_runs)

    def conclude(self, rows: int) -> Investigation:
        """Score everything once more from the records, write the parent's artifacts, and end the parent.

        Parameters
        ----------
        rows
            As many as are there, if nothing stopped it before.
        """
        request, recorder = self.request, self.recorder
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
                planned=_planned(request),
                interim_analyses=self.monitor.interim_analyses,
                table_file=folder / names.PREDICTIONS,
            )
            address = runs_page(recorder.client, recorder.parent.experiment_id)
            notes = (*self.failure_notes, *request.plan.early_end(request.given["golden_runs"]), *request.notes(cells))
            about = request.about(recorder.parent.run_id, address, _settings(request), notes)
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


def _planned(request: InvestigationRequest) -> Planned:
    """Return the plan of a request as scoring knows it."""
    plan = request.plan
    return Planned(
        design=plan.design,
        factors=request.factors,
        rows=plan.mitigation_runs,
        columns=plan.investigation_runs,
        golden_runs=plan.golden_runs,
        pooled=plan.golden_pooled,
        missing=request.missing,
        mitigated=bool(plan.mitigation),
        product=plan.joint == "product",
        sequential=plan.stop == "interval",
        classes=len(request.setup.task.class_names),
        class_names=request.setup.task.class_names,
        label_column=request.setup.task.label_column,
        deterministic=request.setup.deterministic,
        searched_splits=request.searched_splits(),
    )


def _settings(request: InvestigationRequest) -> dict[str, str]:
    task, plan = request.setup.task, request.plan
    examples = f"{len(task)} examples" if len(task) else "data of its own"
    rule = f"half-width {plan.half_width:g}, or 0 outside" if plan.stop == "interval" else f"{plan.epsilon:g}"
    stop = f"{plan.stop} ({rule}), {plan.most_rows or plan.mitigation_runs} rows at most"
    return {
        "task": f"{task.name} ({examples}, {f'{len(task.class_names)} classes' if task.class_names else task.kind})",
        "model": request.setup.model or "none",
        "design": plan.words(),
        "mitigated factors": ", ".join(request.mitigated_factors) or "none",
        "mitigation strategies": ", ".join(
            f"{each.name} ({each.factor}: {', '.join(map(str, each.configurations))})" for each in plan.mitigation
        ),
        "joint factors": f"columns {plan.joint}" if any("+" in name for name in request.factors) else "",
        "stopping rule": "" if plan.stop == "none" else stop,
        "root seed": str(plan.root_seed),
    }

"""The command `search`: two stages of trials, a comparison on configurations not searched on, and the artifacts."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

import pandas as pd

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import logger
from mlflow_l3d.execution.base import Executor
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.parameters.search_document import search_document, share_validated_on
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import About
from mlflow_l3d.studies.base import Study, executor_of, job_of
from mlflow_l3d.studies.files import LEFT_OUT, save_result, temporary_folder, write_json, write_table
from mlflow_l3d.studies.search.engine import StageRun, open_stage
from mlflow_l3d.studies.search.numbers import HeldOut, SearchResult, compare_held_out, edge_notes
from mlflow_l3d.studies.search.optimiser import compute_importances
from mlflow_l3d.studies.search.parameters import SearchOptions
from mlflow_l3d.studies.search.report import search_report
from mlflow_l3d.studies.search.request import SearchRequest, specify_search
from mlflow_l3d.studies.search.training import Tuned
from mlflow_l3d.studies.search.trials import FinishedTrial, best_trial, evaluated_on, known_trials, trials_table
from mlflow_l3d.studies.self_test import tested
from mlflow_l3d.studies.shown import OnOneScreen, built_once, progress_bar
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.predictions import read_rows
from mlflow_l3d.tracking.earlier.reader import fetch_artifact
from mlflow_l3d.tracking.opening import open_recorder
from mlflow_l3d.tracking.recorder import RunRecorder, Work
from mlflow_l3d.tracking.records import TrialRecord


@dataclass(frozen=True, repr=False)
class HyperparameterSearch(OnOneScreen):
    """A finished search.

    Attributes
    ----------
    run_id
        The parent run.
    hyperparameters
        The best ones, complete.
    result
        Stages, trials, importances and the comparison on other configurations.
    about
        Its title, origin, notes and settings.
    request
        Of the search; None if it was loaded.
    """

    run_id: str
    hyperparameters: Mapping[str, Value]
    result: SearchResult
    about: About
    request: SearchRequest | None = field(default=None, metadata=LEFT_OUT)

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per trial in the units of the report; `full` returns all, with scores as fractions."""
        trials = self.result.trials
        shown = trials[["level", "number", "state", "score", "score_std", *self.result.searched]]
        heads = {"score": self.result.metric.name}, {"score_std": "std"}
        return trials if full else unit_of(self.result.metric).heads(shown, *heads)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        lines = [f"MLflow run {self.run_id}; search.html is among its artifacts"]
        return search_report(self.result, source=self.about.source, settings=self.about.settings, lines=lines)


@with_signature(SearchOptions)
def search(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    progress: bool | None = None,
    **parameters: Unpack[SearchOptions],
) -> HyperparameterSearch:
    """Search hyperparameters in two stages (Pecher et al. 2024, Appendix D), before an investigation.

    Parameters
    ----------
    task
        A name, a :class:`~mlflow_l3d.tasks.base.Task`, a pandas data frame, or a data set of the library `datasets`.
    approach
        The name of an approach, or an object: a :class:`~mlflow_l3d.approaches.base.Approach`.
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **parameters
        As on the command line (``mlflow-l3d search --help-all``).

    Returns
    -------
    HyperparameterSearch
        The result; its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> found = mlflow_l3d.search(
    ...     "synthetic", approach="synthetic", space="a_data_order=0..9", metric="synthetic_score",
    ...     coarse_trials=3, fine_trials=0, held_out_runs=4, executor="inline",
    ... )
    >>> found.hyperparameters["a_data_order"]
    9.0
    >>> found.result.trials[["a_data_order", "score"]].round(3)
       a_data_order  score
    0           0.0  0.541
    1           4.5  0.558
    2           9.0  0.561
    """
    return SearchStudy.conduct(parameters, approach=approach, task=task, progress=progress)


class SearchStudy(Study[SearchRequest, TrialRecord, HyperparameterSearch]):
    """One search in progress."""

    specify = staticmethod(specify_search)

    def __init__(self, request: SearchRequest, *, progress: bool | None = False) -> None:
        super().__init__(request, progress=progress)
        self.ended = 0
        self.metric = request.metric
        self.best_score = -self.metric.sign * math.inf

    def open(self, project_run: str | None) -> RunRecorder[TrialRecord]:
        """Open the parent run, and find which trials are known."""
        request = self.request
        work = Work(request.card(), TrialRecord, request.context_key, request.shared_params())
        return open_recorder(work, project_run)

    def how_far(self) -> str:
        """Return how many trials ended."""
        return f"after {self.ended} trials"

    def carry_out(self) -> HyperparameterSearch:
        """Search, compare, and write the artifacts."""
        recorder, request = self.recorder, self.request
        with temporary_folder() as folder:
            result = self._result(self._run_stages())
            recorder.log_metrics(result.metrics(), self.ended)
            about = request.about(recorder, {})
            finished = HyperparameterSearch(result.run_id, result.best, result, about, request)
            hyperparameters = search_document(
                request.setup.subject,
                result.best,
                score=result.best_score,
                metric=result.metric.name,
                search_run_id=result.run_id,
                searched_on=request.searched_on,
            )
            write_json(folder / names.HYPERPARAMETERS, hyperparameters, indent=2)
            write_json(folder / names.SEARCH_DOCUMENT, request.document(), indent=2)
            write_table(folder / names.TRIALS, result.trials)
            save_result(folder, finished, names.SEARCH_REPORT)
            recorder.finish(folder, complete=True, description=finished.report().description())
        return finished

    def _run_stages(self) -> list[StageRun]:
        """Run the stages: the second around the best of the first, if that leaves something to search."""
        request, setup = self.request, self.request.setup
        tested(request.design(), progress=self.progress)
        total, name = request.coarse_trials + request.fine_trials, setup.approach.name
        with progress_bar(name, "trial", total=total, shown=self.progress) as self._bar:
            stage_runs: list[StageRun] = []
            for stage in request.samplers:
                before = stage_runs[-1].finished if stage_runs else ()
                on_finished = partial(self._record, stage)
                stage_run = open_stage(request, stage, self.recorder.recovered, self._spooled(), on_finished, before)
                if stage_run is not None:
                    stage_run.run(self._executor(pruner=request.pruner))
                    stage_runs.append(stage_run)
        return stage_runs

    def _executor(self, **how: Any) -> Executor:
        """Return an executor of trials, whose outcomes are mean scores, without the predictions of a reference set."""
        setup = self.request.setup
        is_greater_better = self.metric.greater_is_better
        job = job_of(setup, Tuned(setup.approach, self.metric.name, greater_is_better=is_greater_better, **how))
        return executor_of(setup, replace(job, task=evaluated_on(job.task, "validation")))

    def _spooled(self) -> list[TrialRecord]:
        """Return the records in the spool; those of a stage that has not begun are of an earlier process."""
        return [*map(self.recorder.spool.record, self.recorder.spool)]

    def _record(self, stage: str, trial: FinishedTrial, outcome: Outcome | None) -> None:
        """Record a trial that ended, and show the progress of the search."""
        if outcome is not None:
            self.recorder.add(trial.record(stage, f"{stage} {trial.number}", self.request.searched_on, outcome))
        if trial.state == "failed":
            logger.warning("%s trial %d failed: %s", stage, trial.number, trial.error)
        if trial.state == "complete":
            self.best_score = max(self.best_score, trial.score, key=lambda score: self.metric.sign * score)
            self.recorder.log_metrics({"score": trial.score, "best_score": self.best_score}, self.ended)
        self.ended += 1
        if math.isfinite(self.best_score):
            best = unit_of(self.metric).text(self.best_score, 1)
            self._bar.set_postfix_str(f"{stage}, best {self.metric.name} {best}", refresh=False)
        self._bar.update()

    def _compare(self, best: Mapping[str, Value]) -> HeldOut | None:
        """Score the best and the given setting on new configurations; None if not requested, or they are the same."""
        request, recorder = self.request, self.recorder
        cells = request.compared_cells(best)
        if not cells:
            return None
        ended = known_trials(recorder.recovered, self._spooled(), "held_out")
        scores = {key: trial.score for key, trial in ended.items()}
        # Cells of one setting follow each other, so that a worker keeps its session.
        missing = {cell.key: (kind, cell) for kind in cells for cell in cells[kind] if cell.key not in scores}
        executor = self._executor(evaluated="test")
        with (
            progress_bar("held out", "trial", total=len(missing), shown=self.progress and bool(missing)) as bar,
            closing(executor.run(iter([cell for _, cell in missing.values()]))) as outcomes,
        ):
            for outcome in outcomes:
                kind, cell = missing[outcome.key]
                trial = FinishedTrial(cell.index or 0, {}, cell.hyperparameters, cell.key).with_outcome(outcome)
                name = f"held out {trial.number}, {kind}"
                recorder.add(trial.record("held_out", name, cell.configurations_seeds, outcome), outcome)
                scores[trial.key] = trial.score
                if trial.error is not None:
                    logger.warning("%s failed: %s", name, trial.error)
                bar.update()
        found, given = ([scores[cell.key] for cell in cells[kind]] for kind in cells)
        return compare_held_out(
            found,
            given,
            [[self._predictions(cell.key) for cell in cells[kind]] for kind in cells],
            metric=self.metric,
            classes=len(request.setup.task.class_names),
            searched=request.setup.task.example_ids[request.validated_on],
            overlap=share_validated_on(request.setup.task, request.compared_on, request.validated_on),
        )

    def _predictions(self, key: str) -> pd.DataFrame | None:
        """Return the predictions of a held-out run, from the spool or the server; None if it has none."""
        with temporary_folder() as folder:
            path = self.recorder.spool.predictions(key)
            run_id = self.recorder.run_of(key)
            if path is None and run_id:
                path = fetch_artifact(self.recorder.client, run_id, names.PREDICTIONS, folder)
            return None if path is None else read_rows(path, f"Run {run_id}: {names.PREDICTIONS}").to_pandas()

    def _result(self, stage_runs: list[StageRun]) -> SearchResult:
        """Compare the best setting with the given one, and join all results."""
        request, setup, recorder = self.request, self.request.setup, self.recorder
        best = best_trial(stage_runs[-1].finished, self.metric.sign).hyperparameters
        comparison = self._compare(best)
        recorder.wait()
        scored = [(trial.params, trial.score) for trial in stage_runs[0].finished]
        shares, why_none = compute_importances(request.space, scored, seed=request.root_seed)
        table = trials_table(
            {stage_run.stage: stage_run.finished for stage_run in stage_runs},
            tuple(request.space.ranges),
            default=setup.hyperparameters,
            run_of=recorder.run_of,
            metrics={**recorder.recovered.metrics, **{record.key: record.metrics for record in self._spooled()}},
        )
        edges = edge_notes(best, request.space.ranges, setup.approach.hyperparameters)
        return SearchResult(
            title=request.title,
            metric=request.metric,
            stages={each.stage: each.space.ranges for each in stage_runs},
            trials=table,
            best=best,
            default=setup.hyperparameters,
            importances=shares,
            configurations=request.search_seeds,
            validation_examples=request.validation_examples,
            held_out=comparison,
            seconds=time.monotonic() - self._started,
            run_id=recorder.parent.run_id,
            notes=(*edges, *setup.origin.notes, *setup.task.notes, *([why_none] if why_none else [])),
        )

"""The entry point `search`: two stages of trials, a comparison on configurations not searched on, and what is left."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters.declaration import with_signature
from mlflow_l3d.parameters.table import SearchOptions
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.studies.base import Study, executor_of, job_of
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.progress import progress_bar
from mlflow_l3d.studies.search.artifacts import description, write_search
from mlflow_l3d.studies.search.cells import TrialMaker
from mlflow_l3d.studies.search.comparison import compare
from mlflow_l3d.studies.search.engine import StageRun, new_study
from mlflow_l3d.studies.search.importances import importances
from mlflow_l3d.studies.search.request import SearchRequest, specify_search
from mlflow_l3d.studies.search.results import (
    Ending,
    FinishedTrial,
    best_of,
    known_endings,
    score_of,
    spooled_records,
    stage_summary,
    trials_table,
)
from mlflow_l3d.studies.search.samplers import GRID, Stage, grid_settings, sampler_of
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.trials import Tuned
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking.opening import open_recorder
from mlflow_l3d.tracking.recorder import RunRecorder, Work
from mlflow_l3d.tracking.records import TrialRecord

if TYPE_CHECKING:
    from tqdm import tqdm

    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.approaches.hyperparameters import Value
    from mlflow_l3d.tasks.base import TaskLike

_logger = logging.getLogger("mlflow_l3d")


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
    request
        What was searched.
    """

    run_id: str
    hyperparameters: Mapping[str, Value]
    result: SearchResult
    request: SearchRequest

    def summary(self) -> str:
        """Return the text that the command line prints at the end."""
        from mlflow_l3d.report.search.page import summary

        return summary(self.result, lines=[f"MLflow run {self.run_id}; search.html is among its artifacts"])


@with_signature(SearchOptions)
def search(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    progress: bool | None = None,
    **parameters: Unpack[SearchOptions],
) -> HyperparameterSearch:
    """Search hyperparameters on two stages (Pecher et al. 2024, Appendix D), before an investigation.

    Parameters
    ----------
    task
        A name, a :class:`~mlflow_l3d.tasks.base.Task`, a pandas data frame, or a data set of the library `datasets`.
    approach
        A name, or an object of your own.
    progress
        Whether to show progress on stderr; None does in a notebook and on a terminal.
    **parameters
        As on the command line, see :data:`mlflow_l3d.parameters.table.SEARCH`.

    Returns
    -------
    HyperparameterSearch
        Its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        With one line that says what to change.
    """
    return SearchStudy.conduct(parameters, approach=approach, task=task, progress=progress)


class _Level(NamedTuple):
    """One stage that ran."""

    space: SearchSpace
    trials: list[FinishedTrial]


class SearchStudy(Study[SearchRequest, TrialRecord, HyperparameterSearch]):
    """One search under way."""

    specify = staticmethod(specify_search)
    _bar: tqdm[Any]

    def __init__(self, request: SearchRequest, *, progress: bool | None = False) -> None:
        super().__init__(request, progress=progress)
        self.ended = 0
        self.metric = named(request.metric)
        self.best = -self.metric.sign * math.inf
        self.metrics: dict[str, Mapping[str, float]] = {}
        self._started = time.monotonic()

    def open(self, project_run: str | None) -> RunRecorder[TrialRecord]:
        """Open the parent, and find which trials are known."""
        asked = self.request
        return open_recorder(Work(asked.card(), TrialRecord, asked.context_key, asked.shared_params()), project_run)

    def how_far(self) -> str:
        """Return how many trials ended."""
        return f"after {self.ended} trials"

    def carry_out(self) -> HyperparameterSearch:
        """Search, compare, and write what was found."""
        recorder, request = self.recorder, self.request
        with temporary_folder() as folder:
            levels = self._levels()
            result = self._result(levels)
            recorder.log_metrics(result.metrics(), self.ended)
            write_search(folder, request, result)
            recorder.finish(folder, complete=True, description=description(result))
        return HyperparameterSearch(recorder.parent.run_id, result.best, result, request)

    def _levels(self) -> dict[Stage, _Level]:
        """Run the stages: the second around the best of the first, where it has something left to search."""
        asked = self.request
        total, name = asked.coarse_trials + asked.fine_trials, asked.setup.approach.name
        with progress_bar(name, "trial", total=total, shown=self.progress) as self._bar:
            levels: dict[Stage, _Level] = {"coarse": self._level("coarse", asked.space)}
            best = self._best(levels)
            space = asked.space.around({**best.hyperparameters, **best.params})
            if asked.fine_trials and space.ranges:
                levels["fine"] = self._level("fine", space, best, levels["coarse"].trials)
        return levels

    def _best(self, levels: Mapping[Stage, _Level]) -> FinishedTrial:
        """Return the best trial of the last stage."""
        best = best_of([*levels.values()][-1].trials, self.metric)
        if best is None:
            raise L3DError("No trial was complete: all were pruned or failed. Use pruner=none, or another space.")
        return best

    def _result(self, levels: Mapping[Stage, _Level]) -> SearchResult:
        """Compare the best setting with the given one, and join everything that was found."""
        asked, setup, recorder, best = self.request, self.request.setup, self.recorder, self._best(levels)
        compared = compare(asked, best.hyperparameters, recorder, progress=self.progress)
        recorder.wait()
        found, note = importances(*levels["coarse"], seed=asked.root_seed)
        return SearchResult(
            title=asked.title,
            metric=asked.metric,
            stages=tuple(
                stage_summary(stage, asked.samplers[stage], level.space.ranges, level.trials, self.metric)
                for stage, level in levels.items()
            ),
            trials=trials_table(
                {stage: level.trials for stage, level in levels.items()},
                tuple(asked.space.ranges),
                default=setup.hyperparameters,
                run_of=recorder.run_of,
                metrics={**recorder.recovered.metrics, **self.metrics},
            ),
            best=best.hyperparameters,
            default=setup.hyperparameters,
            best_score=math.nan if best.score is None else best.score,
            default_score=score_of(setup.hyperparameters, levels["coarse"].trials),
            importances=found,
            configurations=asked.search_seeds,
            validation_examples=asked.validation_examples,
            held_out=compared,
            seconds=time.monotonic() - self._started,
            run_id=recorder.parent.run_id,
            notes=(*setup.origin.notes, *setup.task.notes, *([note] if note else [])),
        )

    def _level(
        self, stage: Stage, space: SearchSpace, best: FinishedTrial | None = None, before: Sequence[FinishedTrial] = ()
    ) -> _Level:
        """Run one stage; `best` is the best trial of the stage before, whose settings are not trained again."""
        asked, setup, recorder = self.request, self.request.setup, self.recorder
        sampler, seed = asked.samplers[stage], asked.sampler_seed(stage)
        trials = asked.coarse_trials if stage == "coarse" else asked.fine_trials
        queue: list[dict[str, Value]] = []
        if best is None:
            queue.append({name: setup.hyperparameters[name] for name in space.ranges})
        if sampler == GRID:
            tried = queue if best is None else [best.params]
            queue += grid_settings(space, trials=trials - len(queue), seed=seed, done=tried)
            trials = len(queue)
        complete = {
            each.key: Ending("complete", each.score)
            for each in before
            if each.score is not None and each.state == "complete"
        }
        greater_is_better = self.metric.greater_is_better
        stage_run = StageRun(
            stage,
            new_study(asked.pruner, greater_is_better=greater_is_better),
            space,
            TrialMaker(setup.approach, setup.origin.values, asked.context_key, asked.searched_on),
            partial(sampler_of, sampler, stage, seed),
            partial(self._ended, stage),
            {**complete, **known_endings(recorder, stage)},
            {record.number: record.hyperparameters for record in spooled_records(recorder, stage)},
        )
        tuned = Tuned(setup.approach, asked.metric, asked.pruner, greater_is_better)
        return _Level(space, stage_run.run(trials, executor_of(setup, job_of(setup, tuned)), queue, best=best))

    def _ended(self, stage: Stage, trial: FinishedTrial) -> None:
        """Keep a trial that ended, and show how far the search is."""
        if trial.outcome is not None and trial.cell is not None:
            record = trial.cell.record(stage, f"{stage} {trial.number}", trial.state, trial.outcome)
            self.metrics[trial.key] = self.recorder.add(record).metrics
        if trial.state == "failed":
            _logger.warning("%s trial %d failed: %s", stage, trial.number, trial.error)
        if trial.state == "complete" and trial.score is not None:
            self.best = max(self.best, trial.score, key=lambda score: self.metric.sign * score)
            self.recorder.log_metrics({"score": trial.score, "best_score": self.best}, self.ended)
        self.ended += 1
        if math.isfinite(self.best):
            best = unit_of(self.metric.name).text(self.best, 1)
            self._bar.set_postfix_str(f"{stage}, best {self.metric.name} {best}", refresh=False)
        self._bar.update()

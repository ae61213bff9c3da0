"""The entry point `search`: two stages of trials, a comparison on configurations not searched on, and what is left."""

from __future__ import annotations

import logging
import math
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.studies.base import Study, executor_of, job_of
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.progress import progress_bar
from mlflow_l3d.studies.search.artifacts import description, write_search
from mlflow_l3d.studies.search.cells import TrialMaker
from mlflow_l3d.studies.search.comparison import compare, known_scores
from mlflow_l3d.studies.search.engine import StageRun
from mlflow_l3d.studies.search.importances import importances
from mlflow_l3d.studies.search.results import (
    FinishedTrial,
    PrunedBefore,
    best_of,
    finished_trials,
    score_of,
    stage_summary,
    trials_table,
)
from mlflow_l3d.studies.search.samplers import PLANNED, Stage, planned, pruner_of, sampler_of
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.specification import SearchSpecification, specify_search
from mlflow_l3d.studies.search.storages import journal_folder, storage_of
from mlflow_l3d.studies.search.study import open_study, take_over
from mlflow_l3d.studies.search.trials import Tuned
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking.ledger import Ledger, Work
from mlflow_l3d.tracking.opening import open_ledger
from mlflow_l3d.tracking.records import TrialRecord

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.storages import BaseStorage
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
    specification
        What was searched.
    """

    run_id: str
    hyperparameters: Mapping[str, Value]
    result: SearchResult
    specification: SearchSpecification

    def summary(self) -> str:
        """Return the text that the command line prints at the end."""
        from mlflow_l3d.report.search.page import summary

        return summary(self.result, lines=[f"MLflow run {self.run_id}; search.html is among its artifacts"])


def search(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    progress: bool | None = None,
    **parameters: object,
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
    study: OptunaStudy
    trials: list[FinishedTrial]


class SearchStudy(Study[SearchSpecification, TrialRecord, HyperparameterSearch]):
    """One search under way."""

    specify = staticmethod(specify_search)
    _bar: tqdm[Any]

    def __init__(self, specification: SearchSpecification, *, progress: bool | None = False) -> None:
        super().__init__(specification, progress=progress)
        self.ended = self._logged = self._next = 0
        self._waiting: dict[int, FinishedTrial] = {}
        self.metric = named(specification.metric)
        self.best = -self.metric.sign * math.inf
        self.metrics: dict[str, Mapping[str, float]] = {}
        self._started = time.monotonic()

    def open(self, project_run: str | None) -> Ledger[TrialRecord]:
        """Open the parent, and find which trials are known."""
        asked = self.specification
        return open_ledger(Work(asked.card(), TrialRecord, asked.context_key, asked.shared_params()), project_run)

    def how_far(self) -> str:
        """Return how many trials ended."""
        return f"after {self.ended} trials"

    def carry_out(self) -> HyperparameterSearch:
        """Search, compare, and write what was found."""
        ledger, specification = self.ledger, self.specification
        with _short_turns(), temporary_folder() as folder:
            levels = self._levels()
            result = self._result(levels)
            ledger.log_metrics(result.metrics(), self.ended)
            write_search(folder, specification, result, {stage: level.study for stage, level in levels.items()})
            ledger.finish(folder, complete=True, description=description(result))
        if specification.storage == "auto":
            shutil.rmtree(journal_folder(ledger.spool), ignore_errors=True)  # the server holds it all
        return HyperparameterSearch(ledger.parent.run_id, result.best, result, specification)

    def _levels(self) -> dict[Stage, _Level]:
        """Run the stages: the second around the best of the first, where it has something left to search."""
        asked = self.specification
        storage = storage_of(asked.storage, journal_folder(self.ledger.spool), mend=True)
        total, name = asked.coarse_trials + asked.fine_trials, asked.setup.approach.name
        with progress_bar(name, "trial", total=total, shown=self.progress) as self._bar:
            levels: dict[Stage, _Level] = {"coarse": self._level("coarse", asked.space, storage)}
            best = self._best(levels)
            space = asked.space.around({**best.hyperparameters, **best.params})
            if asked.fine_trials and space.ranges:
                levels["fine"] = self._level("fine", space, storage, after=best)
        return levels

    def _best(self, levels: Mapping[Stage, _Level]) -> FinishedTrial:
        """Return the best trial of the last stage."""
        best = best_of([*levels.values()][-1].trials, self.metric)
        if best is None:
            raise L3DError("No trial was complete: all were pruned or failed. Use pruner=none, or another space.")
        return best

    def _result(self, levels: Mapping[Stage, _Level]) -> SearchResult:
        """Compare the best setting with the given one, and join everything that was found."""
        asked, setup, ledger, best = self.specification, self.specification.setup, self.ledger, self._best(levels)
        compared = compare(asked, best.hyperparameters, ledger, progress=self.progress)
        ledger.wait()
        found, note = importances(levels["coarse"].study, seed=asked.root_seed)
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
                run_of=ledger.run_of,
                metrics={**ledger.recovered.metrics, **self.metrics},
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
            run_id=ledger.parent.run_id,
            notes=(*setup.origin.notes, *setup.task.notes, *([note] if note else [])),
        )

    def _level(
        self, stage: Stage, space: SearchSpace, storage: BaseStorage, *, after: FinishedTrial | None = None
    ) -> _Level:
        """Run one stage; `after` is the best trial of the one before."""
        asked, setup, ledger = self.specification, self.specification.setup, self.ledger
        sampler, seed = asked.samplers[stage], asked.sampler_seed(stage)
        wanted = asked.coarse_trials if stage == "coarse" else asked.fine_trials
        name = f"{ledger.spool.folder.name}-{stage}"
        drawing = partial(sampler_of, sampler, stage, seed)
        study = open_study(storage, name, drawing(0), pruner_of(asked.pruner), metric=self.metric)
        first = [{name: setup.hyperparameters[name] for name in space.ranges}] if stage == "coarse" else []
        done = [*first, *([] if after is None else [after.params])]
        queue = planned(space, sampler=sampler, stage=stage, trials=wanted - len(first), seed=seed, done=done)
        if after is not None:
            take_over(study, space, after)
        maker = TrialMaker(setup.approach, setup.origin.values, asked.context_key, name, asked.searched_on)
        tuned = Tuned(setup.approach, asked.metric, asked.pruner, asked.storage, journal_folder(ledger.spool))
        self._next = 0 if after is None else 1
        recorded = {*ledger.recovered.metrics, *ledger.recovered.pruned.get(stage, {})}
        for earlier in finished_trials(study):
            if earlier.origin == "trained" and earlier.score is not None and earlier.key not in recorded:
                _logger.warning("%s trial %d has no record: its score is taken from Optuna.", stage, earlier.number)
                score = Outcome(earlier.key, metrics={"score": earlier.score})
                cell = maker.cell(earlier.hyperparameters, earlier.number)
                self._ended(stage, replace(earlier, cell=cell, outcome=score))
            elif earlier.origin != "taken over":
                self._count(stage, earlier)
        pruned = PrunedBefore.all_of(ledger.recovered.pruned.get(stage, {}), asked.metric)
        stage_run = StageRun(study, space, maker, partial(self._ended, stage), known_scores(ledger), pruned, drawing)
        executor = executor_of(setup, job_of(setup, tuned))
        found = stage_run.run(wanted, executor, [*first, *queue], queue_only=sampler in PLANNED)
        for number in sorted(self._waiting):  # behind numbers that an earlier version left out
            self._next = number
            self._log_scores()
        return _Level(space, study, found)

    def _ended(self, stage: Stage, trial: FinishedTrial) -> None:
        """Keep a trial that ended."""
        if trial.outcome is not None and trial.cell is not None:
            record = trial.cell.record(stage, f"{stage} {trial.number}", trial.state, trial.outcome)
            self.metrics[trial.key] = self.ledger.add(record).metrics
        if trial.state == "failed":
            _logger.warning("%s trial %d failed: %s", stage, trial.number, trial.error)
        self._count(stage, trial)

    def _count(self, stage: Stage, trial: FinishedTrial) -> None:
        """Show how far the search is; also for a trial of an earlier process."""
        self.ended += 1
        self._waiting[trial.number] = trial
        self._log_scores()
        if math.isfinite(self.best):
            best = unit_of(self.metric.name).text(self.best, 1)
            self._bar.set_postfix_str(f"{stage}, best {self.metric.name} {best}", refresh=False)
        self._bar.update()

    def _log_scores(self) -> None:
        """Log scores in the order of the trials, in whatever order they ended."""
        while (trial := self._waiting.pop(self._next, None)) is not None:
            if trial.state == "complete" and trial.score is not None:
                self.best = max(self.best, trial.score, key=lambda score: self.metric.sign * score)
                self.ledger.log_metrics({"score": trial.score, "best_score": self.best}, self._logged)
            self._logged += 1
            self._next += 1


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take turns ten times as often: else every small call of a trial waits 5 ms for one that uploads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, 5e-4))
    try:
        yield
    finally:
        sys.setswitchinterval(before)

"""One stage of a search: Optuna is asked for settings, an executor trains them, Optuna gets their scores; a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Unpack

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.failures import one_line
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Executor
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.studies.base import entry_point, expected_workers, specified
from mlflow_l3d.studies.dry_run import StudyPlan, record_plan, seconds_per_run, study_plan
from mlflow_l3d.studies.search.optimiser import GRID, Stage, distributions, make_sampler, need_optuna, new_study
from mlflow_l3d.studies.search.parameters import SearchOptions
from mlflow_l3d.studies.search.request import SearchRequest, specify_search
from mlflow_l3d.studies.search.space import SearchSpace, Setting, grid_settings
from mlflow_l3d.studies.search.trials import FinishedTrial, TrialCell, best_trial, known_trials
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.opening import recovered_trials
from mlflow_l3d.tracking.recorder import Recovered
from mlflow_l3d.tracking.records import TrialRecord

if TYPE_CHECKING:
    from optuna import Trial


def open_stage(
    request: SearchRequest,
    stage: Stage,
    recovered: Recovered,
    spooled: Sequence[TrialRecord],
    on_finished: Callable[[FinishedTrial, Outcome | None], None],
    before: Sequence[FinishedTrial] = (),
) -> StageRun | None:
    """Return a stage, around the best of the trials `before` it; None if that leaves nothing to search.

    Settings that earlier processes, other searches or the trials before it have trained are not trained again;
    `recovered` and `spooled` are as in :func:`mlflow_l3d.studies.search.trials.known_trials`.
    """
    best, space = None, request.space
    if before:
        best = best_trial(before, request.metric.sign)
        space = space.around({**best.hyperparameters, **best.params})
        if not request.fine_trials or not space.ranges:
            return None
    complete = (trial for trial in before if trial.state == "complete")
    ended = {trial.key: replace(trial, origin="known", reports={}) for trial in complete}
    ended |= known_trials(recovered, spooled, stage)
    recorded = {record.number: record.hyperparameters for record in spooled if record.stage == stage}
    return StageRun(request, stage, space, on_finished, best, ended, recorded)


@dataclass
class StageRun:
    """One stage in progress: which trials run, and which scores are known.

    Attributes
    ----------
    request
        Of the search.
    stage, space
        Name of the stage, and what it searches.
    on_finished
        Called for every trial that ends, right before Optuna learns of it: with the trial, and the outcome if this
        process trained it.
    best
        The best trial of the stage before, if there is one: it stands for the given setting, becomes the first trial of
        this stage, beyond those that are planned, and is not trained again.
    known_trials
        Key of a cell -> trial that ended before, in an earlier process or another search; its score is taken.
    recorded_settings
        Number of a trial -> hyperparameters, of the trials that an earlier process ended: they are tried again, so that
        their ends are found among the known ones, whatever the samplers of several workers had in view.
    finished
        All trials that ended.
    """

    request: SearchRequest
    stage: Stage
    space: SearchSpace
    on_finished: Callable[[FinishedTrial, Outcome | None], None]
    best: FinishedTrial | None = None
    known_trials: dict[str, FinishedTrial] = field(default_factory=dict)
    recorded_settings: Mapping[int, Setting] = field(default_factory=dict)
    finished: list[FinishedTrial] = field(default_factory=list)

    def __post_init__(self) -> None:
        request = self.request
        self.study = new_study(request.pruner, greater_is_better=request.metric.greater_is_better)
        self._distributions = distributions(self.space)
        self._running: dict[str, list[tuple[Trial, FinishedTrial]]] = {}

    def plan(self) -> tuple[int, list[Setting]]:
        """Return how many trials the stage has, and the settings that are tried first: the given one, then a grid."""
        request, stage = self.request, self.stage
        trials = request.trials_of(stage)
        given: Setting = {name: request.setup.hyperparameters[name] for name in self.space.ranges}
        queue = [given] if self.best is None else []
        if request.samplers[stage] == GRID:
            tried = given if self.best is None else self.best.params
            seed = request.sampler_seed(stage)
            queue += grid_settings(self.space, trials=trials - len(queue), seed=seed, done=[tried])
            trials = len(queue)
        return trials, queue

    def run(self, executor: Executor) -> list[FinishedTrial]:
        """Run the stage until it has all planned trials, including those that fail or are pruned.

        Settings are asked for as the executor takes cells, so each is suggested in the light of all scores that are
        known then. One that was scored before, or is being trained, is not trained again: it gets that score.

        Parameters
        ----------
        executor
            Its job trains :class:`mlflow_l3d.studies.search.training.Tuned`.

        Returns
        -------
        list
            All trials, in their order.
        """
        with closing(executor.run(self.cells())) as outcomes:
            for outcome in outcomes:
                (trial, running), *twins = self._running.pop(outcome.key)
                finished_trial = running.with_outcome(outcome)
                self._finish(trial, finished_trial, outcome)
                for twin, repeated in twins:  # they wait for the same cell
                    self._finish(twin, repeated.with_end_of(finished_trial, "repeated"))
        self.finished.sort(key=lambda trial: trial.number)
        return self.finished

    def cells(self) -> Iterator[TrialCell]:
        """Yield the cells that are to be trained; see `run`."""
        trials, queue = self.plan()
        if self.best is not None:
            params = self._inside(self.best.params)
            kinds = {name: self._distributions[name] for name in params}
            create = need_optuna().trial.create_trial
            self.study.add_trial(create(params=params, distributions=kinds, value=self.best.score))
            self._keep(replace(self.best, number=0, origin="taken over"))
        first = len(self.finished)
        settings = {**dict(enumerate(queue, first)), **self.recorded_settings}
        for number in range(first, first + trials):
            setting = settings.get(number, {})
            cell = self._begin({name: setting[name] for name in self.space.ranges if name in setting})
            if cell is not None:
                yield cell

    def _begin(self, queued: Setting) -> TrialCell | None:
        """Ask for a trial, of a queued setting or of one that Optuna suggests; return the cell if it is to be trained.

        A queued value that the space does not contain, such as a default outside of it, is not a parameter of Optuna's
        trial, so that no sampler learns from it.
        """
        request, earlier = self.request, tuple(self.study.get_trials(deepcopy=False))
        seed = request.sampler_seed(self.stage)
        # Each trial has a sampler of its own: a search that continues draws what it would have drawn.
        self.study.sampler = make_sampler(request.samplers[self.stage], self.stage, seed, len(earlier))
        inside = self._inside(queued)
        if queued:
            self.study.enqueue_trial(inside)
        outside = set(queued) - set(inside)
        trial = self.study.ask({name: kind for name, kind in self._distributions.items() if name not in outside})
        running = FinishedTrial(trial.number, {**self.space.fixed, **trial.params, **queued})
        try:
            cell = request.trial_cell(running.params, trial.number, () if request.pruner == "none" else earlier)
        except L3DError as error:
            self._finish(trial, replace(running, error=one_line(error)))
            return None
        running = replace(running, hyperparameters=cell.hyperparameters, key=cell.key)
        if (before := self.known_trials.get(cell.key)) is not None:
            is_own = before.origin == "known" and trial.number in self.recorded_settings
            self._finish(trial, running.with_end_of(before, "trained" if is_own else before.origin))
            return None
        self._running.setdefault(cell.key, []).append((trial, running))
        return cell if len(self._running[cell.key]) == 1 else None

    def _finish(self, trial: Trial, finished_trial: FinishedTrial, outcome: Outcome | None = None) -> None:
        """End a trial, here and in Optuna."""
        from optuna.trial import TrialState

        self.on_finished(finished_trial, outcome)
        self._keep(finished_trial)
        for step, score in finished_trial.reports.items():
            trial.report(score, step)
            trial.should_prune()  # some pruners note with a trial how far it came
        if finished_trial.state == "complete":
            self.study.tell(trial, finished_trial.score)
        else:
            self.study.tell(trial, state=TrialState.PRUNED if finished_trial.state == "pruned" else TrialState.FAIL)

    def _keep(self, finished_trial: FinishedTrial) -> None:
        """Keep a trial for those that repeat its setting; the setting of a failed one is trained again."""
        self.finished.append(finished_trial)
        if finished_trial.state != "failed":
            self.known_trials[finished_trial.key] = replace(finished_trial, origin="repeated")

    def _inside(self, params: Setting) -> dict[str, Value]:
        searched = [name for name in self.space.ranges if name in params]
        return {name: params[name] for name in searched if self.space.ranges[name].holds(params[name])}


@with_signature(SearchOptions)
def plan_search(
    task: TaskLike = None, *, approach: Approach | str | None = None, **parameters: Unpack[SearchOptions]
) -> StudyPlan:
    """Return how many trials a search would train, how many are done, and how long the rest takes; no run starts.

    Parameters
    ----------
    task, approach, **parameters
        Those of :func:`mlflow_l3d.studies.search.run.search`.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> plan = mlflow_l3d.plan_search("synthetic", approach="synthetic", space="a_data_order=0..9", fine_trials=5)
    >>> plan.to_frame()[["part", "cells"]]
           part  cells
    0    coarse      3
    1      fine      5
    2  held_out     20
    """
    with entry_point() as project_run:
        request: SearchRequest = specified(specify_search, approach, task, parameters)
        client, setup = connect(), request.setup
        finished = finished_cells(client, request.context_key, "trial")
        [seconds] = seconds_per_run(client, [setup], [finished.values()])
        counts = _count_trials(request, *recovered_trials(client, request.key, finished))
        rows = [(part, cells, cells - left, left, seconds) for part, (cells, left) in counts.items()]
        plan = study_plan(request.title, rows, expected_workers(setup), request.remarks)
        return record_plan(client, project_run.run_id, plan, request.title, request.given)


def _count_trials(
    request: SearchRequest, recovered: Recovered, spooled: Sequence[TrialRecord]
) -> dict[str, tuple[int, int]]:
    """Return part -> how many trials it has, and how many of them would be trained, by the rules of the search itself.

    A stage that follows untrained trials is not known yet: all its trials are counted, though one may turn out to be
    known, or be pruned.
    """
    counts: dict[str, tuple[int, int]] = {}
    trials: list[FinishedTrial] = []
    is_known = True
    for stage in request.samplers:
        runs = 0 if is_known else request.trials_of(stage)
        counts[stage] = runs, runs
        if is_known and (stage_run := open_stage(request, stage, recovered, spooled, lambda *_: None, trials)):
            planned, _ = stage_run.plan()
            left = len([*stage_run.cells()])
            counts[stage], trials, is_known = (planned, left), stage_run.finished, not left
    if is_known:
        compared = request.compared_cells(best_trial(trials, request.metric.sign).hyperparameters)
        cells = [cell for each in compared.values() for cell in each]
        unknown = 0
    else:  # the found setting may be any
        cells = request.held_out_cells(request.setup.hyperparameters)
        unknown = request.held_out_runs
    left = len({cell.key for cell in cells} - set(known_trials(recovered, spooled, "held_out")))
    return {**counts, "held_out": (len(cells) + unknown, left + unknown)}

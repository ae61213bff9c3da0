"""One stage of a search: Optuna is asked for settings, an executor trains them, Optuna is told their scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mlflow_l3d.approaches.failures import one_line
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Executor
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.studies.search.cells import TrialCell
from mlflow_l3d.studies.search.results import CELL, GIVEN, RESULT, FinishedTrial, PrunedBefore, State, finished_trials
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.study import add_finished, enqueue, setting_of

if TYPE_CHECKING:
    import optuna

MakeCell = Callable[[Mapping[str, Value], int, int], TrialCell]
"""``make_cell(params, number, trial_id)``; see :class:`mlflow_l3d.studies.search.cells.TrialMaker`."""
OnFinished = Callable[[FinishedTrial], None]


def run_stage(
    study: optuna.Study,
    space: SearchSpace,
    *,
    trials: int,
    executor: Executor,
    make_cell: MakeCell,
    on_finished: OnFinished | None = None,
    known: Mapping[str, float] | None = None,
    pruned: Mapping[str, PrunedBefore] | None = None,
    queue: Sequence[Mapping[str, Value]] = (),
    queue_only: bool = False,
) -> list[FinishedTrial]:
    """Run a stage until it has so many trials, and go on where an earlier process was killed.

    Settings are asked for as the executor takes cells, so each is suggested in the light of all scores that are known
    then. One that was scored before, or is being trained, is not trained again: it gets that score.

    Parameters
    ----------
    study
        That of the stage, with direction, sampler and pruner. One process may run it at a time.
    space
        What is suggested.
    trials
        How many there are to be, with those that failed or were pruned and those of earlier processes; without those
        that were interrupted, or taken over by :func:`take_over`. Where all failed so far, they are tried again.
    executor
        Its job trains :class:`mlflow_l3d.studies.search.trials.Tuned`.
    make_cell
        Returns the cell of a trial; a ParameterError fails the trial.
    on_finished
        Told of every trial that ends in this call, right before Optuna is.
    known
        Key of a cell -> score of a finished outcome.
    pruned
        Key of a cell -> how this stage of the same search pruned it before: it is pruned again.
    queue
        Settings that are tried before any other, in this order: the approach's own, then a grid
        (:func:`mlflow_l3d.studies.search.planned.planned`). What the study has already is not queued again.
    queue_only
        Whether the stage ends with the queue.

    Returns
    -------
    list
        All trials of the study that have ended, in their order.

    Raises
    ------
    L3DError
        If every trial failed; it names the error of the first.
    """
    stage = _Stage(study, space, make_cell, on_finished, dict(known or {}), dict(pruned or {}))
    stage.resume()
    stage.enqueue(queue)
    outcomes = executor.run(stage.cells(trials, queue_only=queue_only or not space.ranges))
    try:
        for outcome in outcomes:
            stage.received(outcome)
    finally:
        # An interrupt must not leave workers behind.
        close = getattr(outcomes, "close", None)
        if close is not None:
            close()
    found = finished_trials(study)
    failed = [trial for trial in found if trial.state == "failed"]
    if failed and len(failed) == len(found):
        msg = f"all {len(found)} {study.study_name.rpartition('-')[2]} trials failed; the first: {failed[0].error}"
        raise L3DError(msg)
    return found


def take_over(study: optuna.Study, space: SearchSpace, best: FinishedTrial) -> None:
    """Let a stage begin with the best trial of the stage before, which is not trained again.

    Parameters
    ----------
    study, space
        Of the stage that begins; nothing happens where the study has trials.
    best
        A complete trial.
    """
    if best.score is None or study.get_trials(deepcopy=False):
        return
    taken = replace(best, origin="taken over")
    add_finished(study, space, best.params, best.score, {CELL: taken.identity(), RESULT: taken.result()})


class _Stage:
    """Which trials run, and which scores are known."""

    def __init__(
        self,
        study: optuna.Study,
        space: SearchSpace,
        make_cell: MakeCell,
        on_finished: OnFinished | None,
        known: dict[str, float],
        pruned: dict[str, PrunedBefore],
    ) -> None:
        self._study, self._space, self._make_cell, self._on_finished = study, space, make_cell, on_finished
        self._known, self._pruned = known, pruned
        self._ended: dict[str, FinishedTrial] = {}
        self._running: dict[str, tuple[optuna.Trial, FinishedTrial]] = {}
        self._twins: defaultdict[str, list[tuple[optuna.Trial, FinishedTrial]]] = defaultdict(list)
        self._asked = 0

    def resume(self) -> None:
        """Count what there is, and end the trials that a killed process left: with a known score, or to be repeated."""
        import optuna
        from optuna.trial import TrialState

        before = finished_trials(self._study)
        for ended in before:
            self._asked += ended.origin != "taken over"
            if ended.state != "failed":
                self._ended[ended.key] = ended
        if not self._ended:
            # Whatever made all of them fail may be mended.
            self._asked = 0
            for failed in before:
                self._queue(failed.params)
        for left in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            cell = left.user_attrs.get(CELL, {})
            key = cell.get("key", "")
            trial = optuna.Trial(self._study, left._trial_id)
            begun = FinishedTrial(left.number, cell.get("params", {}), cell.get("hyperparameters", {}), key, "failed")
            if self._has(key):
                self._asked += 1
                self._reuse(trial, begun)
                continue
            self._tell(trial, replace(begun, origin="interrupted", error="its process ended"))
            if params := left.user_attrs.get(GIVEN, begun.params):
                self._queue(params)

    def enqueue(self, queue: Sequence[Mapping[str, Value]]) -> None:
        """Let settings be the next ones, those that the study does not have in its queue or its past."""
        before = [trial.user_attrs.get(GIVEN) for trial in self._study.get_trials(deepcopy=False)]
        for params in queue:
            if dict(params) not in before:
                self._queue(params)
                before.append(dict(params))

    def cells(self, trials: int, *, queue_only: bool) -> Iterator[TrialCell]:
        """Yield the cells that are to be trained, until the stage has so many trials."""
        from optuna.trial import TrialState

        while self._asked < trials:
            if queue_only and not self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                return
            cell = self._ask()
            if cell is not None:
                yield cell

    def received(self, outcome: Outcome) -> None:
        """Tell what became of a cell, to Optuna and to whoever listens; also for the trials that wait for it."""
        trial, begun = self._running.pop(outcome.key)
        if outcome.error is None:
            state: State = "pruned" if outcome.metrics.get("pruned") else "complete"
            ended = replace(begun, state=state, score=float(outcome.metrics["score"]), outcome=outcome)
            self._ended[outcome.key] = ended
        else:
            ended = replace(begun, error=outcome.error, outcome=outcome)
        self._finish(trial, ended)
        for twin, repeated in self._twins.pop(outcome.key, ()):
            self._finish(
                twin,
                replace(repeated, state=ended.state, score=ended.score, error=ended.error, origin="repeated"),
            )

    def _ask(self) -> TrialCell | None:
        """Begin the next trial; return its cell where it must be trained."""
        trial = self._study.ask()
        self._asked += 1
        params = setting_of(trial, self._space)
        begun = FinishedTrial(trial.number, params, {}, "", "failed")
        try:
            cell = self._make_cell(params, trial.number, trial._trial_id)
        except L3DError as error:
            self._finish(trial, replace(begun, error=one_line(error)))
            return None
        begun = replace(begun, hyperparameters=cell.hyperparameters, key=cell.key, cell=cell)
        trial.set_user_attr(CELL, begun.identity())
        if self._has(cell.key):
            self._reuse(trial, begun)
        elif cell.key in self._running:
            self._twins[cell.key].append((trial, begun))
        else:
            self._running[cell.key] = trial, begun
            return cell
        return None

    def _queue(self, params: Mapping[str, Value]) -> None:
        enqueue(self._study, self._space, params)

    def _has(self, key: str) -> bool:
        """Return whether it is known how a trial with this key ends."""
        return key in self._known or key in self._pruned or key in self._ended

    def _reuse(self, trial: optuna.Trial, begun: FinishedTrial) -> None:
        """End a trial with the score of an earlier one, or of a finished outcome."""
        earlier = self._ended.get(begun.key)
        if earlier is not None:
            self._finish(trial, replace(begun, state=earlier.state, score=earlier.score, origin="repeated"))
            return
        before = self._pruned.get(begun.key) if begun.key not in self._known else None
        if before is None:
            ended = replace(begun, state="complete", score=float(self._known[begun.key]), origin="known")
        else:
            ended = replace(begun, state="pruned", score=before.score, origin="known")
            trial.report(before.reported, before.step)
        self._ended[begun.key] = ended
        self._finish(trial, ended)

    def _finish(self, trial: optuna.Trial, ended: FinishedTrial) -> None:
        # In this order: what a killed process had not told Optuna is known to whoever listened.
        if self._on_finished is not None:
            self._on_finished(ended)
        self._tell(trial, ended)

    def _tell(self, trial: optuna.Trial, ended: FinishedTrial) -> None:
        from optuna.trial import TrialState

        trial.set_user_attr(RESULT, ended.result())
        if ended.state == "complete":
            self._study.tell(trial, ended.score)
        else:
            self._study.tell(trial, state=TrialState.PRUNED if ended.state == "pruned" else TrialState.FAIL)

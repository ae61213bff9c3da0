"""One stage of a search: Optuna is asked for settings, an executor trains them, Optuna is told their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mlflow_l3d.approaches.failures import one_line
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Executor
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.studies.search.cells import TrialCell
from mlflow_l3d.studies.search.results import CELL, GIVEN, RESULT, FinishedTrial, PrunedBefore, State, finished_trials
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.study import enqueue, setting_of

if TYPE_CHECKING:
    import optuna
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


@dataclass
class StageRun:
    """One stage under way: which trials run, and which scores are known.

    Attributes
    ----------
    study
        That of the stage, with direction, sampler and pruner. One process may run it at a time.
    space
        What is suggested.
    make_cell
        Returns the cell of a trial; a ParameterError fails the trial.
    on_finished
        Told of every trial that ends, right before Optuna is.
    known
        Key of a cell -> score of a finished outcome.
    pruned
        Key of a cell -> how this stage of the same search pruned it before: it is pruned again.
    sampler
        Returns the sampler of a trial that is asked for, from the number of trials before it: a search that goes on
        draws what it would have drawn. Without it the study keeps its own.
    """

    study: optuna.Study
    space: SearchSpace
    make_cell: Callable[[Mapping[str, Value], int, int], TrialCell]
    on_finished: Callable[[FinishedTrial], None]
    known: Mapping[str, float] = field(default_factory=dict)
    pruned: Mapping[str, PrunedBefore] = field(default_factory=dict)
    sampler: Callable[[int], BaseSampler] | None = None
    _ended: dict[str, FinishedTrial] = field(default_factory=dict)
    _running: dict[str, list[tuple[optuna.Trial, FinishedTrial]]] = field(default_factory=dict)
    _left: list[FrozenTrial] = field(default_factory=list)
    _asked: int = 0

    def run(
        self, trials: int, executor: Executor, queue: Sequence[Mapping[str, Value]] = (), *, queue_only: bool = False
    ) -> list[FinishedTrial]:
        """Run the stage until it has so many trials, and go on where an earlier process was killed.

        Settings are asked for as the executor takes cells, so each is suggested in the light of all scores that are
        known then. One that was scored before, or is being trained, is not trained again: it gets that score.

        Parameters
        ----------
        trials
            How many there are to be, with those that failed or were pruned and those of earlier processes; without
            those taken over by :func:`mlflow_l3d.studies.search.study.take_over`. Where all failed so far, they are
            tried again.
        executor
            Its job trains :class:`mlflow_l3d.studies.search.trials.Tuned`.
        queue
            Settings that are tried before any other, in this order: the approach's own, then a grid
            (:func:`mlflow_l3d.studies.search.samplers.planned`). What the study has already is not queued again.
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
        self._resume()
        self._enqueue(queue)
        outcomes = executor.run(self._cells(trials, queue_only=queue_only or not self.space.ranges))
        with closing(outcomes):  # type: ignore[type-var]  # an interrupt must not leave workers behind
            for outcome in outcomes:
                self._received(outcome)
        found = finished_trials(self.study)
        failed = [trial for trial in found if trial.state == "failed"]
        if failed and len(failed) == len(found):
            stage = self.study.study_name.rpartition("-")[2]
            raise L3DError(f"all {len(found)} {stage} trials failed; the first: {failed[0].error}")
        return found

    def _resume(self) -> None:
        """Count what there is; trials that a killed process left come first, as if they were asked for again."""
        from optuna.trial import TrialState

        before = finished_trials(self.study)
        for ended in before:
            self._asked += ended.origin != "taken over"
            if ended.state != "failed":
                self._ended[ended.key] = ended
        if not self._ended:
            # Whatever made all of them fail may be mended.
            self._asked = 0
            for failed in before:
                enqueue(self.study, self.space, failed.params)
        self._left = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        self._asked += len(self._left)

    def _enqueue(self, queue: Sequence[Mapping[str, Value]]) -> None:
        """Let settings be the next ones, those that the study does not have in its queue or its past."""
        before = [trial.user_attrs.get(GIVEN) for trial in self.study.get_trials(deepcopy=False)]
        for params in queue:
            if dict(params) not in before:
                enqueue(self.study, self.space, params)
                before.append(dict(params))

    def _cells(self, trials: int, *, queue_only: bool) -> Iterator[TrialCell]:
        """Yield the cells that are to be trained, until the stage has so many trials."""
        import optuna
        from optuna.trial import TrialState

        for left in self._left:
            self._draw_as_after(left.number)
            if (cell := self._begin(optuna.Trial(self.study, left._trial_id))) is not None:
                yield cell
        while self._asked < trials:
            if queue_only and not self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                return
            self._draw_as_after(len(self.study.get_trials(deepcopy=False)))
            trial = self.study.ask()
            self._asked += 1
            if (cell := self._begin(trial)) is not None:
                yield cell

    def _received(self, outcome: Outcome) -> None:
        """Tell what became of a cell, to Optuna and to whoever listens; also for the trials that wait for it."""
        (trial, begun), *twins = self._running.pop(outcome.key)
        if outcome.error is None:
            state: State = "pruned" if outcome.metrics.get("pruned") else "complete"
            ended = replace(begun, state=state, score=float(outcome.metrics["score"]), outcome=outcome)
            self._ended[outcome.key] = ended
        else:
            ended = replace(begun, error=outcome.error, outcome=outcome)
        self._finish(trial, ended)
        for twin, repeated in twins:
            self._repeat(twin, repeated, ended)

    def _draw_as_after(self, trials: int) -> None:
        if self.sampler is not None:
            self.study.sampler = self.sampler(trials)

    def _begin(self, trial: optuna.Trial) -> TrialCell | None:
        params = setting_of(trial, self.space)
        begun = FinishedTrial(trial.number, params, {}, "", "failed")
        try:
            cell = self.make_cell(params, trial.number, trial._trial_id)
        except L3DError as error:
            self._finish(trial, replace(begun, error=one_line(error)))
            return None
        begun = replace(begun, hyperparameters=cell.hyperparameters, key=cell.key, cell=cell)
        trial.set_user_attr(CELL, begun.identity())
        if cell.key in self.known or cell.key in self.pruned or cell.key in self._ended:
            self._reuse(trial, begun)
            return None
        self._running.setdefault(cell.key, []).append((trial, begun))
        return cell if len(self._running[cell.key]) == 1 else None

    def _reuse(self, trial: optuna.Trial, begun: FinishedTrial) -> None:
        """End a trial with the score of an earlier one, or of a finished outcome."""
        if begun.key in self._ended:
            self._repeat(trial, begun, self._ended[begun.key])
            return
        if begun.key in self.known:
            ended = replace(begun, state="complete", score=float(self.known[begun.key]), origin="known")
        else:
            before = self.pruned[begun.key]
            ended = replace(begun, state="pruned", score=before.score, origin="known")
            trial.report(before.reported, before.step)
        self._ended[begun.key] = ended
        self._finish(trial, ended)

    def _repeat(self, trial: optuna.Trial, begun: FinishedTrial, earlier: FinishedTrial) -> None:
        """End a trial as one with the same hyperparameters ended."""
        ended = replace(begun, state=earlier.state, score=earlier.score, error=earlier.error, origin="repeated")
        self._finish(trial, ended)

    def _finish(self, trial: optuna.Trial, ended: FinishedTrial) -> None:
        from optuna.trial import TrialState

        # In this order: what a killed process had not told Optuna is known to whoever listened.
        self.on_finished(ended)
        trial.set_user_attr(RESULT, ended.result())
        if ended.state == "complete":
            self.study.tell(trial, ended.score)
        else:
            self.study.tell(trial, state=TrialState.PRUNED if ended.state == "pruned" else TrialState.FAIL)

"""One stage of a search: Optuna is asked for settings, an executor trains them, Optuna is told their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mlflow_l3d.approaches.failures import one_line
from mlflow_l3d.approaches.hyperparameters import SearchChoices, Value
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Executor
from mlflow_l3d.plan.cells import Logged, Outcome
from mlflow_l3d.studies.search.cells import TrialCell, TrialMaker
from mlflow_l3d.studies.search.results import Ending, FinishedTrial, State, reports_in
from mlflow_l3d.studies.search.samplers import Stage, need_optuna, pruner_of
from mlflow_l3d.studies.search.space import SearchSpace

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler


def new_study(pruner: str, *, greater_is_better: bool) -> Study:
    """Return an empty study of Optuna, in memory: what is worth keeping lies in the recorder."""
    optuna = need_optuna()
    study: Study = optuna.create_study(
        study_name="trials",  # hyperband's brackets follow from it
        direction="maximize" if greater_is_better else "minimize",
        sampler=optuna.samplers.RandomSampler(seed=0),  # each trial has one of its own
        pruner=pruner_of(pruner),
    )
    return study


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Return name -> Optuna's distribution: the whole range, also at level 1, where few values of it are queued."""
    kinds = need_optuna().distributions
    found: dict[str, BaseDistribution] = {}
    for name, each in space.ranges.items():
        if isinstance(each, SearchChoices):
            found[name] = kinds.CategoricalDistribution(each.choices)
        elif each.whole:
            found[name] = kinds.IntDistribution(int(each.low), int(each.high), log=each.log)
        else:
            found[name] = kinds.FloatDistribution(float(each.low), float(each.high), log=each.log)
    return found


@dataclass
class StageRun:
    """One stage under way: which trials run, and which scores are known.

    Attributes
    ----------
    stage
        ``coarse`` or ``fine``.
    study
        From :func:`new_study`.
    space
        What is searched.
    make_cell
        Returns the cell of a trial; a ParameterError fails the trial.
    sampler
        Returns the sampler of a trial, from the number of trials before it: a search that continues draws what it would
        have drawn.
    on_finished
        Told of every trial that ends, right before Optuna is.
    known
        Key of a cell -> how it ended before.
    recorded
        Number of a trial -> hyperparameters, of the trials that an earlier process ended: they are tried again, so that
        their ends are found among the known ones, whatever the samplers of several workers had in view.
    """

    stage: Stage
    study: Study
    space: SearchSpace
    make_cell: TrialMaker
    sampler: Callable[[int], BaseSampler]
    on_finished: Callable[[FinishedTrial], None]
    known: Mapping[str, Ending] = field(default_factory=dict)
    recorded: Mapping[int, Mapping[str, Value]] = field(default_factory=dict)
    _finished: list[FinishedTrial] = field(default_factory=list)
    _ended: dict[str, FinishedTrial] = field(default_factory=dict)
    _running: dict[str, list[tuple[Trial, FinishedTrial]]] = field(default_factory=dict)

    def run(
        self, trials: int, executor: Executor, queue: Sequence[Mapping[str, Value]] = (), *, best: FinishedTrial | None
    ) -> list[FinishedTrial]:
        """Run the stage until it has so many trials.

        Settings are asked for as the executor takes cells, so each is suggested in the light of all scores that are
        known then. One that was scored before, or is being trained, is not trained again: it gets that score.

        Parameters
        ----------
        trials
            How many there are to be, with those that fail or are pruned.
        executor
            Its job trains :class:`mlflow_l3d.studies.search.trials.Tuned`.
        queue
            Settings that are tried before any other, in this order: the approach's own, then a grid.
        best
            The best trial of the stage before: it becomes the first one of this stage, beyond `trials`, and is not
            trained again.

        Returns
        -------
        list
            All trials, in their order.

        Raises
        ------
        L3DError
            If every trial failed; it names the error of the first.
        """
        if best is not None:
            self._take_over(best)
        with closing(executor.run(self._cells(trials, queue))) as outcomes:
            for outcome in outcomes:
                self._received(outcome)
        found = sorted(self._finished, key=lambda trial: trial.number)
        if all(trial.state == "failed" for trial in found):
            raise L3DError(f"all {len(found)} {self.stage} trials failed; the first: {found[0].error}")
        return found

    def _take_over(self, best: FinishedTrial) -> None:
        taken = replace(best, number=0, origin="taken over")
        kinds, inside = distributions(self.space), self._inside(best.params)
        own = {name: kinds[name] for name in inside}
        self.study.add_trial(need_optuna().trial.create_trial(params=inside, distributions=own, value=best.score))
        self._ended[best.key] = taken
        self._finished.append(taken)

    def _cells(self, trials: int, queue: Sequence[Mapping[str, Value]]) -> Iterator[TrialCell]:
        """Yield the cells that are to be trained, until the stage has so many trials."""
        first = len(self._finished)
        settings = {**dict(enumerate(queue, first)), **self.recorded}
        for number in range(first, first + trials):
            given = settings.get(number, {})
            cell = self._begin({name: given[name] for name in self.space.ranges if name in given})
            if cell is not None:
                yield cell

    def _begin(self, given: Mapping[str, Value]) -> TrialCell | None:
        """Ask for a trial, of a setting that is given or of one that Optuna suggests; return what is to be trained.

        A given value that the space does not hold, such as a default outside of it, is no parameter of Optuna's trial,
        so that no sampler learns from it.
        """
        from optuna.pruners import NopPruner

        earlier = tuple(self.study.get_trials(deepcopy=False))
        self.study.sampler = self.sampler(len(earlier))
        inside = self._inside(given)
        if given:
            self.study.enqueue_trial(inside)
        outside = set(given) - set(inside)
        trial = self.study.ask({name: kind for name, kind in distributions(self.space).items() if name not in outside})
        params = {**self.space.fixed, **trial.params, **given}
        begun = FinishedTrial(trial.number, params, {}, "", "failed")
        try:
            cell = self.make_cell(params, trial.number, () if isinstance(self.study.pruner, NopPruner) else earlier)
        except L3DError as error:
            self._finish(trial, replace(begun, error=one_line(error)))
            return None
        begun = replace(begun, hyperparameters=cell.hyperparameters, key=cell.key, cell=cell)
        if cell.key in self._ended:
            self._repeat(trial, begun, self._ended[cell.key])
        elif (before := self.known.get(cell.key)) is not None:
            begun = replace(begun, origin="trained" if trial.number in self.recorded else "known")
            self._finish(trial, replace(begun, state=before.state, score=before.score, reports=before.reports))
        else:
            self._running.setdefault(cell.key, []).append((trial, begun))
            return cell if len(self._running[cell.key]) == 1 else None
        return None

    def _received(self, outcome: Outcome) -> None:
        """Tell what became of a cell, to Optuna and to whoever listens; also for the trials that wait for it."""
        (trial, begun), *twins = self._running.pop(outcome.key)
        if outcome.error is None:
            state: State = "pruned" if outcome.metrics.get("pruned") else "complete"
            reports = reports_in((outcome.logged or Logged()).metrics)
            ended = replace(begun, state=state, score=float(outcome.metrics["score"]), reports=reports, outcome=outcome)
        else:
            ended = replace(begun, error=outcome.error, outcome=outcome)
        self._finish(trial, ended)
        for twin, repeated in twins:
            self._repeat(twin, repeated, ended)

    def _repeat(self, trial: Trial, begun: FinishedTrial, earlier: FinishedTrial) -> None:
        """End a trial as one with the same hyperparameters ended."""
        ended = replace(begun, state=earlier.state, score=earlier.score, error=earlier.error, origin="repeated")
        self._finish(trial, ended)

    def _finish(self, trial: Trial, ended: FinishedTrial) -> None:
        """End a trial; the setting of one that failed is trained again if it comes again."""
        from optuna.trial import TrialState

        self.on_finished(ended)
        ended = replace(ended, cell=None, outcome=None)
        self._finished.append(ended)
        if ended.state != "failed":
            self._ended.setdefault(ended.key, ended)
        for step, score in ended.reports.items():
            trial.report(score, step)
            trial.should_prune()  # some pruners note with a trial how far it came
        if ended.state == "complete":
            self.study.tell(trial, ended.score)
        else:
            self.study.tell(trial, state=TrialState.PRUNED if ended.state == "pruned" else TrialState.FAIL)

    def _inside(self, params: Mapping[str, Value]) -> dict[str, Value]:
        ranges = self.space.ranges
        return {name: params[name] for name in ranges if name in params and self.space.contains(name, params[name])}

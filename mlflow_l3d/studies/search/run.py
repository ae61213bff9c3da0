"""One search under way: two levels of trials, the comparison, and a parent in a true state."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mlflow_l3d import registry
from mlflow_l3d.analysis.search import HeldOut, SearchResult, held_out
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Executor, Job
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.studies.interrupts import deferred_interrupts
from mlflow_l3d.studies.run_guard import UnderWay, carried_out
from mlflow_l3d.studies.search.artifacts import write_search
from mlflow_l3d.studies.search.cells import held_out_cells
from mlflow_l3d.studies.search.engine import run_level, take_over
from mlflow_l3d.studies.search.found import level_summary, trials_table
from mlflow_l3d.studies.search.importances import importances
from mlflow_l3d.studies.search.ledger import SearchLedger
from mlflow_l3d.studies.search.parent import (
    forget_journal,
    journal_folder,
    search_description,
    search_metrics,
    shared_params,
    trial_record,
)
from mlflow_l3d.studies.search.results import FinishedTrial, best_of, finished_trials
from mlflow_l3d.studies.search.samplers import Level
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.specification import SearchSpecification
from mlflow_l3d.studies.search.trials import Tuned

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage
    from tqdm import tqdm

    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.approaches.hyperparameters import Value

_logger = logging.getLogger("mlflow_l3d")


class SearchRun:
    """One search under way."""

    def __init__(self, specification: SearchSpecification, *, progress: bool) -> None:
        self.specification = specification
        self.progress = progress
        self.ended = 0
        self.metric = named(specification.metric)
        self.best = -self.metric.sign * float("inf")
        self.metrics: dict[str, Mapping[str, float]] = {}

    def run(self, project_run: str | None) -> tuple[str, SearchResult]:
        """Search, compare, and leave the parent in a true state whatever happens."""
        started = time.monotonic()
        work: UnderWay[SearchLedger] = UnderWay()
        specification = self.specification
        with carried_out(work, project_run, lambda _: f"after {self.ended} trials"):
            with deferred_interrupts():
                ledger = work.ledger = SearchLedger.open(
                    specification.card(),
                    context_key=specification.context_key,
                    shared_params=shared_params(specification),
                    metric=specification.metric,
                    project_run=project_run,
                )
            with tempfile.TemporaryDirectory() as folder:
                result = self._results(ledger, Path(folder), started)
                ledger.finish(Path(folder), complete=True, description=search_description(result))
            forget_journal(specification, ledger)
        return ledger.parent.run_id, result

    def _results(self, ledger: SearchLedger, folder: Path, started: float) -> SearchResult:
        from mlflow_l3d.studies.search.storages import storage_of

        specification = self.specification
        storage = storage_of(specification.storage, journal_folder(ledger))
        spaces: dict[Level, SearchSpace] = {"coarse": specification.space}
        studies: dict[Level, Study] = {}
        trials: dict[Level, list[FinishedTrial]] = {}
        planned = specification.coarse_trials + specification.fine_trials
        with _bar(specification.setup.approach.name, planned, self.progress) as bar:
            studies["coarse"], trials["coarse"] = self._level("coarse", spaces["coarse"], storage, ledger, bar)
            best = _best(trials["coarse"], self.metric)
            spaces["fine"] = specification.space.around({**best.hyperparameters, **best.params})
            if specification.fine_trials and spaces["fine"].ranges:
                studies["fine"], trials["fine"] = self._level("fine", spaces["fine"], storage, ledger, bar, after=best)
                best = _best(trials["fine"], self.metric)
        compared = self._compare(best.hyperparameters, ledger)
        ledger.wait()
        found, note = importances(studies["coarse"], seed=specification.root_seed)
        result = SearchResult(
            title=specification.title,
            metric=specification.metric,
            levels=tuple(
                level_summary(level, specification.samplers[level], spaces[level].ranges, trials[level], self.metric)
                for level in trials
            ),
            trials=self._table(trials, ledger),
            best=best.hyperparameters,
            default=specification.setup.hyperparameters,
            best_score=float("nan") if best.score is None else best.score,
            default_score=_score_of(specification.setup.hyperparameters, trials["coarse"]),
            importances=found,
            configurations=specification.search_seeds,
            validation_examples=_validation_examples(specification),
            held_out=compared,
            seconds=time.monotonic() - started,
            run_id=ledger.parent.run_id,
            notes=(*specification.setup.origin.notes, *specification.setup.task.notes, *([note] if note else [])),
        )
        ledger.log_metrics(search_metrics(result), self.ended)
        write_search(folder, specification, result, studies)
        return result

    def _level(
        self,
        level: Level,
        space: SearchSpace,
        storage: BaseStorage,
        ledger: SearchLedger,
        bar: tqdm[Any],
        *,
        after: FinishedTrial | None = None,
    ) -> tuple[Study, list[FinishedTrial]]:
        """Run one level, and return its study and its trials."""
        from mlflow_l3d.studies.search.cells import TrialMaker
        from mlflow_l3d.studies.search.planned import planned
        from mlflow_l3d.studies.search.samplers import PLANNED, pruner_of, sampler_of
        from mlflow_l3d.studies.search.study import open_study

        specification = self.specification
        setup = specification.setup
        sampler = specification.samplers[level]
        wanted = specification.coarse_trials if level == "coarse" else specification.fine_trials
        name = f"{ledger.spool.folder.name}-{level}"
        pruner = pruner_of(specification.pruner)
        seed = specification.sampler_seed(level)
        study = open_study(storage, name, sampler_of(sampler, level=level, seed=seed), pruner, metric=self.metric)
        begun = len(study.get_trials(deepcopy=False))
        if begun:
            study.sampler = sampler_of(sampler, level=level, seed=seed, begun=begun)
        first = [dict(_first(setup.hyperparameters, space))] if level == "coarse" else []
        queue = planned(
            space,
            sampler=sampler,
            level=level,
            trials=wanted - len(first),
            seed=seed,
            done=[*first, *([after.params] if after is not None else [])],
        )
        if after is not None:
            take_over(study, space, after)
        maker = TrialMaker(
            approach=setup.approach,
            base=setup.origin.values,
            context_key=specification.context_key,
            study_name=name,
            seeds=specification.searched_on,
        )
        tuned = Tuned(
            setup.approach,
            metric=specification.metric,
            pruner=specification.pruner,
            storage=specification.storage,
            folder=journal_folder(ledger),
        )

        def ended(trial: FinishedTrial) -> None:
            self._ended(level, trial, ledger, bar)

        for earlier in finished_trials(study):
            if earlier.origin != "taken over":
                self._count(level, earlier, ledger, bar)
        known = {key: metrics["score"] for key, metrics in ledger.known.items() if "score" in metrics}
        found = run_level(
            study,
            space,
            trials=wanted,
            executor=self._executor(tuned),
            make_cell=maker,
            on_finished=ended,
            known=known,
            pruned=ledger.pruned.get(level),
            queue=[*first, *queue],
            queue_only=sampler in PLANNED,
        )
        return study, found

    def _executor(self, approach: Approach) -> Executor:
        setup = self.specification.setup
        executor_class = registry.load("executor", setup.executor)
        job = Job(approach, setup.task, setup.hyperparameters, setup.model_reference, setup.device, cache_folder())
        executor: Executor = executor_class(job=job, workers=setup.workers)
        return executor

    def _ended(self, level: Level, trial: FinishedTrial, ledger: SearchLedger, bar: tqdm[Any]) -> None:
        """Keep a trial that ended."""
        if trial.outcome is not None and trial.cell is not None:
            name = f"{level} {trial.number}"
            seeds = self.specification.searched_on
            record = ledger.add(trial_record(level, trial.number, name, trial.state, trial.cell, trial.outcome, seeds))
            self.metrics[trial.key] = record.metrics
        if trial.state == "failed":
            _logger.warning("%s trial %d failed: %s", level, trial.number, trial.error)
        self._count(level, trial, ledger, bar)

    def _count(self, level: Level, trial: FinishedTrial, ledger: SearchLedger, bar: tqdm[Any]) -> None:
        """Show how far the search is; also for a trial of an earlier process."""
        metrics = {}
        if trial.state == "complete" and trial.score is not None:
            self.best = max(self.best, trial.score, key=lambda score: self.metric.sign * score)
            metrics = {"score": trial.score, "best_score": self.best}
            bar.set_postfix_str(f"{level}, best {self.specification.metric} {100 * self.best:.1f}", refresh=False)
        if metrics:
            ledger.log_metrics(metrics, self.ended)
        self.ended += 1
        bar.update()

    def _compare(self, best: Mapping[str, Value], ledger: SearchLedger) -> HeldOut | None:
        """Train the found setting and the given one on configurations not searched on, and score the test examples."""
        specification = self.specification
        default = specification.setup.hyperparameters
        if not specification.held_out_runs or dict(best) == dict(default):
            return None
        cells = held_out_cells(
            specification.setup.approach,
            specification.context_key,
            {"found": best, "given": default},
            specification.compared_on,
        )
        scores = {key: metrics["score"] for key, metrics in ledger.known.items() if "score" in metrics}
        missing = [cell for _, cell in cells if cell.key not in scores]
        kinds = {cell.key: (kind, cell) for kind, cell in cells}
        tuned = Tuned(specification.setup.approach, metric=specification.metric, evaluated="test")
        outcomes = self._executor(tuned).run(iter(missing))
        with _bar("held out", len(missing), self.progress and bool(missing)) as bar, _closing(outcomes):
            for outcome in outcomes:
                kind, cell = kinds[outcome.key]
                state = "failed" if outcome.error else "complete"
                name = f"held out {cell.trial_number}, {kind}"
                seeds = cell.configurations_seeds
                ledger.add(trial_record("held_out", cell.trial_number, name, state, cell, outcome, seeds))
                if outcome.error is None:
                    scores[outcome.key] = float(outcome.metrics["score"])
                else:
                    _logger.warning("%s failed: %s", name, outcome.error)
                bar.update()
        by_kind = {
            kind: [scores.get(cell.key, float("nan")) for own, cell in cells if own == kind]
            for kind in ("found", "given")
        }
        return held_out(by_kind["found"], by_kind["given"])

    def _table(self, trials: Mapping[Level, Sequence[FinishedTrial]], ledger: SearchLedger) -> Any:
        specification = self.specification
        keys = {trial.key for found in trials.values() for trial in found if trial.key}
        return trials_table(
            {str(level): found for level, found in trials.items()},
            tuple(specification.space.ranges),
            default=specification.setup.hyperparameters,
            run_ids={key: ledger.run_of(key) for key in keys},
            metrics={**ledger.known, **self.metrics},
        )


def _first(hyperparameters: Mapping[str, Value], space: SearchSpace) -> dict[str, Value]:
    """Return the given setting as a trial."""
    return {name: hyperparameters[name] for name in space.ranges}


def _best(trials: list[FinishedTrial], metric: Metric) -> FinishedTrial:

    best = best_of(trials, metric)
    if best is None:
        msg = "No trial was complete: all were pruned or failed. Use pruner=none, or another space."
        raise L3DError(msg)
    return best


def _score_of(hyperparameters: Mapping[str, Value], trials: Sequence[FinishedTrial]) -> float:
    """Return the score of a setting; nan where no complete trial had it."""
    scores = [
        trial.score
        for trial in trials
        if trial.state == "complete" and dict(trial.hyperparameters) == dict(hyperparameters)
    ]
    return next((score for score in scores if score is not None), float("nan"))


def _validation_examples(specification: SearchSpecification) -> int:
    task = specification.setup.task
    on_validation = replace(task, settings=replace(task.settings, evaluated="validation"))
    return len(on_validation.split(specification.searched_on[0]).test)


@contextmanager
def _bar(what: str, total: int, shown: bool) -> Iterator[tqdm[Any]]:
    from tqdm import tqdm

    interval = 0.5 if sys.stderr.isatty() else 10.0
    with tqdm(total=total, unit="trial", disable=not shown, file=sys.stderr, desc=what, mininterval=interval) as bar:
        yield bar


def _closing(outcomes: Iterator[Outcome]) -> Any:
    return closing(cast("Any", outcomes))

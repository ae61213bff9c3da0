"""The entry point `search`: two stages of trials, a comparison on configurations not searched on, and what is left."""

from __future__ import annotations

import logging
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.base import Study, executor_of, progress_bar
from mlflow_l3d.studies.search.artifacts import description, write_search
from mlflow_l3d.studies.search.comparison import compare, known_scores
from mlflow_l3d.studies.search.engine import run_stage, take_over
from mlflow_l3d.studies.search.found import stage_summary, trials_table
from mlflow_l3d.studies.search.importances import importances
from mlflow_l3d.studies.search.journal import journal_folder
from mlflow_l3d.studies.search.results import FinishedTrial, PrunedBefore, best_of, finished_trials, score_of
from mlflow_l3d.studies.search.samplers import Stage
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.specification import SearchSpecification, specify_search
from mlflow_l3d.studies.search.trials import Tuned
from mlflow_l3d.tracking.ledger import Ledger, Work
from mlflow_l3d.tracking.opening import open_ledger
from mlflow_l3d.tracking.records import TrialRecord

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.storages import BaseStorage
    from tqdm import tqdm

    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.approaches.hyperparameters import Value
    from mlflow_l3d.tasks.base import Task

_logger = logging.getLogger("mlflow_l3d")


@dataclass(frozen=True)
class HyperparameterSearch:
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
        from mlflow_l3d.report.search.text import summary

        return summary(self.result, lines=[f"MLflow run {self.run_id}; search.html is among its artifacts"])


def search(
    *,
    approach: Approach | str | None = None,
    task: Task | str | None = None,
    progress: bool = False,
    **parameters: object,
) -> HyperparameterSearch:
    """Search hyperparameters on two stages (Pecher et al. 2024, Appendix D), before an investigation.

    Parameters
    ----------
    approach, task
        A name, or an object of your own.
    progress
        Whether to show a progress bar on stderr.
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


class SearchStudy(Study[SearchSpecification, TrialRecord, HyperparameterSearch]):
    """One search under way."""

    specify = staticmethod(specify_search)

    def __init__(self, specification: SearchSpecification, *, progress: bool = False) -> None:
        super().__init__(specification, progress=progress)
        self.ended = 0
        self.metric = named(specification.metric)
        self.best = -self.metric.sign * math.inf
        self.metrics: dict[str, Mapping[str, float]] = {}
        self._started = time.monotonic()

    def open(self, project_run: str | None) -> Ledger[TrialRecord]:
        """Open the parent, and find which trials are known."""
        asked = self.specification
        work = Work(asked.card(), TrialRecord, asked.context_key, asked.shared_params())
        return open_ledger(work, project_run)

    def how_far(self, ledger: Ledger[TrialRecord]) -> str:  # noqa: ARG002
        """Return how many trials ended."""
        return f"after {self.ended} trials"

    def carry_out(self, ledger: Ledger[TrialRecord]) -> HyperparameterSearch:
        """Search, compare, and write what was found."""
        with _short_turns(), tempfile.TemporaryDirectory() as folder:
            result = self._results(ledger, Path(folder))
            ledger.finish(Path(folder), complete=True, description=description(result))
        if self.specification.storage == "auto":
            shutil.rmtree(journal_folder(ledger.spool), ignore_errors=True)  # the server holds it all
        return HyperparameterSearch(ledger.parent.run_id, result.best, result, self.specification)

    def _results(self, ledger: Ledger[TrialRecord], folder: Path) -> SearchResult:
        from mlflow_l3d.studies.search.storages import storage_of

        specification = self.specification
        storage = storage_of(specification.storage, journal_folder(ledger.spool))
        spaces: dict[Stage, SearchSpace] = {"coarse": specification.space}
        studies: dict[Stage, OptunaStudy] = {}
        trials: dict[Stage, list[FinishedTrial]] = {}
        planned = specification.coarse_trials + specification.fine_trials
        with progress_bar(specification.setup.approach.name, unit="trial", total=planned, shown=self.progress) as bar:
            studies["coarse"], trials["coarse"] = self._stage("coarse", spaces["coarse"], storage, ledger, bar)
            best = _best(trials["coarse"], self.metric)
            spaces["fine"] = specification.space.around({**best.hyperparameters, **best.params})
            if specification.fine_trials and spaces["fine"].ranges:
                studies["fine"], trials["fine"] = self._stage("fine", spaces["fine"], storage, ledger, bar, after=best)
                best = _best(trials["fine"], self.metric)
        compared = compare(specification, best.hyperparameters, ledger, progress=self.progress)
        ledger.wait()
        found, note = importances(studies["coarse"], seed=specification.root_seed)
        result = SearchResult(
            title=specification.title,
            metric=specification.metric,
            stages=tuple(
                stage_summary(stage, specification.samplers[stage], spaces[stage].ranges, trials[stage], self.metric)
                for stage in trials
            ),
            trials=self._table(trials, ledger),
            best=best.hyperparameters,
            default=specification.setup.hyperparameters,
            best_score=math.nan if best.score is None else best.score,
            default_score=score_of(specification.setup.hyperparameters, trials["coarse"]),
            importances=found,
            configurations=specification.search_seeds,
            validation_examples=specification.validation_examples,
            held_out=compared,
            seconds=time.monotonic() - self._started,
            run_id=ledger.parent.run_id,
            notes=(*specification.setup.origin.notes, *specification.setup.task.notes, *([note] if note else [])),
        )
        ledger.log_metrics(result.metrics(), self.ended)
        write_search(folder, specification, result, studies)
        return result

    def _stage(
        self,
        stage: Stage,
        space: SearchSpace,
        storage: BaseStorage,
        ledger: Ledger[TrialRecord],
        bar: tqdm[Any],
        *,
        after: FinishedTrial | None = None,
    ) -> tuple[OptunaStudy, list[FinishedTrial]]:
        """Run one stage, and return its study and its trials."""
        from mlflow_l3d.studies.search.cells import TrialMaker
        from mlflow_l3d.studies.search.planned import planned
        from mlflow_l3d.studies.search.samplers import PLANNED, pruner_of, sampler_of
        from mlflow_l3d.studies.search.study import open_study

        specification, setup = self.specification, self.specification.setup
        sampler = specification.samplers[stage]
        wanted = specification.coarse_trials if stage == "coarse" else specification.fine_trials
        name, pruner = f"{ledger.spool.folder.name}-{stage}", pruner_of(specification.pruner)
        seed = specification.sampler_seed(stage)
        study = open_study(storage, name, sampler_of(sampler, stage=stage, seed=seed), pruner, metric=self.metric)
        begun = len(study.get_trials(deepcopy=False))
        if begun:
            study.sampler = sampler_of(sampler, stage=stage, seed=seed, begun=begun)
        first = [{name: setup.hyperparameters[name] for name in space.ranges}] if stage == "coarse" else []
        queue = planned(
            space,
            sampler=sampler,
            stage=stage,
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
            folder=journal_folder(ledger.spool),
        )

        def ended(trial: FinishedTrial) -> None:
            self._ended(stage, trial, ledger, bar)

        for earlier in finished_trials(study):
            if earlier.origin != "taken over":
                self._count(stage, earlier, ledger, bar)
        found = run_stage(
            study,
            space,
            trials=wanted,
            executor=executor_of(setup, tuned),
            make_cell=maker,
            on_finished=ended,
            known=known_scores(ledger),
            pruned=PrunedBefore.all_of(ledger.recovered.pruned.get(stage, {}), specification.metric),
            queue=[*first, *queue],
            queue_only=sampler in PLANNED,
        )
        return study, found

    def _ended(self, stage: Stage, trial: FinishedTrial, ledger: Ledger[TrialRecord], bar: tqdm[Any]) -> None:
        """Keep a trial that ended."""
        if trial.outcome is not None and trial.cell is not None:
            record = trial.cell.record(stage, f"{stage} {trial.number}", trial.state, trial.outcome)
            self.metrics[trial.key] = ledger.add(record).metrics
        if trial.state == "failed":
            _logger.warning("%s trial %d failed: %s", stage, trial.number, trial.error)
        self._count(stage, trial, ledger, bar)

    def _count(self, stage: Stage, trial: FinishedTrial, ledger: Ledger[TrialRecord], bar: tqdm[Any]) -> None:
        """Show how far the search is; also for a trial of an earlier process."""
        if trial.state == "complete" and trial.score is not None:
            self.best = max(self.best, trial.score, key=lambda score: self.metric.sign * score)
            ledger.log_metrics({"score": trial.score, "best_score": self.best}, self.ended)
            bar.set_postfix_str(f"{stage}, best {self.specification.metric} {100 * self.best:.1f}", refresh=False)
        self.ended += 1
        bar.update()

    def _table(self, trials: Mapping[Stage, Sequence[FinishedTrial]], ledger: Ledger[TrialRecord]) -> Any:
        specification = self.specification
        keys = {trial.key for found in trials.values() for trial in found if trial.key}
        return trials_table(
            {str(stage): found for stage, found in trials.items()},
            tuple(specification.space.ranges),
            default=specification.setup.hyperparameters,
            run_ids={key: ledger.run_of(key) for key in keys},
            metrics={**ledger.recovered.metrics, **self.metrics},
        )


def _best(trials: list[FinishedTrial], metric: Metric) -> FinishedTrial:
    best = best_of(trials, metric)
    if best is None:
        msg = "No trial was complete: all were pruned or failed. Use pruner=none, or another space."
        raise L3DError(msg)
    return best


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take turns ten times as often: else every small call of a trial waits 5 ms for one that uploads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, 5e-4))
    try:
        yield
    finally:
        sys.setswitchinterval(before)

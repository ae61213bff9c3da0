"""One stage of a search of :class:`Climb`, as a process of its own would open it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlflow.entities import Run
from run_helpers import Place
from search_cases import Climb, Trace, height, luck

from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.outcomes import run_cell
from mlflow_l3d.studies.base import job_of
from mlflow_l3d.studies.search.engine import StageRun
from mlflow_l3d.studies.search.request import SearchRequest, specify_search
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.training import Tuned
from mlflow_l3d.studies.search.trials import FinishedTrial
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.sources.packaged import generate


def request(approach: Any = None, task: Task | None = None, **settings: Any) -> SearchRequest:
    """Return a small search of :class:`Climb`; `settings` are parameters of `search`."""
    small = {"num_labelled": 40, "test_size": 20, "metric": "height", "space": "x,kind=a|b", "pruner": "none"}
    return specify_search({**small, **settings}, approach=approach or Climb(), task=task or generate(200, 2))


def searches(place: Place) -> list[Run]:
    return place.runs("tags.`l3d.role` = 'search'")


def trials(place: Place, stage: str = "", parent: str = "") -> list[Run]:
    condition = "tags.`l3d.role` = 'trial'"
    condition += f" and tags.`l3d.level` = '{stage}'" if stage else ""
    condition += f" and tags.`mlflow.parentRunId` = '{parent}'" if parent else ""
    return place.runs(condition)


@dataclass
class Search:
    """A search of one stage; `settings` are parameters of `search`."""

    folder: Path
    approach: Any = field(default_factory=Climb)
    task: Task = field(default_factory=lambda: generate(200, 2))
    space: SearchSpace | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        asked = self.request = request(self.approach, self.task, **self.settings)
        self.task, self.space = asked.setup.task, self.space or asked.space
        tuned = Tuned(self.approach, asked.metric.name, asked.pruner, asked.metric.greater_is_better)
        self.job = replace(job_of(asked.setup, tuned), cache=self.folder)
        self.trace = Trace(self.folder)

    def stage(self, on_finished: Any, trials: int, queue: Sequence[Mapping[str, Any]] = (), **before: Any) -> StageRun:
        """Return a run of the stage; `before` is what earlier processes did, see :class:`StageRun`."""
        stage_run = StageRun(self.request, "fine", self.space, on_finished, **before)
        stage_run.plan = lambda: (trials, list(queue))
        return stage_run

    def run(
        self,
        trials: int,
        queue: Sequence[Mapping[str, Any]] = (),
        executor: Any = None,
        best: Any = None,
        **before: Any,
    ) -> tuple[list[FinishedTrial], list[tuple[FinishedTrial, Outcome | None]]]:
        """Run the stage; return all its trials, and what was heard of those that ended in this call, in their order."""
        heard: list[tuple[FinishedTrial, Outcome | None]] = []
        stage_run = self.stage(
            lambda trial, outcome: heard.append((trial, outcome)), trials, queue, best=best, **before
        )
        return stage_run.run(executor or InlineExecutor(job=self.job)), heard

    def train(self, *settings: Mapping[str, Any]) -> list[Outcome]:
        """Train settings in one session, without Optuna."""
        prepare, where = self.job.approach.prepare, {"model": "", "device": "cpu", "cache": self.folder}
        session = prepare(self.task, self.job.hyperparameters, **where)
        cells = [self.request.trial_cell(params, number) for number, params in enumerate(settings)]
        outcomes = [run_cell(session, cell, self.job) for cell in cells]
        session.close()
        return outcomes

    def trained(self) -> int:
        return len(self.trace.lines("call"))

    def expected(self, x: float, kind: str, epochs: int = 8) -> list[float]:
        """Return the score of a setting in each configuration."""
        return [height(x, kind) * (1 - 0.5**epochs) + luck(seeds) for seeds in self.request.searched_on]

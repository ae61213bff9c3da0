"""One stage of a search of :class:`Climb`, as a process of its own would open it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from search_cases import Climb, Trace

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.execution.base import Job
from mlflow_l3d.plan.factors import GOLDEN_BASE, configuration_seed
from mlflow_l3d.studies.search.cells import TrialMaker, search_key
from mlflow_l3d.studies.search.engine import StageRun, new_study
from mlflow_l3d.studies.search.results import FinishedTrial
from mlflow_l3d.studies.search.samplers import sampler_of
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.trials import Tuned
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.synthetic import generate


def small_task(**settings: Any) -> Task:
    return replace(generate(200, 2), settings=SplitSettings(num_labelled=40, test_size=20, **settings))


@dataclass
class Search:
    """One stage, as a process of its own would open it."""

    folder: Path
    approach: Climb = field(default_factory=Climb)
    space: SearchSpace = field(default_factory=lambda: space_of("x,kind=a|b"))
    base: Mapping[str, Value] = field(default_factory=dict)
    metric: str = "height"
    pruner: str = "none"
    sampler: str = "tpe"
    configurations: int = 1

    def __post_init__(self) -> None:
        self.task = small_task()
        self.tuned = Tuned(self.approach, metric=self.metric, pruner=self.pruner)
        hyperparameters = resolve_hyperparameters(self.approach, self.base)
        self.job = Job(self.tuned, self.task, hyperparameters, "", "cpu", self.folder)
        key = search_key(self.task, self.approach, model_revision="none", numerics={}, metric=self.metric)
        self.maker = TrialMaker(self.approach, self.base, key, seeds_of(self.configurations))
        self.trace = Trace(self.folder)

    def stage(self, on_finished: Callable[[FinishedTrial], None], **before: Any) -> StageRun:
        """Return a run of the stage; `before` is what earlier processes did, see :class:`StageRun`."""
        study = new_study(self.pruner, greater_is_better=True)
        sampler = partial(sampler_of, self.sampler, "fine", 0)
        return StageRun("fine", study, self.space, self.maker, sampler, on_finished, **before)


def space_of(text: str) -> SearchSpace:
    approach = Climb()
    return SearchSpace.of(approach, resolve_hyperparameters(approach, {}), text)


def seeds_of(configurations: int, root: int = 0) -> tuple[dict[str, int], ...]:
    return tuple(
        {factor: configuration_seed(root, factor, GOLDEN_BASE + number) for factor in Climb().factors}
        for number in range(configurations)
    )

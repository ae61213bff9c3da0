"""An approach with a known best setting, that leaves a trace of everything it does; and what a search needs of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_l3d.approaches.base import Approach, CellwiseSession, resolve_hyperparameters
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.plan.factors import GOLDEN_BASE, configuration_seed
from mlflow_l3d.studies.search.cells import TrialMaker, search_key
from mlflow_l3d.studies.search.samplers import pruner_of, sampler_of
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.storages import storage_of
from mlflow_l3d.studies.search.study import open_study
from mlflow_l3d.studies.search.trials import Tuned
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.synthetic import generate

BEST = {"x": 0.3, "kind": "b"}


def height(x: float, kind: str) -> float:
    """Return the score of a setting without luck; the highest is 0.9, at BEST."""
    return 0.9 - (x - 0.3) ** 2 - (0.0 if kind == "b" else 0.2)


def luck(seeds: Mapping[str, int]) -> float:
    """Return what a configuration adds, below 0.01 either way."""
    return (seeds["model_initialisation"] % 1000 - 499.5) / 50_000


@dataclass
class Climb(Approach):
    """At epoch e (from 0) the score is height * (1 - 0.5 ** (e + 1)) + luck."""

    name: str = "climb"
    version: str = "1"
    factors: tuple[str, ...] = ("label_selection", "data_split", "model_initialisation")
    hyperparameters: Mapping[str, Hyperparameter] = field(
        default_factory=lambda: {
            "x": Hyperparameter(0.9, "where", low=0.0, high=1.0),
            "kind": Hyperparameter("a", "how", choices=("a", "b", "broken", "unprepared", "deadly")),
            "epochs": Hyperparameter(8, "how long", low=1, high=100),
        }
    )
    metrics: tuple[str, ...] = ("height",)
    default_model: str = ""
    default_task: str = "synthetic"
    reports_epochs: bool = True
    seconds: float = 0.0
    many: int = 1

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        return {}

    def model_revision(self, model: str) -> str:
        return "none"

    def numerics(self, device: str) -> Mapping[str, str]:
        return {}

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        if hyperparameters["kind"] == "a" and float(hyperparameters["x"]) > 0.95:
            raise ParameterError("hyperparameters.x", hyperparameters["x"], "is too far for kind=a")
        return dict(hyperparameters)

    def prepare(self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path) -> Any:
        trace = Trace(cache)
        trace.note("prepare", hyperparameters["x"], hyperparameters["kind"])
        if hyperparameters["kind"] == "unprepared":
            raise RuntimeError("cannot be prepared")
        session = ClimbSession(self, task, hyperparameters, trace)
        session.reports_epochs = self.reports_epochs
        session.cells_at_once = self.many
        return session


class ClimbSession(CellwiseSession):
    def __init__(self, approach: Climb, task: Task, hyperparameters: Mapping[str, Value], trace: Trace) -> None:
        self.approach, self.task, self.hyperparameters, self.trace = approach, task, hyperparameters, trace

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        cells = list(cells)
        self.trace.note("call", len(cells))
        yield from reversed(list(super().run(cells)))

    def run_cell(self, cell: Cell) -> Outcome:
        kind, split = str(self.hyperparameters["kind"]), self.task.split(cell.seeds)
        if kind == "broken":
            return failed(cell.key, RuntimeError("this kind is broken"))
        if kind == "deadly":
            os._exit(3)
        scores: list[float] = []
        for epoch in range(int(self.hyperparameters["epochs"])):
            top = height(float(self.hyperparameters["x"]), kind)
            scores.append(top * (1 - 0.5 ** (epoch + 1)) + luck(cell.seeds))
            self.trace.note("epoch", cell.key, epoch)
            time.sleep(self.approach.seconds)
            if self.on_epoch_end is not None and self.on_epoch_end(cell.key, epoch, {"validation_height": scores[-1]}):
                break
        labels = self.task.labels[split.test]
        wrong = np.arange(len(labels)) >= round(scores[-1] * len(labels))
        return Outcome(
            key=cell.key,
            example_ids=self.task.example_ids[split.test],
            labels=labels,
            predictions=np.where(wrong, (labels + 1) % len(self.task.class_names), labels),
            metrics={"height": scores[-1]},
            curves={"validation_height": scores, "epoch_number": [float(e) for e in range(len(scores))]},
        )

    def close(self) -> None:
        self.trace.note("close")


class Trace:
    """Lines in a file, from any process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "trace.txt"

    def note(self, *words: object) -> None:
        with self._path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def lines(self, first: str = "") -> list[list[str]]:
        if not self._path.exists():
            return []
        return [line.split() for line in self._path.read_text().splitlines() if line.startswith(first)]


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
    name: str = "level"
    storage: str = ""

    def __post_init__(self) -> None:
        self.task = small_task()
        self.storage = self.storage or str(self.folder / "optuna.log")
        sampler = sampler_of(self.sampler, stage="fine", seed=0)
        self.study = open_study(storage_of(self.storage, self.folder), self.name, sampler, pruner_of(self.pruner))
        self.tuned = Tuned(self.approach, metric=self.metric, pruner=self.pruner, storage=self.storage)
        hyperparameters = resolve_hyperparameters(self.approach, self.base)
        self.job = Job(self.tuned, self.task, hyperparameters, "", "cpu", self.folder)
        key = search_key(self.task, self.approach, model_revision="none", numerics={}, metric=self.metric)
        self.maker = TrialMaker(self.approach, self.base, key, self.name, seeds_of(self.configurations))
        self.trace = Trace(self.folder)


def space_of(text: str) -> SearchSpace:
    approach = Climb()
    return SearchSpace.of(approach, resolve_hyperparameters(approach, {}), text)


def seeds_of(configurations: int, root: int = 0) -> tuple[dict[str, int], ...]:
    return tuple(
        {factor: configuration_seed(root, factor, GOLDEN_BASE + number) for factor in Climb().factors}
        for number in range(configurations)
    )

"""An approach with a known best setting, that leaves a trace of everything it does. Workers of a search import this."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_l3d.approaches.base import Approach, CellwiseSession
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task

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
    self_tested: bool = False
    reports_epochs: bool = True
    seconds: float = 0.0
    many: int = 1
    hang_at: int = 0
    """The training with this number, of all that left a trace, does not end."""

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
            if self.approach.hang_at and epoch == 1 and self.trace.number(cell.key) == self.approach.hang_at:
                time.sleep(3600)
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
        whole = self._path.read_text().split("\n")[:-1]  # the last one may be under way
        return [line.split() for line in whole if line.startswith(first)]

    def trained(self) -> list[str]:
        """Return the key of every training that began, in their order."""
        return [key for _, key, epoch in self.lines("epoch") if epoch == "0"]

    def number(self, key: str) -> int:
        """Return the place, from 1, of the latest training with this key among all."""
        return max(place for place, each in enumerate(self.trained(), start=1) if each == key)

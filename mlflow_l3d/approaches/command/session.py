"""The cells of a command: what a run of it wrote, as an outcome."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mlflow_l3d.approaches.base import CellwiseSession
from mlflow_l3d.approaches.command.written import Written
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.tasks.answers import Classes
from mlflow_l3d.tasks.base import Task

_log = logging.getLogger(__name__)


class CommandSession(CellwiseSession):
    """Runs a command for one cell after the other.

    Parameters
    ----------
    execute
        Seeds -> what a run with them wrote.
    what, metric, task
        What errors call the command, its score, and its task.
    """

    def __init__(self, execute: Callable[[Mapping[str, int]], Written], what: str, metric: str, task: Task) -> None:
        self.execute, self.what, self.metric, self.task = execute, what, metric, task
        self.seen: dict[Any, str] = {}
        self.told = False

    def run_cell(self, cell: Cell) -> Outcome:
        """Run the command of a cell."""
        written = self.execute(cell.seeds)
        return replace(self._outcome(cell, written), logged=written.logged)

    def _outcome(self, cell: Cell, written: Written) -> Outcome:
        names, what, unclassed = self.task.class_names, self.what, not self.task.form.has_classes
        if written.labels is None or written.predictions is None or written.ids is None:
            if names or unclassed:
                expected = f"{self.task.form.words} to predict" if unclassed else f"classes {'|'.join(names)}"
                raise L3DError(f"{what} wrote no predictions, and has {expected}")
            if self.metric not in written.metrics:
                raise L3DError(f"{what} wrote no {self.metric}, but {', '.join(sorted(written.metrics))}")
            return Outcome(cell.key, metrics=written.metrics)
        if unclassed:
            try:
                held = written.as_numbers() if self.task.form.has_numbers else written
            except ValueError:
                raise L3DError(f"{what} wrote predictions that are no numbers, and its task is a regression") from None
            self._check_ids(held)
            return Outcome(cell.key, held.ids, held.labels, held.predictions, metrics=held.metrics)
        if not names:
            raise L3DError(f"{what} wrote predictions; with classes=none it must write metrics only")
        answers, truth = written.predictions.tolist(), written.labels.tolist()
        classes = Classes.named(names)
        labels, predictions = classes.numbers(truth), classes.numbers(answers)
        unknown = classes.strangers(truth, [*answers, *written.scores])
        if unknown and written.has_numbers:
            fix = "name them by hyperparameters.classes=numbers, or write class names"
            raise L3DError(f"{what} wrote decimal numbers, and its task has classes: {fix}")
        if unknown:
            expected = f"classes are {'|'.join(names)}"
            raise L3DError(f"{what} wrote class {unknown[0]}, and {expected}: name all with hyperparameters.classes")
        if (predictions == UNPARSED).all():
            raise L3DError(f"{what}: {classes.mismatch(answers)}. Spell them alike")
        if not self.told:
            for remark in classes.remarks(truth, Counter(answers)):
                self.told = True
                _log.warning("%s", remark)
        self._check_ids(replace(written, labels=labels))
        scores = None
        if written.scores:
            columns = dict(zip(classes.numbers([*written.scores]).tolist(), written.scores.items(), strict=True))
            if missing := [name for place, name in enumerate(names) if place not in columns]:
                raise L3DError(f"{what} wrote scores, and none for class {missing[0]} (score_{missing[0]})")
            scores = np.column_stack([columns[place][1] for place in range(len(names))])
        return Outcome(cell.key, written.ids, labels, predictions, scores, metrics=written.metrics)

    def _check_ids(self, written: Written) -> None:
        """Raise if an id names another example than in a run before, as its label shows."""
        assert written.ids is not None
        assert written.labels is not None
        for number, label in zip(written.ids.tolist(), written.labels.tolist(), strict=True):
            if self.seen.setdefault(number, label) != label:
                what = f"example_id {number} has label {label}, and had {self.seen[number]} in a run before"
                raise L3DError(f"{what}: an id must name the same example in all runs")

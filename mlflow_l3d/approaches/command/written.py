"""What a command wrote: predictions, metrics, or both; and the session that makes outcomes of it."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import CellwiseSession
from mlflow_l3d.cells.cell import Cell, Logged, Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.base import OF_CLASSES, OF_NUMBERS, OF_TEXTS
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.metrics.forms import check_tags, form_of
from mlflow_l3d.tasks.answers import Classes, kind_of, labels_of, text_of
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.table import ROLES, read_columns, roles_of

PREDICTIONS: Final = ("predictions.csv", "predictions.parquet", "predictions.jsonl")
METRICS: Final = "metrics.json"
SAME_EXAMPLES: Final = (
    "an id must name the same example in all runs. Evaluate the same examples in the same order, or give scores alone"
)
"""Ends the error of an id that has another label than in a run before."""
_SCORE: Final = "score_"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """The files of one run of a command.

    Attributes
    ----------
    ids
        Shape (n,), int64 or str; None without predictions.
    labels, predictions
        Shape (n,), texts as they are written (None for an answer that is missing); of a task of texts, tags or rankings
        as :mod:`mlflow_l3d.metrics.forms` says.
    scores
        Name of a class -> shape (n,), float32: columns ``score_<class>``.
    metrics
        Of ``metrics.json``, or those that were logged.
    logged
        What a project logged.
    unused
        Why the file of predictions is not used; empty if it is, or there is none.
    """

    ids: npt.NDArray[np.int64] | npt.NDArray[np.str_] | None = None
    labels: npt.NDArray[Any] | None = None
    predictions: npt.NDArray[Any] | None = None
    scores: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    logged: Logged | None = None
    unused: str = ""

    @cached_property
    def kind(self) -> str:
        """What the predictions are, see :func:`mlflow_l3d.tasks.answers.kind_of`; empty without predictions."""
        if self.labels is None or self.predictions is None:
            return ""
        return kind_of({*self.labels.tolist()}, Counter(self.predictions.tolist()), len(self.labels))

    @property
    def has_numbers(self) -> bool:
        """Whether the predictions are decimal numbers."""
        return self.kind == "regression"

    def as_numbers(self) -> Written:
        """Return it with labels and predictions as numbers; raise a ValueError if one is none."""
        labels, predictions = (
            None if each is None else np.array([float(text or "") for text in each])
            for each in (self.labels, self.predictions)
        )
        return replace(self, labels=labels, predictions=predictions)

    @property
    def classes(self) -> Classes | None:
        """Return the classes of labels, predictions and scores; None without predictions, and of a regression."""
        if self.labels is None or self.predictions is None or self.has_numbers:
            return None
        return Classes.found([{*self.labels.tolist()}], [*self.predictions.tolist(), *self.scores])


@cache
def warn_once(message: str) -> None:
    """Warn once in each process; of the empty text never."""
    if message:
        _log.warning("%s.", message)


def read(folder: Path, kind: str = "") -> Written:
    """Return what a command wrote to a folder, which may be nothing.

    Parameters
    ----------
    folder
        The folder.
    kind
        The kind of its task, if that is known beforehand.

    Raises
    ------
    L3DError
        If it is not what docs/tutorials/script.md says.
    """
    return with_predictions(folder, _metrics(folder / METRICS) if (folder / METRICS).is_file() else {}, kind)


def with_predictions(folder: Path, metrics: dict[str, float], kind: str = "") -> Written:
    """Return metrics, and the predictions of a folder if it has any, as :func:`read`."""
    files = [name for name in PREDICTIONS if (folder / name).is_file()]
    if len(files) > 1:
        raise L3DError(f"there are {' and '.join(files)}: one of them is enough")
    return _predictions(folder / files[0], metrics, kind) if files else Written(metrics=metrics)


def _metrics(path: Path) -> dict[str, float]:
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise L3DError(f"{path.name} is not valid JSON ({error})") from None
    numbers: dict[str, float] = {}
    for name, value in metrics.items() if isinstance(metrics, dict) else ():
        for inner, number in value.items() if isinstance(value, dict) else [("", value)]:
            whole = f"{name}/{inner}".rstrip("/")
            if isinstance(number, int | float) and not isinstance(number, bool):
                if not math.isfinite(number):
                    raise L3DError(f"{path.name}: {whole} is {number!r}, not a finite number")
                numbers[whole] = float(number)
    if not numbers:
        raise L3DError(f"{path.name} must map names to numbers")
    return numbers


def _predictions(path: Path, metrics: dict[str, float], kind: str) -> Written:
    try:
        columns = read_columns(path)
    except L3DError as error:
        return Written(metrics=metrics, unused=f"{path.name} is not used: {error}")
    roles = roles_of(columns)
    if missing := [f"{role} (or {', '.join(others)})" for role, (_, *others) in ROLES.items() if role not in roles]:
        lacks = f"it has {', '.join(list(columns)[:10]) or 'no column'}, and lacks {' and '.join(missing)}"
        return Written(metrics=metrics, unused=f"{path.name} is not used: {lacks}. Rename its columns")
    columns |= {role: columns[name] for role, name in roles.items()}
    ids = columns["example_id"]
    if not ids:
        raise L3DError(f"{path.name} has no row")
    of_texts = bool(kind) and kind not in (*OF_CLASSES, *OF_NUMBERS)
    labels = columns["label"] if of_texts else labels_of(columns["label"])
    for name, values in (("example_id", ids), *(() if of_texts else (("label", labels),))):
        if (row := next((row for row, value in enumerate(values) if value is None), None)) is not None:
            raise L3DError(f"{path.name}: {name} is missing in row {row + 1}")
    whole = all(_is_id(str(value)) for value in ids)
    numbers = np.array([int(value) for value in ids], dtype=np.int64) if whole else np.array(list(map(str, ids)))
    twice, times = Counter(numbers.tolist()).most_common(1)[0]
    if times > 1:
        raise L3DError(f"{path.name}: example_id {twice} stands there twice")
    if of_texts:
        form = form_of(kind)
        try:
            # An empty text is an answer, too; of a label it is an error.
            empty = "" if kind in OF_TEXTS else None
            answers = [empty if value is None else value for value in columns["prediction"]]
            truth = form.labels(["" if value is None else value for value in labels])
            predictions = form.predictions(answers)
            if form.has_tags:
                check_tags(truth, predictions)
            return Written(numbers, truth, predictions, metrics=metrics)
        except ValueError as error:
            raise L3DError(f"{path.name}: {error}") from None
    scores = {}
    for name in (column for column in columns if column.startswith(_SCORE)):
        try:
            scores[name.removeprefix(_SCORE)] = np.array([float(value) for value in columns[name]], dtype=np.float32)
        except (TypeError, ValueError):
            raise L3DError(f"{path.name}: {name} must hold numbers") from None
        if np.isnan(scores[name.removeprefix(_SCORE)]).any():
            raise L3DError(f"{path.name}: {name} must hold numbers")
    both = (labels, map(text_of, columns["prediction"]))
    truth, guess = (np.array([*values, None], dtype=object)[:-1] for values in both)
    return Written(numbers, truth, guess, scores, metrics)


def _is_id(text: str) -> bool:
    """Return whether a text is a number of 64 bits as it is written: ``01`` and ``1`` are two ids."""
    return text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 19 and str(int(text)) == text


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
                because = f" ({written.unused})" if written.unused else ""
                raise L3DError(f"{what} wrote no predictions{because}, and has {expected}")
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
                raise L3DError(f"{what}: {SAME_EXAMPLES}")

"""What a command wrote: predictions, metrics, or both; and the session that makes outcomes of it."""

from __future__ import annotations

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import CellwiseSession
from mlflow_l3d.approaches.command.template import Output, last_lines
from mlflow_l3d.cells.cell import Cell, Logged, Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.base import OF_CLASSES, OF_NUMBERS, OF_TEXTS
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.metrics.forms import check_tags, form_of
from mlflow_l3d.tasks.answers import Classes, kind_of, labels_of, text_of
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray
from mlflow_l3d.tasks.table import ROLES, read_columns, roles_of

PREDICTIONS: Final = ("predictions.csv", "predictions.parquet", "predictions.jsonl")
METRICS: Final = "metrics.json"
SAME_EXAMPLES: Final = (
    "an id must name the same example in all runs. Evaluate the same examples in the same order, or give scores alone"
)
"""Ends the error of an id that has another label than in a run before."""
_SCORE: Final = "score_"
_ID: Final = re.compile("0|[1-9][0-9]{0,17}|-[1-9][0-9]{0,16}")
"""A number of 64 bits as it is written: ``01`` and ``1`` are two ids."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """The files of one run of a command.

    Attributes
    ----------
    ids
        Shape (n,), int64 or str; empty without predictions.
    labels, predictions
        Length n, texts as they are written (None for an answer that is missing); of a task of texts, tags or rankings
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

    ids: Any = ()
    labels: Any = ()
    predictions: Any = ()
    scores: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    logged: Logged | None = None
    unused: str = ""

    @cached_property
    def kind(self) -> str:
        """What the predictions are, see :func:`mlflow_l3d.tasks.answers.kind_of`; empty without predictions."""
        return kind_of({*self.labels}, Counter(self.predictions), len(self.ids)) if len(self.ids) else ""

    @property
    def classes(self) -> Classes | None:
        """Return the classes of labels, predictions and scores; None without predictions, and of a regression."""
        if self.kind in ("", "regression"):
            return None
        return Classes.found([{*self.labels}], [*self.predictions, *self.scores])


@cache
def warn_once(message: str) -> None:
    """Warn once in each process; of the empty text never."""
    if message:
        _log.warning("%s.", message)


def read(folder: Path, kind: str = "", metrics: Mapping[str, float] | None = None) -> Written:
    """Return what a command wrote to a folder, which may be nothing.

    Parameters
    ----------
    folder
        The folder.
    kind
        The kind of its task, if that is known beforehand.
    metrics
        In place of those in the folder.

    Raises
    ------
    L3DError
        If it is not what docs/tutorials/script.md says.
    """
    if metrics is None:
        metrics = _metrics(folder / METRICS) if (folder / METRICS).is_file() else {}
    files = [name for name in PREDICTIONS if (folder / name).is_file()]
    if len(files) > 1:
        raise L3DError(f"there are {' and '.join(files)}: one of them is enough")
    if not files:
        return Written(metrics=metrics)
    try:
        return replace(_predictions(folder / files[0], kind), metrics=metrics)
    except ValueError as error:
        raise L3DError(f"{files[0]}: {error}") from None


def _metrics(path: Path) -> dict[str, float]:
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise L3DError(f"{path.name} is not valid JSON ({error})") from None
    numbers: dict[str, float] = {}
    # Deeper numbers may be of a history or of settings: they are left out.
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


def _predictions(path: Path, kind: str) -> Written:
    """Return the predictions of a file; a ValueError says what is wrong with it."""
    try:
        columns = read_columns(path)
    except L3DError as error:
        return Written(unused=f"{path.name} is not used: {error}")
    roles = roles_of(columns)
    if missing := [f"{role} (or {', '.join(others)})" for role, (_, *others) in ROLES.items() if role not in roles]:
        lacks = f"it has {', '.join(list(columns)[:10]) or 'no column'}, and lacks {' and '.join(missing)}"
        return Written(unused=f"{path.name} is not used: {lacks}. Rename its columns")
    ids, labels, answers = (columns[roles[role]] for role in ROLES)
    of_texts = bool(kind) and kind not in (*OF_CLASSES, *OF_NUMBERS)
    labels = labels if of_texts else labels_of(labels)
    if not ids:
        raise ValueError("it has no row")
    for name, values in {"example_id": ids, "label": [] if of_texts else labels}.items():
        if None in values:
            raise ValueError(f"{name} is missing in row {values.index(None) + 1}")
    texts = list(map(str, ids))
    numbers = np.array(list(map(int, texts)), dtype=np.int64) if all(map(_ID.fullmatch, texts)) else np.array(texts)
    twice, times = Counter(numbers.tolist()).most_common(1)[0]
    if times > 1:
        raise ValueError(f"example_id {twice} is listed twice")
    if of_texts:
        form = form_of(kind)
        # An empty text is an answer, too; of a label it is an error.
        empty = "" if kind in OF_TEXTS else None
        truth = form.labels(["" if value is None else value for value in labels])
        predictions = form.predictions([empty if value is None else value for value in answers])
        if form.has_tags:
            check_tags(truth, predictions)
        return Written(numbers, truth, predictions)
    scores = {}
    for name in (column for column in columns if column.startswith(_SCORE)):
        try:
            scores[name.removeprefix(_SCORE)] = column = np.array(columns[name], dtype=np.float64).astype(np.float32)
        except (TypeError, ValueError):
            column = np.array(np.nan)
        if np.isnan(column).any():
            raise ValueError(f"{name} must hold numbers")
    return Written(numbers, labels, list(map(text_of, answers)), scores)


@dataclass
class CommandSession(CellwiseSession):
    """Runs a command for one cell after the other.

    Attributes
    ----------
    execute
        Seeds -> what a run with them wrote.
    what, metric, task
        What errors call the command, its score, and its task.
    at_end
        Called when the session is closed, if there is something to do.
    seen, told
        Example -> its label in the runs so far, and whether remarks on classes were made.
    """

    execute: Callable[[Mapping[str, int]], Written]
    what: str
    metric: str
    task: Task
    at_end: Callable[[], None] | None = None
    seen: dict[Any, str] = field(default_factory=dict)
    told: bool = False

    def close(self) -> None:
        """Do what there is to do at the end."""
        if self.at_end is not None:
            self.at_end()
        super().close()

    def run_cell(self, cell: Cell) -> Outcome:
        """Run the command of a cell."""
        written, form, what = self.execute(cell.seeds), self.task.form, self.what
        if not len(written.ids):
            if self.task.class_names or not form.has_classes:
                names = "|".join(self.task.class_names)
                expected = f"classes {names}" if form.has_classes else f"{form.words} to predict"
                because = f" ({written.unused})" if written.unused else ""
                raise L3DError(f"{what} wrote no predictions{because}, and has {expected}")
            if self.metric not in written.metrics:
                raise L3DError(f"{what} wrote no {self.metric}, but {', '.join(sorted(written.metrics))}")
            return Outcome(cell.key, metrics=written.metrics, logged=written.logged)
        labels, predictions, scores = written.labels, written.predictions, None
        if form.has_numbers:
            try:
                labels, predictions = (np.array([float(text or "") for text in each]) for each in (labels, predictions))
            except ValueError:
                raise L3DError(f"{what} wrote predictions that are no numbers, and its task is a regression") from None
        elif form.has_classes:
            labels, predictions, scores = self._in_classes(written)
        for number, label in zip(np.asarray(written.ids).tolist(), np.asarray(labels).tolist(), strict=True):
            if self.seen.setdefault(number, label) != label:
                different = f"example_id {number} has label {label}, and had {self.seen[number]} in a run before"
                raise L3DError(f"{different}: {SAME_EXAMPLES}")
        outcome = Outcome(cell.key, written.ids, labels, predictions, scores, metrics=written.metrics)
        return replace(outcome, logged=written.logged)

    def _in_classes(self, written: Written) -> tuple[IntArray, IntArray, npt.NDArray[np.float32] | None]:
        """Return class numbers of labels and predictions, and class scores if there are any."""
        names, what, answers = self.task.class_names, self.what, written.predictions
        if not names:
            raise L3DError(f"{what} wrote predictions; with classes=none it must write metrics only")
        classes = Classes.named(names)
        labels = classes.numbers(written.labels)
        predictions = classes.numbers(answers)
        unknown = classes.strangers(written.labels, [*answers, *written.scores])
        if unknown and written.kind == "regression":
            fix = "name them by hyperparameters.classes=numbers, or write class names"
            raise L3DError(f"{what} wrote decimal numbers, and its task has classes: {fix}")
        if unknown:
            expected = f"classes are {'|'.join(names)}"
            raise L3DError(f"{what} wrote class {unknown[0]}, and {expected}: name all with hyperparameters.classes")
        if (predictions == UNPARSED).all():
            raise L3DError(f"{what}: {classes.mismatch(answers)}. Spell them alike")
        for remark in [] if self.told else classes.remarks(written.labels, Counter(answers)):
            self.told = True
            _log.warning("%s", remark)
        if not written.scores:
            return labels, predictions, None
        columns = dict(zip(classes.numbers([*written.scores]).tolist(), written.scores.values(), strict=True))
        if missing := [name for place, name in enumerate(names) if place not in columns]:
            raise L3DError(f"{what} wrote scores, and none for class {missing[0]} (score_{missing[0]})")
        return labels, predictions, np.column_stack([columns[place] for place in range(len(names))])


def without_score(printed: Output, unused: str) -> str:
    """Return what a command did that gave no score, and what to do; `unused` is why its predictions are not read."""
    lines = " / ".join(last_lines(printed.stdout.strip() or printed.stderr, 3))
    looked = f"and its {unused}" if unused else f"and wrote neither {', '.join(PREDICTIONS)} nor {METRICS}"
    ended = f"it ended with: {lines}" if lines else "it printed nothing"
    fix = f"Print one, such as accuracy: 0.87 (decimals with a point), or write it to {{output}}/{METRICS}"
    return f"printed no score (name: value), {looked}; {ended}. {fix}"

"""The kind of the answers of recorded runs: classes, numbers or texts; and scores in percent as fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import OF_CLASSES, OF_NUMBERS
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.metrics.known import is_share, named
from mlflow_l3d.studies.importing.recorded import Array, RecordedRun
from mlflow_l3d.studies.request import class_words
from mlflow_l3d.tasks.answers import Classes, kind_of, plain_number

_SPELL = "Spell them alike; if they are right, name all classes, --classes a|b; --task-kind regression reads numbers."


def with_kinds(
    runs: Sequence[RecordedRun], task_kind: str, classes: str
) -> tuple[list[RecordedRun], list[str], list[str]]:
    """Return the runs with answers in the form of their kind, one line for each run without this form, and notes.

    Runs have answers as texts, and no kind, only if their tool does not record the kind.
    """
    raw = [run for run in runs if not run.kind and run.labels is not None]
    if not raw:
        if (task_kind, classes) != ("auto", "auto"):
            name, value = ("classes", classes) if task_kind == "auto" else ("task_kind", task_kind)
            raise ParameterError(name, value, "has no effect: every file records the kind of its answers")
        return list(runs), [], []
    labels = [[str(label) for label in _of(run.labels)] for run in raw]
    every, answers = {*chain.from_iterable(labels)}, Counter(chain.from_iterable(_of(run.predictions) for run in raw))
    names = tuple(part.strip() for part in classes.split("|")) if classes != "auto" else ()
    kind = "classification" if names and task_kind == "auto" else task_kind
    kind = kind_of(every, answers, max(map(len, labels))) if kind == "auto" else kind
    read_as: Classes | None = None
    notes = [f"Read as {kind}{', which are compared literally' if kind == 'texts' else ''}."]
    if kind in OF_CLASSES:
        read_as = Classes.named(names, every) if names else Classes.found([{*run} for run in labels], answers)
        notes = [f"Read as {kind} with the classes {class_words(read_as.names)}."]
        notes += read_as.remarks(chain.from_iterable(labels), answers)
    problems, sound = [], []
    for run in runs:
        try:
            is_raw = not run.kind and run.labels is not None
            sound.append(_read(run, kind, read_as, are_named=bool(names)) if is_raw else run)
        except ValueError as error:
            problems.append(f"{run.source}: {error}")
    return sound, problems, notes


def _of(values: Array | None) -> list[Any]:
    return [] if values is None else values.tolist()


def _read(run: RecordedRun, kind: str, classes: Classes | None, *, are_named: bool) -> RecordedRun:
    """Return a run with answers in the form of a kind; raise a ValueError if an answer does not have it."""
    labels, answers = _of(run.labels), _of(run.predictions)
    if classes is not None:
        if are_named and (unknown := classes.strangers(labels, ())):
            raise ValueError(f"has the label {unknown[0]!r}, which --classes does not name.")
        numbers = classes.numbers(answers)
        if not (are_named and (numbers >= 0).any()) and (problem := classes.mismatch(answers)):
            raise ValueError(f"{problem}. {_SPELL}")
        return replace(run, kind=kind, classes=classes.names, labels=classes.numbers(labels), predictions=numbers)
    if kind == "texts":
        right = float(np.mean([answer == label for answer, label in zip(answers, labels, strict=True)]))
        return replace(run, kind="multiple_choice", scores={**run.scores, "accuracy": right})
    if kind in OF_NUMBERS:
        for name, values in (("label", labels), ("prediction", answers)):
            bad = [place for place, value in enumerate(values) if value is None or plain_number(value) is None]
            if bad and run.ids is not None:
                raise ValueError(f"the {name} of example {run.ids[bad[0]]} is not a number ({len(bad)} are not).")
        truth, guess = (np.array(values, dtype=np.float64) for values in (labels, answers))
        return replace(run, kind=kind, labels=truth, predictions=guess)
    form = form_of(kind)
    predictions = form.predictions([answer or "" for answer in answers])
    return replace(run, kind=kind, labels=form.labels(labels), predictions=predictions)


def as_fractions(runs: Sequence[RecordedRun]) -> tuple[list[RecordedRun], list[str]]:
    """Return the runs with scores in percent as fractions, and one note for each such metric.

    A metric is in percent if one of its scores is above 1 and none above 100; of a metric that may lie outside 0
    to 1 all must be above 1.

    Raises
    ------
    ParameterError
        If a metric that lies between 0 and 1 has scores of both kinds, or above 100.
    """
    notes, percent = [], set()
    for name in dict.fromkeys(name for run in runs for name in run.scores):
        values = np.array([run.scores[name] for run in runs if name in run.scores])
        low, high = float(np.abs(values).min()), float(np.abs(values).max())
        if high <= 1 or not named(name).percent:
            continue
        if is_share(name) and (high > 100 or ((values != 0) & (np.abs(values) <= 1)).any()):
            allowed = f"has scores from {values.min():g} to {high:g}, which are neither fractions nor percent"
            raise ParameterError("metric", name, allowed, "Write all of them as fractions (0 to 1).")
        if not is_share(name) and (low <= 1 or high > 100 or values.min() < 0):
            continue
        percent.add(name)
        notes.append(f"{name}, from {values.min():g} to {values.max():g}, is read as percent.")
    if not percent:
        return list(runs), []
    scaled = [{name: value / 100 if name in percent else value for name, value in run.scores.items()} for run in runs]
    return [replace(run, scores=scores) for run, scores in zip(runs, scaled, strict=True)], notes

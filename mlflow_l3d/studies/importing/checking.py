"""Checks of recorded runs, and the kind of their answers: each problem is one line, and its run is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.forms import check_tags, form_of
from mlflow_l3d.metrics.known import is_share, named, scores_of
from mlflow_l3d.parameters.values import check_names
from mlflow_l3d.report.source import class_words
from mlflow_l3d.studies.groups.numbers.grouping import chosen_runs, params_of
from mlflow_l3d.studies.importing import Array, RecordedRun
from mlflow_l3d.studies.importing.formats import FORMATS
from mlflow_l3d.studies.importing.formats.models import LOG_SAMPLES
from mlflow_l3d.tasks.answers import Classes, kind_of, plain_number

_CORRECT: Final = "Correct it, or take the example away from all runs."


def read_runs(path: Path, source: str, columns: Mapping[str, str], metric: str) -> tuple[list[RecordedRun], list[str]]:
    """Return all runs of a file or folder, and one line for each file or run that cannot be read.

    Raises
    ------
    ParameterError
        If there is no file of the tool.
    """
    form = FORMATS[source]
    files = sorted({file for pattern in form.patterns for file in path.rglob(pattern)}) if path.is_dir() else [path]
    if not files or not (source == "csv" or any(map(files[0].match, form.patterns))):
        allowed = f"holds no file that {source} writes ({', '.join(form.patterns)})"
        fix = LOG_SAMPLES if source == "lm-eval" else "Name another folder, or another --from."
        raise ParameterError("source", path, allowed, fix)
    runs: list[RecordedRun] = []
    problems = []
    for file in files:
        try:
            read = form.read(file, columns, metric)
            runs += [each for each in read if isinstance(each, RecordedRun)]
            problems += [str(each) for each in read if isinstance(each, L3DError)]
        except ParameterError:
            raise
        except L3DError as error:
            problems.append(str(error))
    return runs, problems


def chosen(runs: Sequence[RecordedRun], tasks: str, only: Mapping[str, str]) -> list[RecordedRun]:
    """Return the requested runs: those of one task, or of several variants of one task, with the given settings.

    Raises
    ------
    ParameterError
        If there are several tasks and none is named, a task is missing, or no run has the settings.
    """
    available = sorted({run.task for run in runs})
    if tasks == "auto" and len(available) > 1:
        fix = f"Name one, --task {available[0]}, or variants with the same examples: --task {','.join(available[:2])}."
        raise ParameterError("task", "auto", f"there are runs of {len(available)} tasks, {', '.join(available)}", fix)
    names = available if tasks == "auto" else [name.strip() for name in tasks.split(",")]
    check_names("task", names, available)
    kept = [run for run in runs if run.task in names]
    if not only:
        return kept
    settings = params_of(pd.DataFrame([run.settings for run in kept]))
    return [*compress(kept, chosen_runs(settings, only))]


def checked(
    runs: Sequence[RecordedRun], metric: str, task_kind: str, classes: str
) -> tuple[list[RecordedRun], Metric, list[str], list[str]]:
    """Return the runs that can be compared, the metric, one line for each other run, and notes.

    Runs are compared on the examples that most of them share.
    """
    defects = [_defect(run) for run in runs]
    problems = [f"{run.source}: {defect}" for run, defect in zip(runs, defects, strict=True) if defect]
    sound = [run for run, defect in zip(runs, defects, strict=True) if not defect]
    sound, wrong, remarks = with_kinds(sound, task_kind, classes) if sound else ([], [], [])
    problems += wrong
    kept, notes = _once(_with_most(sound, problems))
    kept, percent = as_fractions([_scored(run, classes_named=classes != "auto") for run in kept])
    headline = named(next(iter(kept[0].scores), "") if metric == "auto" and kept else metric)
    if kept:
        check_names("metric", [headline.name], {name for run in kept for name in run.scores}, "one that the runs have:")
    is_scored = [headline.name in run.scores and np.isfinite(run.scores[headline.name]) for run in kept]
    lacking = [run for run, scored in zip(kept, is_scored, strict=True) if not scored]
    problems += [f"{run.source}: has no {headline}, or it is not a number." for run in lacking]
    # Without predictions the metric determines the kind.
    whole = [replace(run, kind=run.kind or headline.kinds[0]) for run in compress(kept, is_scored)]
    return whole, headline, problems, [*notes, *remarks, *percent]


def _defect(run: RecordedRun) -> str:
    """Return the first defect of a run considered alone; the empty text if it has none."""
    if missing := [name for name, value in run.scores.items() if not np.isfinite(value)]:
        return f"its {missing[0]} is not a number (NaN). Evaluate it again."
    if run.ids is None or run.labels is None or run.predictions is None:
        return "" if run.scores else "has neither scores nor predictions."
    if not len(run.ids):
        return "has no examples."
    counts = pd.Series(run.ids).value_counts()
    if (more := int((counts > 1).sum())) > 0:
        times = f"occurs {counts.iloc[0]} times ({more} examples do so)"
        return f"example {counts.index[0]} {times}. An id must occur once in a run."
    for name, values in (("label", run.labels), ("prediction", run.predictions)):
        bad = run.ids[~np.isfinite(values)] if values.dtype.kind == "f" else run.ids[:0]
        if len(bad):
            return f"the {name} of example {bad[0]} is not a number (NaN; {len(bad)} are not). {_CORRECT}"
    lacking = run.ids[pd.isna(run.labels)]
    return f"example {lacking[0]} has no label ({len(lacking)} have none). {_CORRECT}" if len(lacking) else ""


def _with_most(runs: Sequence[RecordedRun], problems: list[str]) -> list[RecordedRun]:
    """Return the runs with the most common examples; add a problem for each other run."""
    parts: dict[str, list[RecordedRun]] = {}
    for run in runs:
        parts.setdefault(run.examples, []).append(run)
    most, *rest = sorted(parts.values(), key=len, reverse=True) or [[]]
    for run in chain.from_iterable(rest):
        difference = _difference(run, most[0])
        problems.append(f"{run.source}: {difference} of {len(most)} other runs. Evaluate it by itself.")
    return most


def _difference(run: RecordedRun, other: RecordedRun) -> str:
    if run.ids is None or other.ids is None or run.labels is None or other.labels is None:
        return "has no predictions, unlike those" if run.ids is None else "has predictions, unlike those"
    sides = {"lacks": np.setdiff1d(other.ids, run.ids), "has in addition": np.setdiff1d(run.ids, other.ids)}
    if parts := [f"{what} {len(names)} ({names[0]}, ...)" for what, names in sides.items() if len(names)]:
        return f"has other examples ({'; '.join(parts)}) than those"
    labels = pd.Series(other.labels, other.ids)[run.ids].to_numpy()
    differ = run.ids[labels != run.labels]
    return f"has another label of {len(differ)} examples ({differ[0]}, ...) than those"


def _once(runs: Iterable[RecordedRun]) -> tuple[list[RecordedRun], list[str]]:
    """Return each run once, and one note for each repetition that names both files."""
    firsts: dict[str, RecordedRun] = {}
    same = [(run, firsts.setdefault(run.key, run)) for run in runs]
    notes = [
        f"{run.source} is the same run as {first.source}, and left out." for run, first in same if run is not first
    ]
    return list(firsts.values()), notes


def _scored(run: RecordedRun, *, classes_named: bool = False) -> RecordedRun:
    """Return a run with the metrics of its kind, computed from its predictions; the tool's own come first.

    Macro averages are over the classes that the user names, else over those of the run's own labels and predictions, as
    in scikit-learn: predictions of other runs change nothing. Answers that are texts have no classes to average over;
    the tool or equality decides which of them are right.
    """
    if run.labels is None or run.predictions is None or (run.labels.dtype == object and form_of(run.kind).has_classes):
        return run
    scores = scores_of(run.labels, run.predictions, run.kind, classes=len(run.classes) if classes_named else None)
    return replace(run, scores={**run.scores, **scores, **run.scores})


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
    every = {*chain.from_iterable(labels)}
    answers = Counter(chain.from_iterable(_of(run.predictions) for run in raw))
    names = tuple(part.strip() for part in classes.split("|")) if classes != "auto" else ()
    kind = "classification" if names and task_kind == "auto" else task_kind
    kind = kind_of(every, answers, max(map(len, labels))) if kind == "auto" else kind
    read_as: Classes | None = None
    notes = [f"Read as {kind}{', which are compared literally' if kind == 'texts' else ''}."]
    if form_of(kind).has_classes and kind != "texts":
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
            fix = "Spell them alike, or name all classes, --classes a|b; --task-kind regression reads numbers."
            raise ValueError(f"{problem}. {fix}")
        return replace(run, kind=kind, classes=classes.names, labels=classes.numbers(labels), predictions=numbers)
    if kind == "texts":
        right = float(pd.Series(labels).eq(pd.Series(answers)).mean())
        return replace(run, kind="multiple_choice", scores={**run.scores, "accuracy": right})
    form = form_of(kind)
    if form.has_numbers:
        for name, values in (("label", labels), ("prediction", answers)):
            bad = [place for place, value in enumerate(values) if value is None or plain_number(value) is None]
            if bad and run.ids is not None:
                value = "empty" if values[bad[0]] is None else f"{values[bad[0]]!r}, not a number"
                raise ValueError(f"the {name} of example {run.ids[bad[0]]} is {value} ({len(bad)} such). {_CORRECT}")
        truth, guess = (np.array(values, dtype=np.float64) for values in (labels, answers))
        return replace(run, kind=kind, labels=truth, predictions=guess)
    truth = form.labels(labels)
    predictions = form.predictions([answer or "" for answer in answers])
    if form.has_tags:
        check_tags(truth, predictions)
    return replace(run, kind=kind, labels=truth, predictions=predictions)


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
    scaled = [{name: value / (100 if name in percent else 1) for name, value in run.scores.items()} for run in runs]
    return [replace(run, scores=scores) for run, scores in zip(runs, scaled, strict=True)], notes

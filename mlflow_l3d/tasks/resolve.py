"""A task by the name that the user typed, with its settings, remarks, and factors that would have no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from mlflow_l3d import registry
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import L3DError, ParameterError, leave_out, unknown_name
from mlflow_l3d.metrics.classification import hardly_tested
from mlflow_l3d.tasks.base import Task, evaluated_part, no_predefined_split, predefined_split
from mlflow_l3d.tasks.files import PREFIX, SUFFIXES, load_data, load_file, load_folder, load_from_hub
from mlflow_l3d.tasks.identity import OwnData, checked, is_whole, shorten, typed_path
from mlflow_l3d.tasks.kinds import USUAL, Reading
from mlflow_l3d.tasks.settings import IntArray, SplitSettings
from mlflow_l3d.tasks.splits import DEFAULT_SIZE, Quotas, quotas

ReadTask: TypeAlias = Callable[[str, Reading], Task]


def load_task(
    name: str,
    reading: Reading = USUAL,
    *,
    settings: SplitSettings | None = None,
    read: ReadTask | None = None,
    data: object = None,
) -> Task:
    """Return the task that `name` stands for, checked, with `settings` bound to it.

    Parameters
    ----------
    name
        An entry point of the group ``mlflow_l3d.tasks``; else a .csv, .tsv, .parquet or .jsonl file; a folder with a
        data set; or ``hf:NAME[/CONFIG]``.
    reading
        Which columns are read of the user's data, and how; the tasks of this package refuse other columns and kinds
        than the defaults. The settings decide whether the published parts are read.
    settings
        How many examples a split draws, or that the task's own split is used; the defaults if None.
    read, data
        Reads the data in place of :func:`read_task`, for a caller that keeps earlier data; or the data themselves.

    Raises
    ------
    ParameterError
        If the name stands for nothing, the data is not usable, it is too small for the settings, or it has no split of
        its own and they ask for it.
    L3DError
        If the package that holds the data is missing, or the hub cannot be reached.
    """
    settings = settings or SplitSettings()
    if settings.source == "own":
        reading = replace(reading, predefined_split=True, numbered_choices=True)
    read = read or (read_task if data is None else partial(load_data, data))
    return _bound(read(name, reading), settings)


def bind_task(task: Task, settings: SplitSettings) -> Task:
    """Return a task that a user made in Python, prepared as by :func:`load_task`: checked, with its true fingerprint.

    A task whose split is drawn loses its parts: they decide nothing then, and other parts give the same cells.

    Raises
    ------
    ParameterError
        If it is too small for the settings, or they ask for a split of its own and it has none.
    L3DError
        As :func:`mlflow_l3d.tasks.identity.check`.
    """
    return _bound(_usable(checked(task), predefined_split=settings.source == "own"), settings)


def _bound(task: Task, settings: SplitSettings) -> Task:
    """Return a task with other settings, and the remarks that they bring."""
    bound = replace(task, settings=settings)
    notes = [f"{task.name}: {note}" for note in _size_notes(bound)]
    return replace(bound, notes=(*task.notes, *(note for note in notes if note not in task.notes)))


def inactive_factors(task: Task) -> Mapping[str, str]:
    """Return the factors of the task that have no effect, each with the reason and the fix."""
    if isinstance(task, OwnData):
        return {}
    if task.settings.source == "own":
        why = f"{task.name} is used with its own train and validation parts, so there is nothing to draw"
        return dict.fromkeys(TASK_FACTORS, f"{why}: use a drawn split")
    sizes, settings = _sizes(task), task.settings
    inactive = {}
    fixed = settings.test_selection == "fixed"
    if np.array_equal(sizes.labelled, sizes.train_part) and (fixed or np.array_equal(sizes.test, sizes.test_part)):
        rest = "the test set is fixed" if fixed else "every test example is evaluated"
        inactive["label_selection"] = (
            f"every training example of {task.name} is labelled and {rest}, so there is nothing to select: "
            f"lower num_labelled{'' if fixed else ' or test_size'}"
        )
    if not sizes.test_part.any() and np.array_equal(sizes.train, sizes.labelled):
        inactive["data_split"] = (
            f"the test set is fixed and {task.name} is too small to leave anything to divide: use a larger data set"
        )
    return inactive


def read_task(name: str, reading: Reading) -> Task:
    """Return the task that `name` stands for with default settings, checked; arguments as for :func:`load_task`."""
    names = registry.names("task")
    if name in names:
        task = registry.load("task", name)(reading.options())
        if not isinstance(task, Task):
            raise L3DError(f"task={name}: its loader returned {type(task).__name__}, not a Task.")
        return _usable(task if is_whole(task) else checked(task), predefined_split=reading.predefined_split)
    if name.startswith(PREFIX):
        return load_from_hub(name, reading)
    path = typed_path("task", name, "is not a task")
    if path.suffix.lower() in SUFFIXES and not path.is_dir():
        return load_file(path, reading)
    if name and path.is_dir():
        return load_folder(path, reading)
    error = unknown_name("task", name, names)
    files = path.parent.glob("*") if path.suffix and path.parent.is_dir() else ()
    similar = unknown_name("task", name, [str(each) for each in files if each.suffix.lower() in SUFFIXES])
    more = "or a .csv, .tsv, .parquet or .jsonl file, a folder with a data set, or hf:NAME"
    fix = "Save this file as one of these." if path.is_file() else error.fix or similar.fix
    raise ParameterError("task", repr(shorten(name)), f"{error.allowed}, {more}", fix)


def _usable(task: Task, *, predefined_split: bool) -> Task:
    """Return a task as a study uses it: without parts if the split is drawn."""
    if predefined_split and task.parts is None:
        raise no_predefined_split(task.name, "it has no parts of its own")
    return task if predefined_split or task.parts is None else checked(replace(task, parts=None))


def _sizes(task: Task, settings: SplitSettings | None = None) -> Quotas:
    counts = np.bincount(task.strata, minlength=len(task.strata_names))
    return quotas(counts, settings or task.settings, task.strata_names, task.label_column)


def unused_test_examples(task: Task) -> int | None:
    """Return by how many test examples `test_size` can grow; None without data, or if the task divides them itself."""
    settings, parts = task.settings, task.parts
    if type(task).split is not Task.split or not len(task):
        return None
    if settings.source == "own" and parts is not None:
        pool = int((parts == evaluated_part(parts)).sum()) - settings.reference_size
        return pool - (settings.test_size or pool)
    drawn = _sizes(task, replace(settings, test_selection="label_selection"))  # else without the fixed test set
    return max(len(drawn.test) * int(drawn.test_part.min()) - int(drawn.test.sum()), 0)


def _size_notes(task: Task) -> Iterator[str]:
    """Yield remarks on the reference set, and on parts that are empty or smaller than the default."""
    settings = task.settings
    if settings.reference_size and type(task).split is not Task.split:
        allowed = f"needs a split that keeps the reference set apart, and {task.name} divides in its own way"
        raise ParameterError("reference_size", settings.reference_size, allowed, "Leave it out.")
    if settings.source == "own":
        split = predefined_split(task)
        parts = ((split.train, "train"), (split.validation, "held-out"), (split.scored, "evaluated"))
        sizes = ", ".join(f"{len(part)} {what}" for part, what in parts if len(part))
        of_test = task.parts is not None and evaluated_part(task.parts) == 2
        only = " (of the test part, for there is no validation part)" if of_test else ""
        yield f"its own split is used: {sizes} examples{only}"
        texts = [*zip(*task.texts, *task.choices, strict=True)]
        trained = {texts[at] for at in split.train.tolist()}
        if repeated := sum(texts[at] in trained for at in split.scored.tolist()):
            yield f"{repeated} of the evaluated examples have texts that are trained on, too"
    drawn = _sizes(task) if settings.source == "drawn" else None  # errors about numbers come first
    if reference := len(task.reference_ids):
        yield f"no run trains on the same {reference} reference examples, and each predicts them"
    if drawn is None:
        return
    for requested, taken, part, done in (
        (settings.num_labelled, drawn.labelled, "training", "labelled"),
        (settings.test_size, drawn.test, "test", "evaluated"),
    ):
        wanted = -(-DEFAULT_SIZE // len(taken))
        if requested is None and taken.min() < wanted:
            few = f": {_few(task, taken, wanted)} ({wanted} per class would be needed)" if task.form.has_classes else ""
            yield f"{taken.sum():,} {part} examples {done} instead of the default {DEFAULT_SIZE:,}{few}"
    rare = np.flatnonzero(hardly_tested(drawn.test)).tolist() if task.form.has_class_names else []
    if 0 < len(rare) < len(drawn.test) - 1:
        fix = leave_out("it" if len(rare) == 1 else "them", task.label_column, [task.class_names[at] for at in rare])
        yield f"too few test examples for macro averages such as f1_macro: {_few(task, drawn.test, 5)}; {fix}"
    if np.array_equal(drawn.labelled, drawn.train):
        yield "one labelled example a class leaves none for validation"


def _few(task: Task, taken: IntArray, wanted: int) -> str:
    """Return "class x has n" for up to four of the classes that have too few, the smallest first."""
    order = [label for label in np.argsort(taken, kind="stable").tolist() if taken[label] < wanted]
    texts = [f"class {task.strata_names[label]} has {taken[label]}" for label in order[:4]]
    return ", ".join([*texts, *([f"and {len(order) - 4} more"] if len(order) > 4 else [])])

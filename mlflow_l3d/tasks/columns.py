"""From the columns of a file or data set to a task: the roles of the columns, and errors in them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.tasks import kinds
from mlflow_l3d.tasks.base import Task, TaskKind
from mlflow_l3d.tasks.identity import make_task, shorten
from mlflow_l3d.tasks.settings import IntArray
from mlflow_l3d.tasks.table import Column, Table, blank, check_labels_there, no_column, repeated_texts, spelled, those

_AS_TEXT: Final = "Name another column, or write its values in quotes in a .jsonl file."
AUTO_TEXT: Final = (
    ("text",),
    ("premise", "choice1", "choice2", "question"),
    ("paragraph", "question", "answer"),
    ("word", "sentence1", "sentence2"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("premise", "hypothesis"),
    ("question", "passage"),
    ("question", "sentence"),
    ("sentence",),
    ("content",),
    ("tokens",),
    ("context", "question"),
    ("question",),
    ("query",),
    ("input",),
    ("document",),
    ("article",),
)
"""Text columns that need no name; the first complete group is used."""
_WORDS: Final = 3
"""Words that the texts of a column have on average if we guess that it holds the texts."""
_FIXES: Final[dict[type, str]] = {
    float: "Store classes as integers; task_kind=regression reads scores.",
    list: "Use task_kind=tagging, ranking or generation.",
}
"""Type of labels that are no classes -> what they may be."""
_NO_TEXTS: Final = ("split", "id", "example_id")
AUTO_CONTEXT: Final = (("premise", "question"), ("premise",), ("context", "question"), ("context",), ("question",))
"""Likewise, the part that all choices of a multiple-choice task share."""


def task_from_table(name: str, table: Table, reading: kinds.Reading) -> Task:
    """Return the task in the columns of `table`.

    Parameters
    ----------
    name
        Name of the task.
    table
        The data.
    reading
        Which columns to read, and how.

    Raises
    ------
    ParameterError
        If a column is missing or has a wrong value.
    """
    if twice := [each for each, times in Counter(table.names).items() if times > 1]:
        allowed = f"the data names {shorten(twice[0])} twice"
        raise ParameterError("task", name, allowed, "Give each column a name of its own.")
    label_column, guesses = spelled(reading.label_column, table.names), []
    if label_column not in table.names:
        if label_column != kinds.USUAL.label_column:
            raise no_column("label_column", label_column, table.names)
        label_column = _guessed("label_column", table, ())
        guesses = [f"labels are read from the column {shorten(label_column)!r}"]
    kind, kind_notes = kinds.find_kind(table, replace(reading, label_column=label_column))
    choice_columns = kinds.find_choice_columns(table.names, reading) if form_of(kind).has_choices else ()
    not_texts = (label_column, *choice_columns)
    text_columns = find_text_columns(table.names, reading.text_column, not_texts)
    if not text_columns:
        no_texts = (*not_texts, f"{label_column}_name", *_NO_TEXTS)
        text_columns = tuple(name for name in table.names if name not in no_texts)
        if not text_columns or not all(_are_numbers(table.column(name)) for name in text_columns):
            text_columns = (_guessed("text_column", table, not_texts),)
            guesses.append(f"the text is read from the column {shorten(text_columns[0])!r}")
    if reading.predefined_split:
        table = table.with_parts(name, label_column)
    rows = table.column(label_column).index
    gaps_in = (*text_columns, *choice_columns, label_column)
    table = table.without_gaps(gaps_in, 1.0) if reading.leave_out_empty else table.without_gaps(gaps_in)
    labels, class_names = _labels(table, label_column, kind, choice_columns)
    columns = [table.column(column) for column in text_columns]
    has_features = not choice_columns and text_columns not in AUTO_TEXT and all(map(_are_numbers, columns))
    if form_of(kind).has_tags:
        columns = [kinds.joined_tokens(values, name) for values, name in zip(columns, text_columns, strict=True)]
    if has_features:
        texts, features = [], np.array(columns, dtype=np.float64).T
        note = f"{len(columns)} columns of numbers are its features, which approaches that read texts see as texts"
        kind_notes = (*kind_notes, note)
    else:
        texts = [check_texts(*each) for each in zip(columns, text_columns, strict=True)]
        features = None
    choices = [check_texts(table.column(column), column, "choice_columns") for column in choice_columns]
    ids, notes = find_ids(table, name)
    are_numbered = ids is None
    kept = table.column(label_column).index
    if are_numbered and len(kept) < len(rows) and not reading.leave_out_empty:
        ids = rows.get_indexer(kept)  # the place in the file, whatever is left out
    remarks = [f"{name}: {note}" for note in (*table.notes, *guesses, *kind_notes, *notes)]
    parts = table.parts if reading.predefined_split else None
    task = make_task(
        name, texts, labels, class_names, ids, remarks, kind=kind, choices=choices, parts=parts, features=features
    )
    repeated: Iterable[str] = ()
    if parts is None and not reading.leave_out_empty:
        repeated = repeated_texts(task, [*text_columns, *choice_columns])
    label_column *= form_of(kind).has_class_names
    return replace(task, notes=(*task.notes, *repeated), label_column=label_column, are_numbered=are_numbered)


def _guessed(parameter: str, table: Table, taken: Sequence[str]) -> str:
    """Return the only column that a parameter can mean by its values; else raise an error that says what to type."""
    plausible: dict[str, list[str]] = {"text_column": [], "label_column": [*taken][:1]}
    others: list[str] = []  # may be the labels as well: numbers, short texts
    for name in (name for name in table.names if name not in taken and name.strip().casefold() not in _NO_TEXTS):
        values = [value for value in table.column(name) if not blank(value)]
        are_texts = all(isinstance(value, str) for value in values)
        if values and are_texts and np.mean([len(value.split()) for value in values]) >= _WORDS:
            plausible["text_column"].append(name)
        elif 1 < len({*map(str, values)}) <= max(2, len(values) // 10) and not taken:
            plausible["label_column"].append(name)
        elif not taken and not ({*map(type, values)} == {int} and len({*values}) == len(values)):  # else ids
            others.append(name)
    if len(plausible[parameter]) == 1 and not others:
        return plausible[parameter][0]
    asked = [f"--{each.replace('_', '-')} {shlex.quote(found[0])}" for each, found in plausible.items() if found]
    rest = " or ".join(map(shorten, [*(name for found in plausible.values() for name in found[1:]), *others]))
    fix = f"Add {' '.join(asked)}{f', or name {rest}' if rest else ''}." if plausible[parameter] else ""
    if parameter == "label_column":
        raise no_column(parameter, kinds.USUAL.label_column, table.names, fix)
    allowed = f"no column has a name that is known; there are {', '.join(map(shorten, table.names))}"
    raise ParameterError(parameter, "auto", allowed, fix or "Name it.")


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) and value == value for value in values)


def _labels(
    table: Table, column: str, kind: TaskKind, choice_columns: tuple[str, ...]
) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    """Return labels of a kind, shape (n,), and the names of the classes or choices."""
    form, values = form_of(kind), table.column(column)
    check_labels_there(values, column)
    if form.has_numbers:
        return kinds.encode_scores(values, column), ()
    if form.has_choices:
        return kinds.encode_positions(values, column, choice_columns), choice_columns
    if not form.has_class_names:
        return kinds.encode_answers(values, column, kind, table.label_names), ()
    return encode_labels(table, values, column)


def find_text_columns(
    names: Sequence[str], text_column: str | tuple[str, ...], not_texts: Sequence[str]
) -> tuple[str, ...]:
    """Return the text columns that `text_column` names; for ``auto`` a usual group, if there is one."""
    if text_column == "auto":
        groups: tuple[tuple[str, ...], ...] = (*(AUTO_CONTEXT if len(not_texts) > 1 else ()), *AUTO_TEXT)
        usual = (tuple(spelled(name, names) for name in group) for group in groups)
        return next((each for each in usual if {*each} <= {*names} - {*not_texts}), ())
    return kinds.named_columns("text_column", text_column, names, not_texts)


def check_texts(values: Column, column: str, parameter: str = "text_column") -> tuple[str, ...]:
    """Return the texts; raise a ParameterError if one is missing, blank or not a text."""
    if len(gaps := those(values, blank)):
        first = f"the first in row {gaps.index[0]} of the data"
        allowed = f"{len(gaps)} of {len(values)} texts are empty or missing, {first}"
        raise ParameterError(parameter, column, allowed, "Fill or remove these rows.")
    if len(others := those(values, lambda value: not isinstance(value, str))):
        allowed = f"must hold texts, not values of type {type(others.iloc[0]).__name__}"
        raise ParameterError(parameter, column, allowed, _AS_TEXT)
    return tuple(values)


def encode_labels(table: Table, values: Column, column: str) -> tuple[IntArray, tuple[str, ...]]:
    """Return labels in ``[0, C)`` (shape (n,), int64) and the names of the classes in that order."""
    types = {type(value) for value in values}
    if types not in ({int}, {bool}, {str}):
        listed = ", ".join(sorted(each.__name__ for each in types)) or "nothing"
        allowed = f"must hold whole numbers or class names, not {listed}"
        fix = next((fix for kind, fix in _FIXES.items() if kind in types), "")
        raise ParameterError("label_column", column, allowed, fix)
    present = sorted(set(values))
    labels = values.map({value: number for number, value in enumerate(present)}).to_numpy(np.int64)
    names = [*map(str, present)]
    _check_classes(column, names, np.bincount(labels, minlength=len(names)))
    if types != {str}:
        names = _named(table, column, present, labels) or names
    return labels, tuple(names)


def find_ids(table: Table, task: str) -> tuple[npt.NDArray[Any] | None, tuple[str, ...]]:
    """Return the ids from ``example_id`` or ``id`` and remarks on them; None if rows are to be numbered."""
    name = next((column for column in ("example_id", "id") if column in table.names), None)
    if name is None:
        return None, ()
    values = table.column(name)
    ids = _as_ids(values)
    if ids is not None and len(np.unique(ids)) == len(ids):
        return ids, ()
    if name == "example_id" and table.ids_are_mine:
        repeated = values.index[values.duplicated()]
        where = f"; row {repeated[0]} of the data repeats an earlier one" if len(repeated) else ""
        allowed = f"the column example_id must hold unique ids, all whole numbers or all texts{where}"
        raise ParameterError("task", task, allowed, "Correct the column, or remove it to have rows numbered.")
    rows = zip(*(map(repr, table.column(column)) for column in table.names), strict=True)
    if ids is not None and len({*rows}) == len({*values}):
        times = values.groupby(values).cumcount() + 1
        texts = [f"{value} ({time})" if time > 1 else str(value) for value, time in zip(values, times, strict=True)]
        note = f"in the column {name} only equal rows share an id: the second gets (2) behind it"
        return np.array(texts), (note,)
    return None, (f"the column {name} does not identify examples, so their rows are numbered instead",)


def _named(table: Table, column: str, present: Sequence[int], labels: IntArray) -> list[str]:
    """Return the names of numbered classes, from the data set or its column of names; empty without names."""
    if table.label_names is not None and set(present) <= set(table.label_names):
        return [table.label_names[label] for label in present]
    name_column = f"{column}_name"
    if name_column not in table.names:
        return []
    pairs = {*zip(labels.tolist(), table.column(name_column), strict=True)}
    names = {label: str(name) for label, name in pairs if not blank(name)}
    if not len(pairs) == len(names) == len(set(names.values())) == len(present):
        allowed = f"the column {name_column} must hold exactly one name for each number in {column}"
        raise ParameterError("label_column", column, allowed, f"Correct or rename the column {name_column}.")
    return [names[label] for label in range(len(present))]


def _check_classes(column: str, names: Sequence[str], counts: IntArray) -> None:
    if len(names) < 2:
        allowed = f"every example has the label {shorten(names[0])!r}, and at least 2 classes are needed"
        raise ParameterError("label_column", column, allowed)
    if counts.min() < 2:
        small = int(counts.argmin())
        allowed = f"class {shorten(names[small])!r} has 1 example, and every class needs at least 2"
        others = int((counts < 2).sum()) - 1
        more = f" (so have {others} other classes)" if others else ""
        raise ParameterError("label_column", column, allowed + more, "Add examples, or remove the class.")


def _as_ids(values: Column) -> npt.NDArray[Any] | None:
    types = {type(value) for value in values}
    if types not in ({int}, {str}):
        return None
    try:
        return np.array(values, dtype=np.int64 if types == {int} else np.str_)
    except OverflowError:
        return np.array(values, dtype=np.str_)

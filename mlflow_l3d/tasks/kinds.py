"""The kind of the labels of a table: classes, scores, the right one of several choices; and labels of two sorts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.tasks.answers import check_labels, check_sets
from mlflow_l3d.tasks.base import KINDS, TaskKind
from mlflow_l3d.tasks.identity import shorten
from mlflow_l3d.tasks.settings import IntArray
from mlflow_l3d.tasks.table import Column, Table, check_labels_there, missing, no_column, spelled, those, wrong_row

_FEW: Final = 0.1
"""Up to this share of decimal numbers among whole ones are mistakes; scores have more (STS-B: a half)."""


def check_one_sort(values: Column, column: str) -> None:
    """Raise if a label is of another sort: decimal among class names or whole numbers, or a name among decimal numbers.

    If names and decimal numbers are mixed, labels that occur more than once count as names of classes.

    Parameters
    ----------
    values
        Labels of all rows; missing ones are ignored.
    column
        Their column.

    Raises
    ------
    ParameterError
        It names the first such row.
    """
    present = those(values, lambda value: not missing(value))
    names = those(present, lambda value: _number(value) is None)
    decimal = those(present, lambda value: not (_number(value) or 0.0).is_integer())
    wrong = names if 0 < len(names) < len(decimal) else decimal
    if wrong is names:
        others, fix = "other rows decimal numbers (scores)", "Correct it; task_kind=regression reads scores."
    else:
        others = "other rows class names" if len(names) else "nearly all other rows whole numbers (classes)"
        fix = "Correct it; if it is a score, use task_kind=regression."
    are_few = len(names) != len(decimal) and wrong.map(str).is_unique
    if len(decimal) and (are_few if len(names) else len(decimal) <= _FEW * len(present)):
        raise wrong_row("label_column", column, wrong, others, fix)


def _check_spellings(values: Column, column: str) -> None:
    """Raise if two names of classes differ in letter case or blanks alone."""
    first: dict[str, str] = {}
    for label in dict.fromkeys(values):
        usual = first.setdefault(" ".join(label.lower().split()), label)
        if label != usual:
            problem = f"other rows {shorten(usual)!r} with other blanks or letter case, which are two classes"
            fix = "Spell them alike, or use task_kind=classification."
            raise wrong_row("label_column", column, values[values == label], problem, fix)


def _number(value: Any) -> float | None:
    """Return the number that a label is or spells; None for a name, a truth value and a number that is not finite."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


_CHOICE: Final = re.compile(r"choice_?([0-9]+)")


@dataclass(frozen=True, slots=True)
class Reading:
    """Which columns of a table are read, and how.

    Attributes
    ----------
    text_column
        ``auto``, the name of a column, or several: a tuple, or separated by commas.
    label_column
        Classification: column of whole numbers, bools or class names. Classes are numbered in sorted order; the names
        of numbered ones come from the column ``<label_column>_name`` if it exists. Regression: column of numbers.
        Multiple choice: column of the position of the right choice, from 0, or of the name of its column. Generation:
        column of texts, or of lists of texts that are all right. Tagging: of lists of tags. Ranking: of lists of
        relevant ids, or of mappings of ids to gains. A list may be written as JSON.
    task_kind
        One of :data:`~mlflow_l3d.tasks.base.KINDS`, or ``auto``: decimal numbers are scores; named
        `choice_columns`, or, with `numbered_choices`, columns ``choice1``, ``choice2``, ... are choices.
    choice_columns
        Names separated by commas; ``auto`` means all of ``choice1``, ``choice2``, ... (or ``choice_1``, or from 0).
    predefined_split
        Whether the published parts are read.
    numbered_choices
        Whether columns ``choice1``, ``choice2``, ... are choices by default. In `main` such a file stays the
        classification of several texts that it has been, since the keys of finished cells depend on it.
    leave_out_empty
        Whether rows with an empty text are left out, with a note, and are not an error: for data that the user cannot
        correct.
    """

    text_column: str | tuple[str, ...] = "auto"
    label_column: str = "label"
    task_kind: str = "auto"
    choice_columns: str | tuple[str, ...] = "auto"
    predefined_split: bool = False
    numbered_choices: bool = False
    leave_out_empty: bool = False

    def options(self) -> dict[str, str]:
        """Return the options for the loader of a named task: the values that are not at their defaults."""
        names = ("text_column", "label_column", "task_kind", "choice_columns")
        values = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(USUAL, name)}
        changed = {name: value if isinstance(value, str) else ",".join(value) for name, value in values.items()}
        return {**changed, "split": "own"} if self.predefined_split else changed


USUAL: Final = Reading()


def find_kind(table: Table, reading: Reading) -> tuple[TaskKind, tuple[str, ...]]:
    """Return the kind of a task, and remarks on how it was recognised.

    Raises
    ------
    ParameterError
        If the kind is unknown, or the labels could be classes as well as scores.
    """
    if reading.task_kind != "auto":
        named_kind = next((kind for kind in KINDS if kind == reading.task_kind), None)
        if named_kind is None:
            raise unknown_name("task_kind", reading.task_kind, ("auto", *KINDS))
        if not form_of(named_kind).has_choices and reading.choice_columns != "auto":
            allowed = f"has no effect with task_kind={named_kind}"
            raise ParameterError("choice_columns", reading.choice_columns, allowed, "Leave one of them out.")
        return named_kind, ()
    if reading.choice_columns != "auto":
        return "multiple_choice", ()
    # A column of choices that text_column names is a text.
    candidates = [name for name in _numbered(table.names) if name not in _parts_of(reading.text_column)]
    if len(candidates) > 1:
        names = " and ".join(candidates) if len(candidates) == 2 else ", ".join(candidates)
        if reading.numbered_choices:
            return "multiple_choice", (f"{names} are read as choices (multiple choice)",)
        return "classification", (f"{names} are read as texts; task_kind=multiple_choice reads them as choices",)
    label_column = reading.label_column
    values = table.column(label_column)
    present = [value for value in values if not missing(value)]
    check_one_sort(values, label_column)
    kinds = {type(value) for value in present}
    if kinds == {str}:
        check_labels({*present})
        check_sets({*present})
        _check_spellings(values[~values.map(missing)], label_column)
    if float not in kinds or not kinds <= {int, float}:
        return "classification", ()
    if all(float(value).is_integer() for value in present):
        # If whole numbers have gaps, pandas makes them decimal: the gap is then the error.
        check_labels_there(values, label_column)
        allowed = "holds whole numbers stored as decimal ones, which may be classes or scores (regression)"
        fix = "Store classes as integers; task_kind=regression reads scores."
        raise ParameterError("label_column", label_column, allowed, fix)
    return "regression", ("labels are decimal numbers and are read as scores (regression)",)


def encode_scores(values: Column, column: str) -> npt.NDArray[np.float64]:
    """Return the scores, shape (n,); raise a ParameterError if one is not a finite number."""
    others = those(values, lambda value: isinstance(value, bool) or not isinstance(value, int | float))
    if len(others) == len(values):
        check_one_sort(values, column)
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        allowed = f"must hold numbers (scores) for regression, not {kinds}"
        raise ParameterError("label_column", column, allowed, "Class names are for task_kind=classification.")
    if len(others):
        raise wrong_row("label_column", column, others, "a score must be a number", "Correct the row.")
    if len(endless := those(values, math.isinf)):
        raise ParameterError("label_column", column, f"the score in row {endless.index[0]} of the data is not finite")
    return values.to_numpy(np.float64)


def encode_answers(
    values: Column, column: str, kind: TaskKind, tag_names: Mapping[int, str] | None
) -> npt.NDArray[Any]:
    """Return labels that are texts, tags or relevant ids, shape (n,), as :mod:`mlflow_l3d.metrics.forms` says."""
    if kind == "generation":  # in a table of texts alone an answer may look like a number
        values = values.map(lambda value: str(value) if isinstance(value, int | float) else value)
    if form_of(kind).has_tags and tag_names:
        values = values.map(lambda tags: [tag_names.get(tag, tag) for tag in tags] if isinstance(tags, list) else tags)
    held = []
    for row, value in values.items():
        try:
            held += form_of(kind).labels([value]).tolist()
        except ValueError as error:
            allowed = f"row {row} of the data: {str(error).replace('label 0', 'the label')} (task_kind={kind})"
            raise ParameterError("label_column", column, allowed, "Correct the row.") from None
    return form_of(kind).labels(held)


def joined_tokens(values: Column, column: str) -> Column:
    """Return lists of tokens as texts in which white space separates them; texts stay.

    Raises
    ------
    ParameterError
        If a token is empty or has white space within.
    """
    for row, value in values.items():
        if isinstance(value, list) and (wrong := [token for token in value if str(token).split() != [token]]):
            allowed = f"row {row} of the data has the token {shorten(wrong[0])!r}, and white space separates tokens"
            raise ParameterError("text_column", column, allowed, "Replace the space within it, or remove the token.")
    return values.map(lambda value: " ".join(value) if isinstance(value, list) else value)


def find_choice_columns(names: Sequence[str], reading: Reading) -> tuple[str, ...]:
    """Return the columns of choices in their order; raise a ParameterError if there are fewer than two."""
    columns = reading.choice_columns
    wanted = _numbered(names) if columns == "auto" else named_columns("choice_columns", columns, names)
    if len(wanted) < 2:
        allowed = f"names fewer than two columns (choice1, choice2, ...); there are {', '.join(map(shorten, names))}"
        raise ParameterError("choice_columns", columns, allowed, "Name two or more.")
    return wanted


def encode_positions(values: Column, column: str, choice_columns: Sequence[str]) -> IntArray:
    """Return the position of the right choice of each row, from 0, shape (n,), int64."""
    count = len(choice_columns)
    if any(isinstance(value, float) for value in values):
        allowed = "must hold the position of the right choice, not decimal numbers (scores)"
        raise ParameterError("label_column", column, allowed, "Scores are for task_kind=regression.")
    position = {name: index for index, name in enumerate(choice_columns)}
    positions = values.map(lambda value: position.get(value, -1) if isinstance(value, str) else int(value))
    if len(wrong := values[~positions.between(0, count - 1)]):
        fix = f"Positions run from 0 to {count - 1}; or write {choice_columns[0]!r} and so on."
        raise wrong_row("label_column", column, wrong, f"there are {count} choices", fix)
    return positions.to_numpy(np.int64)


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns ``choice1``, ``choice2``, ... by their numbers; none if the numbers have gaps."""
    choices = sorted((int(match[1]), name) for name in names if (match := _CHOICE.fullmatch(name)))
    numbers = [number for number, _ in choices]
    first = numbers[0] if numbers else 0
    whole = first in {0, 1} and numbers == list(range(first, first + len(numbers)))
    return tuple(name for _, name in choices) if whole else ()


def _parts_of(columns: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in a list, or in a text that separates them by commas."""
    return columns if isinstance(columns, tuple) else tuple(part.strip() for part in columns.split(","))


def named_columns(
    parameter: str, columns: str | tuple[str, ...], names: Sequence[str], taken: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the columns that a parameter names: one, or several; raise if one is not there, twice there, or taken."""
    is_one = isinstance(columns, str) and spelled(columns, names) in names
    wanted = tuple(spelled(name, names) for name in ((str(columns),) if is_one else _parts_of(columns)))
    for name in wanted:
        if name not in names:
            raise no_column(parameter, name, names)
    if len({*wanted, *taken}) < len(wanted) + len(taken):
        others = f", and not {' or '.join(taken)}" if taken else ""
        raise ParameterError(parameter, columns, f"must name different columns{others}")
    return wanted

"""The identity of a task: a fingerprint of its content, and the rules that every task keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.metrics.known import of_kind
from mlflow_l3d.tasks.base import KINDS, Task, TaskKind
from mlflow_l3d.tasks.settings import IntArray, Split

_whole: Final[WeakValueDictionary[int, Task]] = WeakValueDictionary()
"""Tasks that :func:`checked` returned, by their identity."""


def fingerprint(task: Task) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of a task's content.

    The encoding is unambiguous: every list of strings is preceded by its length and the lengths of its strings, and
    ids carry their kind, so that 1 and "1" differ. A classification task without parts has the fingerprint that it
    had before there was anything else.
    """
    digest = hashlib.sha256()
    labels = task.labels
    ids = task.example_ids
    parts = task.parts
    textual_ids = ids.dtype.kind != "i"
    sizes = {"columns": len(task.texts), "examples": len(labels)}
    header: dict[str, Any] = {"version": 1, **sizes, "textual_ids": textual_ids}
    if not task.form.has_class_names:
        header |= {"kind": task.kind, "choices": len(task.choices)}
    if parts is not None:
        header |= {"parts": True}
    if task.features is not None:
        header |= {"features": task.features.shape[1]}
    digest.update(json.dumps(header, sort_keys=True).encode("ascii"))
    for strings in (task.class_names, *task.texts, *task.choices):
        _add_strings(digest, strings)
    if labels.dtype.kind == "O":
        _add_strings(digest, labels.tolist())
    else:
        # A zero added to a score makes -0.0 and 0.0, which are equal, the same.
        digest.update((labels.astype("<i8") if task.form.has_classes else (labels + 0.0).astype("<f8")).tobytes())
    if textual_ids:
        _add_strings(digest, ids.tolist())
    else:
        digest.update(ids.astype("<i8").tobytes())
    if parts is not None:
        digest.update(parts.astype("<i8").tobytes())
    if task.features is not None:
        digest.update((task.features + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


def make_task(
    name: str,
    texts: Sequence[Sequence[str]] = (),
    labels: npt.ArrayLike = (),
    class_names: Sequence[str] = (),
    example_ids: npt.ArrayLike | None = None,
    notes: Sequence[str] = (),
    *,
    kind: TaskKind = "classification",
    choices: Sequence[Sequence[str]] = (),
    parts: IntArray | None = None,
    metric: str = "",
    features: npt.ArrayLike | None = None,
) -> Task:
    """Return a checked task with its fingerprint and default settings.

    Parameters
    ----------
    name, texts, class_names, notes, kind, choices, parts
        See :class:`mlflow_l3d.tasks.base.Task`. Choices without names are ``choice1``, ``choice2``, ...
    labels
        Shape (n,): see :class:`mlflow_l3d.tasks.base.Task`. Of a generation task texts, or lists of texts that are all
        right; of tagging lists of tags; of a ranking lists of relevant ids, or mappings of ids to gains.
    example_ids
        Shape (n,); row numbers from 0 if None.
    metric
        The metric that the task is judged by; the usual one of its kind if empty.
    features
        Shape (n, columns): numbers in place of texts.

    Raises
    ------
    L3DError
        As :func:`check`.

    Examples
    --------
    >>> import mlflow_l3d
    >>> texts, labels = ["good", "bad", "fine", "poor"], [1, 0, 1, 0]
    >>> task = mlflow_l3d.make_task("reviews", [texts], labels, class_names=["negative", "positive"])
    >>> len(task), task.metric
    (4, 'accuracy')
    """
    held = _held(name, labels, kind)
    ids = np.arange(len(held), dtype=np.int64) if example_ids is None else np.asarray(example_ids)
    names = tuple(class_names)
    if form_of(kind).has_choices and not names:
        names = tuple(f"choice{number}" for number in range(1, len(choices) + 1))
    numbers = None if features is None else np.asarray(features, dtype=np.float64)
    if numbers is not None and numbers.ndim == 2:
        texts = [[" ".join(map(repr, row)) for row in numbers.tolist()]]
    columns, options = tuple(map(tuple, texts)), tuple(map(tuple, choices))
    judged = metric or next((each.name for each in of_kind(kind)), "")
    task = Task(name, columns, held, names, ids, kind=kind, choices=options, parts=parts, metric=judged)
    return checked(replace(task, notes=tuple(notes), features=numbers))


_NO_EXAMPLES: Final = np.empty(0, dtype=np.int64)


class OwnData(Task):
    """A task without an example: the approach decides on its training and test data."""

    def split(self, seeds: Mapping[str, int]) -> Split:
        """Return a split without an example."""
        del seeds
        return Split(_NO_EXAMPLES, _NO_EXAMPLES, _NO_EXAMPLES)


def own_data(name: str, classes: tuple[str, ...], kind: TaskKind = "classification") -> Task:
    """Return the task with these classes; none for a kind without classes, or an approach with metrics only."""
    task = OwnData(name, ((),), _NO_EXAMPLES, classes, _NO_EXAMPLES, kind=kind, metric=of_kind(kind)[0].name)
    return replace(task, fingerprint=fingerprint(task))


def _held(name: str, labels: npt.ArrayLike, kind: TaskKind) -> npt.NDArray[Any]:
    """Return labels as a task holds them; :func:`check` reports wrong classes and numbers."""
    form = form_of(kind)
    if form.has_classes or form.has_numbers:
        return np.asarray(labels)
    try:
        return form.labels(labels)
    except ValueError as error:
        raise L3DError(f"task={name}: {error}.") from None


def checked(task: Task) -> Task:
    """Return a task, checked, with its true fingerprint; errors as of :func:`check`."""
    check(task)
    whole = replace(task, fingerprint=fingerprint(task))
    _whole[id(whole)] = whole
    return whole


def is_whole(task: Task) -> bool:
    """Return whether this object was checked, and has its true fingerprint if nobody changed its arrays since."""
    return _whole.get(id(task)) is task


def check(task: Task) -> None:
    """Check that a task, from this package or another, keeps the contract.

    Raises
    ------
    ParameterError
        If its kind is unknown, it has fewer than two classes or choices, a class with fewer than two examples, columns
        of unequal length, labels of another kind, ids that are not unique, invalid parts, or an
        empty text or choice.
    """
    for problem in chain(_of_labels(task), _of_columns(task)):
        raise ParameterError("task", task.name, problem)


def typed_path(parameter: str, text: str, otherwise: str) -> Path:
    """Return the text that a user typed as a path.

    Raises
    ------
    ParameterError
        If it cannot be a path: too long a name, the home of an unknown user, a null character; `otherwise` says what
        else it cannot be.
    """
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ParameterError(parameter, shorten(text), f"{otherwise}, and cannot be a path ({reason})") from error
    return path


def shorten(name: object, limit: int = 40) -> str:
    """Return `name`, shortened for an error: the user may have given a long text in place of a name."""
    text = str(name)
    return text if len(text) <= limit else f"{text[:limit]}..."


def _of_labels(task: Task) -> Iterator[str]:
    """Yield the defects of the kind, the classes and the labels; only the first one is reliable."""
    classes, labels = len(task.class_names), task.labels
    if task.kind not in KINDS:
        yield f"kind={shorten(task.kind)!r} must be one of {', '.join(KINDS)}"
    if not task.form.has_classes:
        if classes:
            yield f"{task.kind} has no classes, and {classes} are named"
        yield from _of_scores(labels) if task.form.has_numbers else _of_texts(task)
        return
    many = "choices" if task.form.has_choices else "classes"
    if classes < 2:
        yield f"2 {many} or more are needed, it has {classes}"
    if labels.dtype != np.int64 or labels.ndim != 1 or not len(labels):
        yield f"labels must be int64 in [0, {classes}); scores are for kind=regression"
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(outside):
        yield f"labels must be int64 in [0, {classes}); example {outside[0]} has {labels[outside[0]]}"
    if len(set(task.class_names)) < classes:
        yield f"two {many} have the same name"
    sizes = np.bincount(labels, minlength=classes)
    if sizes.min() < 2:
        small = shorten(task.class_names[int(sizes.argmin())])
        yield f"every class needs 2 examples or more, class {small!r} has {sizes.min()}: add some, or remove it"


def _of_scores(labels: npt.NDArray[Any]) -> Iterator[str]:
    if labels.dtype != np.float64 or labels.ndim != 1 or not len(labels):
        yield "labels of a regression task must be float64 scores, not classes"
    if not np.isfinite(labels).all():
        yield "a score is not finite"
    if len(labels) < 2 or float(labels.min()) == float(labels.max()):
        yield "every example has the same score, so there is nothing to predict"


def _of_texts(task: Task) -> Iterator[str]:
    """Yield the defects of labels that are texts."""
    labels = task.labels
    held: list[Any] = []
    if labels.dtype.kind == "O" and labels.ndim == 1:
        with suppress(ValueError):
            held = task.form.labels(labels).tolist()
    if len(held) < 2 or held != labels.tolist():
        yield f"labels must be two or more {task.form.words}, as mlflow_l3d.tasks.identity.make_task holds them"
    if not task.form.has_tags:
        return
    for place, (label, *parts) in enumerate(zip(labels.tolist(), *task.texts, strict=False)):
        tags, tokens = len(json.loads(label)), len(" ".join(parts).split())
        if tags != tokens:
            yield f"label {place} has {tags} tags, and its text {tokens} tokens, which white space separates"


def _of_columns(task: Task) -> Iterator[str]:
    """Yield the defects of texts, choices, ids and parts; only the first one is reliable."""
    count, parts, features = len(task.labels), task.parts, task.features
    if features is not None and (features.shape[:-1] != (count,) or not np.isfinite(features).all()):
        yield f"features must be finite numbers of shape ({count}, columns)"
    if not task.texts or any(len(column) != count for column in task.texts):
        yield f"it needs one text column or more, each of {count} texts"
    wanted = len(task.class_names) if task.form.has_choices else 0
    if len(task.choices) != wanted:
        needs = f"{wanted} columns of choices" if wanted else "no choices"
        yield f"kind={task.kind} needs {needs}, and there are {len(task.choices)}"
    if any(len(column) != count for column in task.choices):
        yield f"each column of choices needs {count} texts"
    if task.example_ids.dtype.kind not in "iU" or task.example_ids.shape != (count,):
        yield f"example_ids must be {count} whole numbers or strings"
    if len(np.unique(task.example_ids)) < count:
        yield "example_ids are not unique"
    ids = task.example_ids.tolist() if task.example_ids.dtype.kind == "U" else ()
    for what, strings in (("a class", task.class_names), ("an id", ids), ("a text", chain(*task.texts, *task.choices))):
        try:
            "".join(strings).encode("utf-8")
        except UnicodeEncodeError:
            yield f"{what} is not valid Unicode: it holds half of a surrogate pair"
    for what, columns in (("a text", task.texts), ("a choice", task.choices)):
        if any(not text.strip() for column in columns for text in column):
            yield f"{what} is empty"
    if parts is not None and (
        parts.dtype != np.int64 or parts.shape != (count,) or not 0 <= parts.min() <= parts.max() <= 2
    ):
        yield f"parts must be {count} int64 numbers: 0 train, 1 validation, 2 test"


def _add_strings(digest: Any, strings: Sequence[str]) -> None:
    lengths = np.fromiter(map(len, strings), dtype="<i8", count=len(strings))
    digest.update(len(strings).to_bytes(8, "little"))
    digest.update(lengths.tobytes())
    digest.update("".join(strings).encode("utf-8", "surrogatepass"))

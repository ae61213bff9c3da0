"""What makes a task the same task: a fingerprint of its content, and the rules that every task keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import L3DError
from mlflow_l3d.tasks.base import IntArray, Task


def fingerprint(
    texts: Sequence[Sequence[str]], labels: IntArray, class_names: Sequence[str], example_ids: npt.NDArray[Any]
) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of a task's content.

    The encoding is unambiguous: every list of strings is preceded by its length and the lengths of its strings, and
    ids carry their kind, so that 1 and "1" differ.
    """
    digest = hashlib.sha256()
    textual_ids = example_ids.dtype.kind != "i"
    header = {"version": 1, "columns": len(texts), "examples": len(labels), "textual_ids": textual_ids}
    digest.update(json.dumps(header, sort_keys=True).encode("ascii"))
    for strings in (class_names, *texts):
        _add_strings(digest, strings)
    digest.update(labels.astype("<i8").tobytes())
    if textual_ids:
        _add_strings(digest, example_ids.tolist())
    else:
        digest.update(example_ids.astype("<i8").tobytes())
    return digest.hexdigest()


def make_task(
    name: str,
    texts: Sequence[Sequence[str]],
    labels: IntArray,
    class_names: Sequence[str],
    example_ids: npt.NDArray[Any] | None = None,
    notes: Sequence[str] = (),
) -> Task:
    """Return a checked task with its fingerprint and default settings.

    Parameters
    ----------
    name, texts, labels, class_names, notes
        See :class:`mlflow_l3d.tasks.base.Task`.
    example_ids
        Shape (n,); row numbers from 0 where None.

    Raises
    ------
    L3DError
        As :func:`check`.
    """
    ids = np.arange(len(labels), dtype=np.int64) if example_ids is None else example_ids
    columns = tuple(tuple(column) for column in texts)
    task = Task(name, columns, labels, tuple(class_names), ids, notes=tuple(notes))
    check(task)
    return Task(name, columns, labels, task.class_names, ids, task.settings, content(task), task.notes)


def content(task: Task) -> str:
    """Return the fingerprint of `task`, computed from its content."""
    return fingerprint(task.texts, task.labels, task.class_names, task.example_ids)


def check(task: Task) -> None:
    """Check that a task, ours or a stranger's, is what the contract says.

    Raises
    ------
    L3DError
        If it has fewer than two classes, a class with fewer than two examples, columns of unequal length, labels
        outside the classes, ids that are not unique, or an empty text.
    """
    count, classes = len(task.labels), len(task.class_names)
    sizes = np.bincount(task.labels, minlength=classes) if _labels_fit(task) else np.zeros(classes, dtype=np.int64)
    problem = ""
    if classes < 2:
        problem = f"it has {classes} class(es), at least 2 are needed"
    elif not _labels_fit(task):
        problem = f"labels must be int64 in [0, {classes})"
    elif len(set(task.class_names)) < classes:
        problem = "two classes have the same name"
    elif not task.texts or any(len(column) != count for column in task.texts):
        problem = f"it needs one text column or more, each of {count} texts"
    elif task.example_ids.dtype.kind not in "iU" or task.example_ids.shape != (count,):
        problem = f"example_ids must be {count} whole numbers or strings"
    elif len(np.unique(task.example_ids)) < count:
        problem = "example_ids are not unique"
    elif sizes.min() < 2:
        small = int(sizes.argmin())
        problem = (
            f"class {shorten(task.class_names[small])!r} has {sizes[small]} example(s), every class needs 2 or more"
        )
    elif any(not text.strip() for column in task.texts for text in column):
        problem = "a text is empty"
    if problem:
        msg = f"task={task.name}: {problem}."
        raise L3DError(msg)


def shorten(name: object, limit: int = 40) -> str:
    """Return `name` as it may stand in an error: what was meant to be a name can turn out to be a text."""
    text = str(name)
    return text if len(text) <= limit else f"{text[:limit]}..."


def _labels_fit(task: Task) -> bool:
    labels = task.labels
    if labels.dtype != np.int64 or labels.ndim != 1 or not len(labels):
        return False
    return int(labels.min()) >= 0 and int(labels.max()) < len(task.class_names)


def _add_strings(digest: Any, strings: Sequence[str]) -> None:
    lengths = np.fromiter(map(len, strings), dtype="<i8", count=len(strings))
    digest.update(len(strings).to_bytes(8, "little"))
    digest.update(lengths.tobytes())
    digest.update("".join(strings).encode("utf-8", "surrogatepass"))

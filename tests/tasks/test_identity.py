"""The fingerprint tells different tasks apart, and the rules of a task are enforced."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from mlflow_l3d.errors import L3DError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.identity import check, fingerprint, make_task


def small_task() -> Task:
    return make_task("small", (["a", "b", "c", "d"],), np.array([0, 1, 0, 1]), ("no", "yes"))


def test_different_contents_have_different_fingerprints() -> None:
    strings = ("", "a", "b", "ab", "a\0", "é")
    seen = set()
    for columns in (1, 2):
        for texts in itertools.product(itertools.product(strings, repeat=2), repeat=columns):
            for labels in ((0, 1), (1, 0)):
                seen.add(fingerprint(Task("t", texts, np.array(labels), ("x", "y"), np.arange(2))))
    assert len(seen) == 2 * (len(strings) ** 2 + len(strings) ** 4)


def test_names_ids_and_their_kind_count() -> None:
    texts, labels = (("a", "b"),), np.array([0, 1])
    given = [
        (("x", "y"), np.array([1, 2])),
        (("x", "y"), np.array(["1", "2"])),
        (("x", "y"), np.array([1, 3])),
        (("x", "z"), np.array([1, 2])),
        (("xy", ""), np.array([1, 2])),
        (("x", "y", "z"), np.array([1, 2])),
    ]
    assert len({fingerprint(Task("t", texts, labels, names, ids)) for names, ids in given}) == len(given)


def test_settings_name_and_memory_layout_do_not_count() -> None:
    task = small_task()
    assert len(task.fingerprint) == 64
    assert fingerprint(replace(task, name="other", labels=np.repeat(task.labels, 2)[::2])) == task.fingerprint


def test_the_fingerprint_is_that_of_earlier_versions() -> None:
    assert small_task().fingerprint[:16] == "7d2b0b8614fa2465"


def test_row_numbers_are_the_default_ids() -> None:
    assert small_task().example_ids.tolist() == [0, 1, 2, 3]
    assert small_task().example_ids.dtype == np.int64


def test_labels_of_several_lengths_are_an_error_of_numpy() -> None:
    with pytest.raises(ValueError, match="inhomogeneous"):
        make_task("small", (["a", "b"],), [[0], [0, 1]], ("no", "yes"))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"class_names": ("one",)}, "2 classes or more"),
        ({"labels": np.array([0, 1, 0, 2])}, r"labels must be int64 in \[0, 2\)"),
        ({"labels": np.array([0, 1, 0, -1])}, r"labels must be int64 in \[0, 2\)"),
        ({"labels": np.array([0.0, 1, 0, 1])}, "labels must be int64"),
        ({"class_names": ("x", "x")}, "two classes have the same name"),
        ({"texts": ()}, "one text column or more"),
        ({"texts": (("a", "b"),)}, "each of 4 texts"),
        ({"example_ids": np.array([1, 2, 3])}, "example_ids must be 4"),
        ({"example_ids": np.array([1.0, 2, 3, 4])}, "example_ids must be 4 whole numbers or strings"),
        ({"example_ids": np.array([1, 2, 3, 3])}, "example_ids are not unique"),
        ({"labels": np.array([0, 0, 0, 1])}, "every class needs 2 examples or more, class 'yes' has 1"),
        ({"texts": (("a", "b", " ", "d"),)}, "a text is empty"),
        ({"texts": (("a", "b", "\ud800", "d"),)}, "a text is not valid Unicode"),
        ({"class_names": ("no", "\ud800")}, "a class is not valid Unicode"),
        ({"example_ids": np.array(["a", "b", "c", "\ud800"])}, "an id is not valid Unicode"),
    ],
)
def test_a_task_that_breaks_a_rule(change: dict[str, object], line: str) -> None:
    with pytest.raises(L3DError, match=f"^task=small: .*{line}"):
        check(replace(small_task(), **change))

"""How the choices of a sweep lie: which points differ in one choice alone, and which share configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.sweep.point import TASK, Choice, SweptPoint, value_of

Indices = npt.NDArray[np.int64]
_SAME_CONFIGURATIONS = ("task", "root_seed", "num_labelled", "design")
"""Points that differ in one of these do not share configurations."""


def clusters_of(points: Sequence[SweptPoint], choices: Mapping[str, Sequence[Choice]]) -> list[object]:
    """Return for each point what is equal for two points that share configurations."""
    named = [name for name in _SAME_CONFIGURATIONS if name in choices and name != TASK]
    return [(point.task, *(value_of(point, name) for name in named)) for point in points]


def blocks_of(points: Sequence[SweptPoint], choices: Mapping[str, Sequence[Choice]], choice: str) -> list[object]:
    """Return for each point what is equal for two points that are alike in all other choices.

    A choice that says nothing beyond this one, or beyond which this one says nothing (the number of classes of a task),
    is none of the others.
    """
    others = [name for name in choices if name != choice and not _nested(points, name, choice)]
    return [tuple(value_of(point, name) for name in others) for point in points]


def groups(labels: Sequence[object]) -> list[Indices]:
    """Return the places of equal labels, in the order in which these first occur."""
    found: dict[object, list[int]] = {}
    for at, label in enumerate(labels):
        found.setdefault(label, []).append(at)
    return [np.array(each, dtype=np.int64) for each in found.values()]


def following(points: Sequence[SweptPoint], choices: Mapping[str, Sequence[Choice]]) -> dict[str, str]:
    """Return choice -> another from which it follows, as hyperparameters that are set for some tasks do from the task.

    Of two that follow from each other the later one does. The task follows from nothing, and from what has another
    value at every point nothing does, the task excepted.
    """
    found: dict[str, str] = {}
    for at, name in enumerate(choices):
        for place, other in enumerate(choices):
            if name in (other, TASK) or (other != TASK and len(choices[other]) >= len(points)):
                continue
            if _follows(points, name, other) and (place < at or not _follows(points, other, name)):
                found.setdefault(name, other)
    return found


def changes_nothing(points: Sequence[SweptPoint], choices: Mapping[str, Sequence[Choice]], choice: str) -> bool:
    """Return whether points that are alike in all other choices have the same scores under all values of this one."""
    scored = [point for point in points if point.complete]
    blocks = [block for block in groups(blocks_of(scored, choices, choice)) if len(block) > 1]
    return bool(blocks) and all(len({_scores(scored[at]) for at in block}) == 1 for block in blocks)


def _scores(point: SweptPoint) -> bytes:
    assert point.analysis is not None
    records = point.analysis.importances.items()
    return b"".join(name.encode() + each.table.tobytes() + each.golden.tobytes() for name, each in records)


def _nested(points: Sequence[SweptPoint], one: str, other: str) -> bool:
    """Return whether one of two choices follows from the other."""
    return _follows(points, one, other) or _follows(points, other, one)


def _follows(points: Sequence[SweptPoint], one: str, other: str) -> bool:
    """Return whether points that are alike in `other` are alike in `one`."""
    pairs = {(value_of(point, other), value_of(point, one)) for point in points}
    return len({value for value, _ in pairs}) == len(pairs)

"""The task of an approach that brings its data itself: only its kind and classes are known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mlflow_l3d.metrics.known import of_kind
from mlflow_l3d.tasks.base import Task, TaskKind
from mlflow_l3d.tasks.identity import fingerprint
from mlflow_l3d.tasks.settings import Split

_NONE = np.empty(0, dtype=np.int64)


class OwnData(Task):
    """A task without an example: the approach decides on its training and test data."""

    def split(self, seeds: Mapping[str, int]) -> Split:
        """Return a split without an example."""
        del seeds
        return Split(_NONE, _NONE, _NONE)


def own_data(name: str, classes: tuple[str, ...], kind: TaskKind = "classification") -> Task:
    """Return the task with these classes; none for a kind without classes, or an approach with metrics only."""
    metric = of_kind(kind)[0].name
    task = OwnData(name, ((),), _NONE, classes, _NONE, kind=kind, metric=metric)
    return replace(task, fingerprint=fingerprint(task))

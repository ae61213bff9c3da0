"""A tiny generated task: no package, no file, no model needed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.sources.packaged import refuse_options


def synthetic(options: Mapping[str, str]) -> Task:
    """Return 2,000 examples of two classes; with the default settings every factor of the task has an effect."""
    refuse_options("synthetic", options)
    return generate()


def generate(examples: int = 2000, classes: int = 2) -> Task:
    """Return a task of `examples` texts whose classes take turns, so that they are as even as possible.

    Raises
    ------
    L3DError
        If there are fewer than two classes, or fewer than two examples per class.
    """
    labels = np.arange(examples, dtype=np.int64) % max(classes, 1)
    texts = [f"example {number} of c{label}" for number, label in enumerate(labels.tolist())]
    return make_task("synthetic", (texts,), labels, [f"c{number}" for number in range(classes)])

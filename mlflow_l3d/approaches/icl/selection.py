"""Which labelled examples stand in a prompt, and in which order: ``sample_choice`` and ``data_order``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.shots import members
from mlflow_l3d.plan.factors import stream
from mlflow_l3d.tasks.settings import IntArray


def nearest_shots(
    features: npt.NDArray[np.float32],
    candidates: IntArray,
    labels: IntArray,
    classes: Sequence[int],
    shots: int,
    test: IntArray,
) -> IntArray:
    """Return for each test example the labelled examples that are most like it, as many of each class.

    Parameters
    ----------
    features
        Shape (n, D): one vector for every example of the task; likeness is the cosine.
    candidates, labels, classes, shots
        As for :func:`mlflow_l3d.approaches.shots.random_shots`.
    test
        Shape (m,): positions of the test examples.

    Returns
    -------
    ndarray
        Shape (m, classes x shots): class after class, the most similar first; of equals the one that stands first in
        the task.

    Raises
    ------
    ParameterError
        If a class has fewer labelled examples than shots.
    """
    wanted = _unit(features[test])
    columns = []
    for number in classes:
        own = members(candidates, labels, number, shots)
        likeness = wanted @ _unit(features[own]).T
        columns.append(own[np.argsort(-likeness, axis=1, kind="stable")[:, :shots]])
    return np.concatenate(columns, axis=1)


def shot_order(seed: int, count: int) -> IntArray:
    """Return the order in which the chosen examples stand in the prompt, a permutation; from ``data_order``."""
    return stream(seed, "shot_order").permutation(count)


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return unit

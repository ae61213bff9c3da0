"""Which labelled examples stand in a prompt, and in which order: ``sample_choice`` and ``data_order``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.plan.factors import stream
from mlflow_l3d.tasks.base import IntArray


def random_shots(seed: int, candidates: IntArray, labels: IntArray, classes: Sequence[int], shots: int) -> IntArray:
    """Draw the examples of a prompt, class by class.

    Parameters
    ----------
    seed
        That of ``sample_choice``.
    candidates
        Sorted positions of the labelled examples.
    labels
        Shape (n,): class of every example of the task.
    classes
        The classes that are told apart.
    shots
        Examples of each class.

    Returns
    -------
    ndarray
        Shape (classes x shots,): positions, class after class. What is drawn from a class does not depend on which
        other classes there are, and more shots hold the fewer.

    Raises
    ------
    ParameterError
        If a class has fewer labelled examples than shots.
    """
    chosen = []
    for number in classes:
        own = candidates[labels[candidates] == number]
        if len(own) < shots:
            allowed = f"class {number} has {len(own)} labelled examples to take them from"
            raise ParameterError("hyperparameters.shots", shots, allowed, "Use fewer shots, or raise num_labelled.")
        order = stream(seed, "shots", str(number)).permutation(len(own))
        chosen.append(own[order[:shots]])
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)


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
        As for :func:`random_shots`.
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
        own = candidates[labels[candidates] == number]
        if len(own) < shots:
            allowed = f"class {number} has {len(own)} labelled examples to take them from"
            raise ParameterError("hyperparameters.shots", shots, allowed, "Use fewer shots, or raise num_labelled.")
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

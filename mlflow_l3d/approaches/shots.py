"""Labelled examples of each class, drawn or like a text: for a prompt, or for a learner to be adapted on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray
from mlflow_l3d.tasks.splits import quotas


def random_shots(
    seed: int, candidates: IntArray, labels: IntArray, classes: Sequence[int], shots: int, hyperparameter: str = "shots"
) -> IntArray:
    """Draw examples class by class.

    Parameters
    ----------
    seed
        That of ``sample_choice``.
    candidates
        Sorted positions of the labelled examples.
    labels
        Shape (n,): class of every example of the task.
    classes
        The classes that are distinguished.
    shots
        Examples of each class.
    hyperparameter
        What the user calls `shots`, for the text of the error.

    Returns
    -------
    ndarray
        Shape (classes x shots,): positions, class after class. The draws from a class do not depend on which
        other classes there are, and more shots hold the fewer.

    Raises
    ------
    ParameterError
        If a class has fewer labelled examples than shots.
    """
    chosen = []
    for number in classes:
        of_class = members(candidates, labels, number, shots, hyperparameter)
        chosen.append(of_class[stream(seed, "shots", str(number)).permutation(len(of_class))[:shots]])
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
        Shape (m, classes x shots): class after class, the most similar first; of equals the one that comes first in
        the task.

    Raises
    ------
    ParameterError
        If a class has fewer labelled examples than shots.
    """
    test_units = _unit(features[test])
    columns = []
    for number in classes:
        of_class = members(candidates, labels, number, shots)
        likeness = test_units @ _unit(features[of_class]).T
        columns.append(of_class[np.argsort(-likeness, axis=1, kind="stable")[:, :shots]])
    return np.concatenate(columns, axis=1)


def shot_order(seed: int, count: int) -> IntArray:
    """Return the order in which the chosen examples are in the prompt, a permutation; from ``data_order``."""
    return stream(seed, "shot_order").permutation(count)


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return unit


def members(
    candidates: IntArray, labels: IntArray, number: int, shots: int, hyperparameter: str = "shots", *, queries: int = 0
) -> IntArray:
    """Return the labelled examples of class `number`, in the order of `candidates`.

    Raises
    ------
    ParameterError
        If there are fewer than `shots` and `queries` together.
    """
    of_class: IntArray = candidates[labels[candidates] == number]
    if len(of_class) < shots + queries:
        needed = f"them and {queries} queries" if queries else "them"
        allowed = f"class {number} has {len(of_class)} labelled examples to take {needed} from"
        fix = "Use fewer shots, or raise num_labelled."
        raise ParameterError(f"hyperparameters.{hyperparameter}", shots, allowed, fix)
    return of_class


def check_shots(task: Task, classes: Sequence[int], shots: int, *, queries: int = 0, adaptation_shots: int = 0) -> None:
    """Raise if a class has too few labelled examples, in every split: splits are stratified, so sizes are known.

    Parameters
    ----------
    task
        The data, with its split settings.
    classes
        Numbers of the classes that are distinguished.
    shots, queries
        Examples of each class that are asked for together.
    adaptation_shots
        Examples of each class that are asked for by themselves.

    Raises
    ------
    ParameterError
        It says how many shots the smallest class allows, and names all hyperparameters that ask for too many.
    """
    if type(task).split is not Task.split:  # a task that divides in its own way: its cells will say
        return
    train, most_labelled = _sizes(task)
    smallest = min(classes, key=lambda number: int(train[number]))
    available = int(train[smallest])
    asked = {"shots": (shots, queries), "adaptation_shots": (adaptation_shots, 0)}
    lacking = {name: shots for name, (shots, others) in asked.items() if shots + others > available}
    if not lacking:
        return
    needed = f"them and {queries} queries" if queries and "shots" in lacking else "them"
    who = f"class {task.class_names[smallest]!r} has" if task.form.has_classes else "there are"
    has = f"{who} {available} labelled examples to take {needed} from; those for validation do not count"
    leave = "leave the class out with hyperparameter classes" if task.form.has_classes else "give more data"
    other = leave if most_labelled[smallest] else "raise num_labelled"
    several = len(lacking) > 1
    fewer = [
        f"at most {available - asked[name][1]}{f' {name}' * several}"
        if available > asked[name][1]
        else f"fewer {'shots and queries' if several else 'of both'}"
        for name in lacking
    ]
    # One shot and one query take two examples.
    fix = f"Use {' and '.join(fewer)}, or {other}." if available >= (2 if queries else 1) else f"{other.capitalize()}."
    if several:
        raise ParameterError(
            "hyperparameters", ",".join(f"{name}={count}" for name, count in lacking.items()), has, fix
        )
    [(name, count)] = lacking.items()
    raise ParameterError(f"hyperparameters.{name}", count, has, fix)


def _sizes(task: Task) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the examples of each class that are trained on, and whether no more could be labelled; shape (C,)."""
    names = task.strata_names
    if task.settings.source == "own":
        train = np.bincount(task.strata[task.split({}).train], minlength=len(names))
        return train, np.full(len(names), task.settings.num_labelled is None)
    sizes = quotas(np.bincount(task.strata, minlength=len(names)), task.settings, names)
    return sizes.train, sizes.labelled == sizes.train_part


def chosen_classes(text: str, class_names: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the classes that ``classes`` names, in label order.

    Raises
    ------
    ParameterError
        If one is unknown or named twice, or there are fewer than two.
    """
    if text == "all":
        return tuple(range(len(class_names)))
    numbers = []
    for part in (piece.strip() for piece in text.split("+")):
        if part in class_names:
            numbers.append(list(class_names).index(part))
        elif part.isdecimal() and len(part) < 10 and int(part) < len(class_names):
            numbers.append(int(part))
        else:
            names = ", ".join(f"{at} {name}" for at, name in enumerate(class_names))
            raise ParameterError("hyperparameters.classes", text, f"{part!r} is none of the classes {names}")
    if len(set(numbers)) < len(numbers) or len(numbers) < 2:
        raise ParameterError("hyperparameters.classes", text, "must name two different classes at least, each once")
    return tuple(sorted(numbers))

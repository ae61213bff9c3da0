"""What a metric is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import L3DError

Score: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]
"""Labels and predictions, shape (n,) both, to one number."""
OfEach: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[np.float64]]
"""Labels and predictions, shape (n,) both, to one number an example."""

OF_CLASSES: Final = ("classification", "multiple_choice")
OF_NUMBERS: Final = ("regression",)
OF_TEXTS: Final = ("generation",)
OF_TAGS: Final = ("tagging",)
OF_RANKINGS: Final = ("ranking",)


@dataclass(frozen=True)
class Metric:
    """One way to score predictions, and all that the package needs to know about it.

    A package of your own adds one by the entry-point group ``mlflow_l3d.metrics``; the entry point names the object.

    Attributes
    ----------
    name
        Under which it is asked for (``metric=name``) and recorded.
    function
        Labels and predictions, shape (n,) with n > 0, to a number. Of classes they are int64 class numbers, a
        prediction of -1 being an answer that names no class; of a regression float64 and finite; of other kinds texts,
        of which :mod:`mlflow_l3d.metrics.forms` says what they hold. What is not finite counts as no score. None where
        an approach gives the number itself.
    kinds
        Kinds of tasks whose predictions it scores; :data:`OF_CLASSES`, :data:`OF_NUMBERS`, :data:`OF_TEXTS`,
        :data:`OF_TAGS` or :data:`OF_RANKINGS`.
    greater_is_better
        Its direction.
    range
        The lowest and the highest value that it can have.
    chance
        Number of classes to the score of a guess that does not look at the text; smaller scores count as
        collapsed, where greater is better. None if guessing has no such score.
    percent
        Whether people read it in percent and percentage points; else it is shown in its own unit.
    words
        What it is, in a few words.
    secondary
        Whether it is recorded and reported next to others only, and not what an investigation or a search is about.
    opt_in
        Whether only approaches that name it in their attribute `metrics` record it, and can be investigated by it.
    of_classes
        Labels, predictions and how many classes are distinguished to a number, for a score that depends on that: also
        on classes that neither a label nor a prediction has. Results, early stopping and pruning take it before
        `function`.
    of_many
        What `of_classes` gives for many predictions of the same examples, shape (m, n), if it is faster than one at a
        time.
    of_each
        Labels and predictions, as of `function`, to one number an example, shape (n,), where the score is their mean.
    agreement
        How two predictions are compared under this metric, if they are neither classes nor numbers; see the study
        `evaluate`. Where empty they agree if they are equal.
    needs
        The module that `function` imports, where it comes with ``pip install 'mlflow-l3d[agreement]'``: without it the
        metric is not recorded.
    """

    name: str
    function: Score | None = None
    kinds: tuple[str, ...] = OF_CLASSES
    greater_is_better: bool = True
    range: tuple[float, float] = (-math.inf, math.inf)
    chance: Callable[[int], float] | None = None
    percent: bool = True
    words: str = ""
    secondary: bool = False
    opt_in: bool = False
    of_classes: Callable[[npt.NDArray[Any], npt.NDArray[Any], int], float] | None = None
    of_many: Callable[[npt.NDArray[Any], npt.NDArray[Any], int], npt.NDArray[np.float64]] | None = None
    of_each: OfEach | None = None
    agreement: str = ""
    needs: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def sign(self) -> float:
        """1 if greater is better, else -1: times this, the best score is the largest."""
        return 1.0 if self.greater_is_better else -1.0

    @property
    def scores_classes(self) -> bool:
        """Whether it scores predicted classes."""
        return "classification" in self.kinds

    @property
    def span(self) -> float:
        """Largest difference of two scores."""
        return self.range[1] - self.range[0]

    def chance_level(self, classes: int | None) -> float | None:
        """Return the score of guessing among so many classes, below which runs count as collapsed.

        None if there is none, the classes are not known, or smaller is better.
        """
        return self.chance(classes) if self.chance and classes and self.greater_is_better else None


fraction: Final = partial(Metric, range=(0.0, 1.0))
"""Makes a metric whose values lie between 0 and 1."""


def mean_of(of_each: OfEach) -> Score:
    """Return the score that is the mean over examples."""

    def mean(labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> float:
        return float(of_each(labels, predictions).mean())

    return mean


def library(module: str, what: str, name: str, package: str) -> Any:
    """Import a library of the extra ``agreement``, for the metric or scoring function (`what`) of a name.

    Raises
    ------
    L3DError
        If it is not installed; names the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        msg = f"{what}={name}: needs the package {package}. Run: pip install 'mlflow-l3d[agreement]'"
        raise L3DError(msg) from error

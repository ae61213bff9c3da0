"""What a metric is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy.typing as npt

Score: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]
"""Labels and predictions, shape (n,) both, to one number."""
ScoreOfClasses: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any], int], float]
"""Labels, predictions and how many classes are told apart to one number."""

OF_CLASSES: Final = ("classification", "multiple_choice")
OF_NUMBERS: Final = ("regression",)


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
        prediction of -1 being an answer that names no class; of a regression float64 and finite. What is not finite
        counts as no score. None where an approach gives the number itself.
    kinds
        Kinds of tasks whose predictions it scores; :data:`OF_CLASSES` or :data:`OF_NUMBERS`.
    greater_is_better
        Its direction.
    range
        The lowest and the highest value that it can have.
    chance
        Number of classes to the score of a guess that does not look at the text; smaller scores count as
        collapsed, where greater is better. None where guessing has no such score.
    percent
        Whether people read it in percent and percentage points; else it is shown in its own unit.
    words
        What it is, in a few words.
    secondary
        Whether it is recorded and reported beside others only, and not what an investigation or a search is about.
    opt_in
        Whether only approaches that name it in their attribute `metrics` record it, and can be investigated by it.
    of_classes
        The same where it is known how many classes are told apart, for a score that depends on it: also on those that
        neither a label nor a prediction has. Results, early stopping and pruning take it before `function`.
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
    of_classes: ScoreOfClasses | None = None

    @property
    def sign(self) -> float:
        """1 where greater is better, else -1: times this, the best score is the largest."""
        return 1.0 if self.greater_is_better else -1.0

    def chance_level(self, classes: int | None) -> float | None:
        """Return the score of guessing among so many classes, below which runs count as collapsed.

        None where there is none, the classes are not known, or smaller is better.
        """
        return self.chance(classes) if self.chance and classes and self.greater_is_better else None

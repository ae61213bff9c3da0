"""Which choice moves which factor: one test a choice and factor, adjusted for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlflow_l3d.analysis.sweep.layout import Indices, blocks_of, groups
from mlflow_l3d.analysis.sweep.levels import LevelTest, level_test
from mlflow_l3d.analysis.sweep.measured import Measured
from mlflow_l3d.analysis.sweep.point import Choice, SweptPoint, value_of


@dataclass(frozen=True, slots=True)
class Interaction:
    """Whether a choice moves the importance of a factor, or the golden standard deviation.

    Attributes
    ----------
    choice
        The choice.
    of
        A factor (its corrected importance), or ``golden_std`` (the natural log of it).
    values
        The values of the choice that were compared.
    test
        What was found.
    p_holm
        Its p-value, adjusted for all choices and factors (Holm).
    """

    choice: str
    of: str
    values: tuple[Choice, ...]
    test: LevelTest
    p_holm: float

    def extremes(self) -> tuple[tuple[Choice, float], tuple[Choice, float]]:
        """Return the value of the choice with the lowest mean, and that with the highest, each with its mean."""
        means = self.test.means
        low, high = int(means.argmin()), len(means) - 1 - int(means[::-1].argmax())  # of equal ones two
        return (self.values[low], float(means[low])), (self.values[high], float(means[high]))


def interaction(
    points: Sequence[SweptPoint],
    choices: Mapping[str, Sequence[Choice]],
    choice: str,
    of: str,
    measured: tuple[Indices, Measured],
    level: float,
) -> Interaction | None:
    """Return whether a choice moves a number; None where no two points differ in it and are alike in all others.

    Parameters
    ----------
    points, choices, choice, of, measured, level
        As in :func:`mlflow_l3d.analysis.sweep.trends.trend`; the values of the choice may be texts.
    """
    places, numbers = measured
    here = [points[at] for at in places]
    if len(here) < 2:
        return None
    labels: dict[object, int] = {value: at for at, value in enumerate(choices[choice])}
    own = [labels.setdefault(value_of(point, choice), len(labels)) for point in here]
    test = level_test(own, numbers, groups(blocks_of(here, choices, choice)), level)
    if test is None:
        return None
    named = list(labels)
    return Interaction(choice, of, tuple(named[at] for at in test.levels), test, test.p)  # type: ignore[misc]

"""The course of a session so far, as its report shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.referee.numbers.judge import Assessment, Rules
from mlflow_l3d.studies.referee.numbers.session import Step


@dataclass(frozen=True)
class System:
    """The baseline or a candidate.

    Attributes
    ----------
    number, title, run_id
        Its place in the session, 0 of the baseline; what it is in a few words; its run.
    verdict
        ``keep``, ``reject`` or ``undecided``; empty of the baseline.
    scores
        Number of a run -> score, nan if it failed.
    looks
        Every interim analysis.
    """

    number: int
    title: str
    run_id: str
    verdict: str
    scores: Mapping[int, float]
    looks: tuple[Assessment, ...]


@dataclass(frozen=True)
class Course:
    """A session so far.

    Attributes
    ----------
    metric, rules
        By which it judges.
    systems
        The baseline, then the candidates in their order.
    path
        One champion after another.
    luck_of_examples
        Standard deviation of the difference of two equally good systems by luck of the test examples alone, however
        often they are run; nan if not known.
    """

    metric: Metric
    rules: Rules
    systems: tuple[System, ...]
    path: tuple[Step, ...]
    luck_of_examples: float = math.nan

    @property
    def judged(self) -> int:
        """How many candidates have a verdict."""
        return sum(each.verdict in ("keep", "reject") for each in self.systems)

    @property
    def spent(self) -> int:
        """Runs so far, failed ones included."""
        return sum(len(each.scores) for each in self.systems)

    @property
    def undecided(self) -> tuple[System, ...]:
        """The candidates that have no verdict yet."""
        return tuple(each for each in self.systems[1:] if each.verdict == "undecided")

    @property
    def lead_by_luck(self) -> float:
        """What the best of all candidates is ahead by through luck of the test examples, if all are equal.

        The largest of k independent normal numbers with standard deviation s is about ``s sqrt(2 ln k)``.
        """
        return self.luck_of_examples * math.sqrt(2 * math.log(max(self.judged, 1)))

    @property
    def is_overused(self) -> bool:
        """Whether that luck alone exceeds the smallest effect."""
        return self.lead_by_luck > self.rules.effect

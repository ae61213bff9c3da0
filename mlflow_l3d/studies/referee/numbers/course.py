"""The course of a session so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.referee.numbers.judge import Assessment, Rules
from mlflow_l3d.studies.referee.numbers.session import Step


@dataclass
class SystemRecord:
    """The baseline or a candidate.

    Attributes
    ----------
    run_id
        Its child run.
    number
        Of the candidate, from 1; 0 is the baseline.
    title, key
        Its name in a few words, and a text that is equal for the same candidate.
    content
        All that decides its scores but the seeds, as JSON types.
    scores
        Number of a run -> score, nan if it failed.
    verdict
        ``keep``, ``reject``, or the empty text as long as there is none.
    looks
        Every interim analysis.
    decided
        Number of the first run after those that decided.
    fresh_half
        Number of a run -> score on the fresh half of the test examples, of runs that confirm.
    order
        Of its verdict among all, from 1: one that was begun before another may be decided after it.
    """

    run_id: str
    number: int
    title: str
    key: str
    content: Any = None
    scores: dict[int, float] = field(default_factory=dict)
    verdict: str = ""
    looks: list[Assessment] = field(default_factory=list)
    decided: int = 0
    fresh_half: dict[int, float] = field(default_factory=dict)
    order: int = 0

    @property
    def paired(self) -> bool:
        """Whether its runs share their seeds with the runs of others that have equal numbers."""
        return is_paired(self.content or {})


def is_paired(content: Mapping[str, Any]) -> bool:
    """Return whether a system of this content is run here, with the seeds of others; runs that exist share none."""
    return "runs" not in content


@dataclass(frozen=True)
class Course:
    """A session so far.

    Attributes
    ----------
    run_id, title
        Of the session.
    metric, rules
        By which it judges.
    systems
        The baseline, then the candidates in their order.
    path
        One champion after another.
    luck_of_examples
        Standard deviation of the difference of two equally good systems by luck of the test examples alone, however
        often they are run; nan if not known.
    is_judging
        Whether a judgement is under way on this machine, of which this is what it has recorded.
    """

    run_id: str
    title: str
    metric: Metric
    rules: Rules
    systems: tuple[SystemRecord, ...]
    path: tuple[Step, ...]
    luck_of_examples: float = math.nan
    is_judging: bool = field(default=False, metadata={"file": ""})

    @property
    def judged(self) -> int:
        """How many candidates have a verdict."""
        return sum(bool(each.verdict) for each in self.systems)

    @property
    def spent(self) -> int:
        """Runs so far, failed ones included."""
        return sum(len(each.scores) for each in self.systems)

    @property
    def lead_by_luck(self) -> float:
        """What the best of all candidates is ahead by through luck of the test examples, if all are equal.

        The largest of k independent normal numbers with standard deviation s is about ``s sqrt(2 ln k)``. If it exceeds
        the smallest effect, the test examples were used too often.
        """
        return self.luck_of_examples * math.sqrt(2 * math.log(max(self.judged, 1)))

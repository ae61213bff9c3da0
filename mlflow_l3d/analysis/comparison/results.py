"""What a comparison returns: frozen records that neither compute nor log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.comparison.difference import Spread
from mlflow_l3d.analysis.comparison.families import OverTasks
from mlflow_l3d.analysis.comparison.wins import ExampleWins
from mlflow_l3d.analysis.intervals import LEVEL, Range, with_interval
from mlflow_l3d.metrics.base import Metric

BETTER: Final = "better"
WORSE: Final = "worse"
EQUIVALENT: Final = "equivalent"
UNDECIDED: Final = "undecided"
KEPT: Final = 0.5
"""Part of its level that a claimed sign keeps if there is a smallest effect: one tail, for what its interval claims."""


def decide(gain: float, p: float, limits: tuple[float, float], smallest_effect: float, level: float) -> str:
    """Return the verdict on a gain (above 0 is better) from its p-value and the limits of the difference."""
    if max(map(abs, limits)) <= smallest_effect:
        return EQUIVALENT
    if p <= 1 - level and gain != 0:
        return BETTER if gain > 0 else WORSE
    return UNDECIDED


@dataclass(frozen=True, slots=True)
class Difference:
    """Two systems on one task: the first less the second, in the unit of the metric.

    Attributes
    ----------
    task, first, second
        What is compared.
    runs, shared_runs
        Runs of either, and those that share configurations.
    shared_factors, other_factors
        Factors whose configurations the shared runs share, and those that only one of the two has, or draws otherwise.
    shared_examples
        Test examples that both systems saw; 0 if there are no predictions: then the luck of test examples is not
        counted.
    means
        Of either.
    difference, low, high, p
        Of the means; interval and two-sided p-value of this pair alone. They count the luck of every factor and that of
        test examples.
    p_adjusted, joint_low, joint_high
        For all pairs on all tasks together.
    verdict
        Of the first: `better` or `worse` where `p_adjusted` is at most ``1 - level``; `equivalent` where the joint
        interval lies within the smallest effect; else `undecided`.
    probability_better
        That the first is better on average, see
        :func:`mlflow_l3d.analysis.comparison.difference.probability_better`.
    run_wins, pair_wins
        That one run of the first scores better than one of the second: drawn independently, or with the same
        configurations (ties half).
    example_wins
        Test examples on which either wins whatever the luck.
    spread
        What the difference varies by.
    runs_needed
        Power -> runs of either that settle the sign of the difference found (of the smallest effect, if there is
        one), with as many test examples; inf if no number does.
    examples_needed
        Test examples that settle the difference found, as `runs_to_settle`, with infinitely many runs.
    runs_to_settle
        See :func:`mlflow_l3d.analysis.comparison.difference.runs_to_settle`.
    """

    task: str
    first: str
    second: str
    runs: tuple[int, int]
    shared_runs: int
    shared_factors: tuple[str, ...]
    other_factors: tuple[str, ...]
    shared_examples: int
    means: tuple[float, float]
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    joint_low: float
    joint_high: float
    verdict: str
    probability_better: float
    run_wins: Range
    pair_wins: Range
    example_wins: ExampleWins
    spread: Spread
    runs_needed: dict[float, float]
    examples_needed: float
    runs_to_settle: float

    @property
    def name(self) -> str:
        """The two systems, as metrics name them."""
        return f"{self.first}-{self.second}"

    def metrics(self) -> dict[str, float]:
        """Return the numbers by the names of their metrics; what is not known, or without end, is left out."""
        wins = self.example_wins
        metrics = {
            **_numbers("difference", self.difference, self.low, self.high),
            "difference_p": self.p,
            "difference_p_adjusted": self.p_adjusted,
            "probability_better": self.probability_better,
            **_numbers("probability_run_better", *self.run_wins),
            **_numbers("probability_paired_run_better", *self.pair_wins),
            **_numbers("wins_share", *wins.first),
            **_numbers("losses_share", *wins.second),
            "always_wins_share": wins.first_always,
            "always_losses_share": wins.second_always,
            "variance_runs": self.spread.of_runs,
            "variance_examples": self.spread.of_examples,
            "variance_saved": self.spread.saved,
            "variance_saved_runs": self.spread.saved_by_runs,
            **{f"runs_needed_{round(100 * power)}": runs for power, runs in self.runs_needed.items()},
            "examples_needed_80": self.examples_needed,
        }
        return {name: value for name, value in metrics.items() if math.isfinite(value)}


@dataclass(frozen=True, slots=True)
class Rank:
    """A system among all of one task, or over tasks.

    Attributes
    ----------
    task, system
        The task; the empty text over tasks.
    mean, runs
        Mean score (over tasks: the mean of means), and how many runs it has.
    low, high
        The smallest and largest rank it may have, 1 being the best; all hold together.
    group
        Letters: systems that share one cannot be distinguished.
    """

    task: str
    system: str
    mean: float
    runs: int
    low: int
    high: int
    group: str


@dataclass(frozen=True, slots=True)
class TaskMean:
    """The difference of two systems over tasks, the first less the second.

    Attributes
    ----------
    first, second, tasks
        What is compared, on which tasks.
    found
        The estimate, with the interval of this pair alone: it is not adjusted for other pairs.
    p_adjusted
        For all pairs together (Holm).
    verdict
        As for :class:`Difference`.
    """

    first: str
    second: str
    tasks: tuple[str, ...]
    found: OverTasks
    p_adjusted: float
    verdict: str

    def metrics(self) -> dict[str, float]:
        """Return the numbers by the names of their metrics."""
        return {
            **_numbers("difference", self.found.difference, self.found.low, self.found.high),
            "difference_p": self.found.p,
            "difference_p_adjusted": self.p_adjusted,
            "difference_task_std": self.found.task_std,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several systems on one task, or on several.

    Attributes
    ----------
    metric
        What they are scored by.
    differences
        Every pair on every task, task by task.
    ranks
        Every system on every task, best mean first; over tasks, too, if there are several.
    over_tasks
        Every pair over tasks; nothing for one task. A question of its own, with an error rate of its own.
    smallest_effect
        Differences up to this count for nothing; nan if none was named. In the unit of the metric.
    level
        Of intervals and claims.
    notes
        What a reader must know about them.
    lossy
        Systems with too many failed runs for a verdict.
    """

    metric: Metric
    differences: tuple[Difference, ...]
    ranks: tuple[Rank, ...]
    over_tasks: tuple[TaskMean, ...] = ()
    smallest_effect: float = math.nan
    level: float = LEVEL
    notes: tuple[str, ...] = ()
    lossy: tuple[str, ...] = ()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in their order."""
        return tuple(dict.fromkeys(each.task for each in self.differences))

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, in their order."""
        return tuple(dict.fromkeys(name for each in self.differences for name in (each.first, each.second)))

    @property
    def title(self) -> str:
        """What was compared on what, in a few words."""
        return f"compare {', '.join(self.systems)}: {', '.join(self.tasks)}"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per pair and task: task, first, second, means, runs, verdict, and every metric."""
        rows = []
        for each in self.differences:
            row = {name: getattr(each, name) for name in ("task", "first", "second", "verdict")}
            for name, of_side in zip(("mean", "runs"), (each.means, each.runs), strict=True):
                row |= dict(zip((f"{name}_first", f"{name}_second"), of_side, strict=True))
            row |= {"shared_runs": each.shared_runs, "shared_factors": ",".join(each.shared_factors)}
            row |= {"examples": each.spread.examples, "shared_examples": each.shared_examples, **each.metrics()}
            rows.append({**row, "difference_joint_low": each.joint_low, "difference_joint_high": each.joint_high})
        return pd.DataFrame(rows)

    def ranks_frame(self) -> pd.DataFrame:
        """Return one row per system and task: task, system, mean, runs, rank_low, rank_high, group."""
        frame = pd.DataFrame(self.ranks, columns=list(Rank.__dataclass_fields__))
        return frame.rename(columns={"low": "rank_low", "high": "rank_high"})

    def over_tasks_frame(self) -> pd.DataFrame | None:
        """Return one row per pair: first, second, tasks, difference, its interval, p-values, task_std, verdict."""
        rows = []
        for each in self.over_tasks:
            who = {"first": each.first, "second": each.second, "tasks": each.found.tasks}
            rows.append({**who, **each.metrics(), "verdict": each.verdict})
        return pd.DataFrame(rows).rename(columns={"difference_task_std": "task_std"}) if rows else None

    def metrics(self) -> dict[str, float]:
        """Return the metrics: plain names for one pair on one task, else with ``/<first>-<second>`` and the task."""
        several = len({each.name for each in self.differences}) > 1
        metrics: dict[str, float] = {}
        for each in self.differences:
            ending = (f"/{each.name}" if several else "") + (f"/{each.task}" if len(self.tasks) > 1 else "")
            metrics |= {name + ending: value for name, value in each.metrics().items()}
        for pair in self.over_tasks:
            ending = f"/{pair.first}-{pair.second}" if several else ""
            metrics |= {name + ending: value for name, value in pair.metrics().items()}
        return metrics


def _numbers(name: str, value: float, low: float, high: float) -> dict[str, float]:
    """Return a number and the ends of its interval by the names of their metrics."""
    return dict(zip(with_interval(name), (value, low, high), strict=True))

"""Whether one system is better than another, counting the luck of every factor and of the test examples.

Every pair is compared on every task and over tasks, and ranked; and one system with itself (A/A), for false claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np

from mlflow_l3d.analysis.comparison.difference import (
    POWERS,
    Spread,
    correlations,
    examples_to_settle,
    interval,
    p_value,
    probability_better,
    runs_needed,
    runs_to_settle,
    spread,
)
from mlflow_l3d.analysis.comparison.families import joint_level, joint_p_values, over_tasks, ranks
from mlflow_l3d.analysis.comparison.predictions import check_effect
from mlflow_l3d.analysis.comparison.results import KEPT, UNDECIDED, Comparison, Difference, Rank, TaskMean, decide
from mlflow_l3d.analysis.comparison.system import Means, Pairing, System, mean_scores
from mlflow_l3d.analysis.comparison.wins import example_wins, pair_wins, run_wins
from mlflow_l3d.analysis.importance.multiplicity import alike, holm, letters
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, check_level, wilson_interval
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric

FEWEST: Final = 3
"""Runs of a system below which nothing is said of it."""


def compare_systems(
    tasks: Mapping[str, Sequence[System]],
    metric: Metric,
    *,
    smallest_effect: float = math.nan,
    level: float = LEVEL,
    notes: Sequence[str] = (),
) -> Comparison:
    """Compare systems by the means of their runs.

    Parameters
    ----------
    tasks
        Task -> systems, the same names on every task, two or more, each of :data:`FEWEST` runs or more.
    metric
        What their scores are.
    smallest_effect
        The smallest difference that counts, in the unit of the metric; nan for none.
    level
        Of intervals and claims.
    notes
        Handed on.

    Raises
    ------
    ParameterError
        If the level is none, a system has too few runs, or one test example moves the score by more than the smallest
        effect.
    """
    check_level(level)
    lossy = tuple(dict.fromkeys(each.name for systems in tasks.values() for each in systems if each.is_lossy))
    rules = _Rules(metric, smallest_effect, level, lossy)
    measured: list[tuple[str, Means, list[float], list[Spread]]] = []
    for task, systems in tasks.items():
        for system in systems:
            if system.runs < FEWEST:
                allowed = f"has {system.runs} runs with a score; {FEWEST} are needed"
                raise ParameterError(
                    "runs", f"{system.name} ({task})", allowed, "Raise golden_runs, or add runs with other seeds."
                )
            check_effect(smallest_effect, metric, system.scores, system.examples)
        means = mean_scores(systems)
        pairs = [*combinations(range(len(systems)), 2)]
        gaps = [float(means.means[i] - means.means[j]) for i, j in pairs]
        measured.append((task, means, gaps, [spread(means, *pair) for pair in pairs]))
    alone = [p_value(*each) for _, _, gaps, spreads in measured for each in zip(gaps, spreads, strict=True)]
    families = [(correlations(means, spreads), spreads) for _, means, _, spreads in measured]
    adjusted = joint_p_values(alone, families, in_one_step=rules.has_effect)
    joint = joint_level(families, level)
    differences: list[Difference] = []
    order: list[Rank] = []
    for (task, means, gaps, spreads), p_values in zip(measured, np.split(adjusted, len(tasks)), strict=True):
        differences += [
            _difference(task, means, pair, found, float(p), joint, rules)
            for pair, found, p in zip(pairs, spreads, p_values, strict=True)
        ]
        by_name = {each.name: float(mean) for each, mean in zip(means.systems, means.means, strict=True)}
        order += rules.ranks(task, by_name, [each.runs for each in means.systems], gaps, p_values)
    several: tuple[TaskMean, ...] = ()
    if len(tasks) > 1:
        several, placed = _over_tasks(tasks, differences, rules)
        order += placed
    return Comparison(metric, tuple(differences), tuple(order), several, smallest_effect, level, tuple(notes), lossy)


class _Rules(NamedTuple):
    metric: Metric
    smallest_effect: float
    level: float
    lossy: tuple[str, ...]

    @property
    def has_effect(self) -> bool:
        return not math.isnan(self.smallest_effect)

    def verdict(self, pair: tuple[str, str], difference: float, p: float, limits: tuple[float, float]) -> str:
        if {*pair} & {*self.lossy}:
            return UNDECIDED
        return decide(self.metric.sign * difference, p, limits, self.smallest_effect, self.level)

    def ranks(
        self, task: str, means: Mapping[str, float], runs: Sequence[int], gaps: Sequence[float], p_values: FloatArray
    ) -> list[Rank]:
        """Return the ranks of systems, best mean first, from the differences of all pairs."""
        alpha, lossy = 1 - self.level, {*self.lossy}
        of_pairs = zip(combinations(means, 2), gaps, p_values, strict=True)
        apart = [(pair, gap) for pair, gap, p in of_pairs if p <= alpha and not lossy & {*pair}]
        ordered = sorted(means, key=lambda name: -self.metric.sign * means[name])
        group = letters(ordered, alike(ordered, {frozenset(pair) for pair, _ in apart}))
        claims = [pair if self.metric.sign * gap > 0 else pair[::-1] for pair, gap in apart if gap]
        limits = ranks(claims, ordered)
        of_runs = dict(zip(means, runs, strict=True))
        return [Rank(task, name, means[name], of_runs[name], *limits[name], group[name]) for name in ordered]


def _difference(
    task: str, means: Means, pair: tuple[int, int], found: Spread, p_adjusted: float, joint: float, rules: _Rules
) -> Difference:
    first, second = (means.systems[number] for number in pair)
    pairing = means.pairings[pair]
    gap = float(means.means[pair[0]] - means.means[pair[1]])
    low, high = interval(gap, found, rules.level)
    joint_low, joint_high = interval(gap, found, joint)
    effect = gap if math.isnan(rules.smallest_effect) else rules.smallest_effect
    factors = dict.fromkeys([*first.configurations, *second.configurations])
    of_runs = (first, second, pairing, rules.metric.sign, found.of_examples, rules.level)
    return Difference(
        task=task,
        first=first.name,
        second=second.name,
        runs=(first.runs, second.runs),
        shared_runs=len(pairing.first),
        shared_factors=pairing.factors,
        other_factors=tuple(name for name in factors if name not in pairing.factors),
        shared_examples=int((first.seen & second.seen).sum()) if found.examples else 0,
        means=(float(means.means[pair[0]]), float(means.means[pair[1]])),
        difference=gap,
        low=low,
        high=high,
        p=p_value(gap, found),
        p_adjusted=p_adjusted,
        joint_low=joint_low,
        joint_high=joint_high,
        verdict=rules.verdict((first.name, second.name), gap, p_adjusted, (joint_low, joint_high)),
        probability_better=probability_better(rules.metric.sign * gap, found),
        run_wins=run_wins(*of_runs),
        pair_wins=pair_wins(*of_runs),
        example_wins=example_wins(first, second, pairing, rules.level),
        spread=found,
        runs_needed={power: runs_needed(effect, found, power, joint) for power in POWERS},
        examples_needed=examples_to_settle(gap, found, rules.smallest_effect, joint),
        runs_to_settle=runs_to_settle(gap, found, rules.smallest_effect, joint),
    )


def _over_tasks(
    tasks: Mapping[str, Sequence[System]], differences: Sequence[Difference], rules: _Rules
) -> tuple[tuple[TaskMean, ...], list[Rank]]:
    by_pair: dict[tuple[str, str], list[Difference]] = {}
    for each in differences:
        by_pair.setdefault((each.first, each.second), []).append(each)
    values = [([each.difference for each in own], [each.spread.error for each in own]) for own in by_pair.values()]
    means_over_tasks = [over_tasks(*each, rules.level) for each in values]
    adjusted = holm([one.p for one in means_over_tasks], kept=KEPT if rules.has_effect else 0.0)
    joint = [over_tasks(*each, 1 - (1 - rules.level) / len(means_over_tasks)) for each in values]
    means = [
        TaskMean(*pair, tuple(tasks), one, p, rules.verdict(pair, one.difference, p, (limits.low, limits.high)))
        for pair, one, p, limits in zip(by_pair, means_over_tasks, map(float, adjusted), joint, strict=True)
    ]
    names = [each.name for each in next(iter(tasks.values()))]
    every = {name: [each for own in tasks.values() for each in own if each.name == name] for name in names}
    scores = {name: float(np.mean([each.scores.mean() for each in own])) for name, own in every.items()}
    runs = [sum(each.runs for each in own) for own in every.values()]
    return tuple(means), rules.ranks("", scores, runs, [one.difference for one in means_over_tasks], adjusted)


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """False claims among comparisons of a system with itself.

    Attributes
    ----------
    what
        What was compared: a system for halves of its runs, or two of them for runs swapped between them.
    repeats, claims
        How many comparisons, and how many of them claimed a difference.
    nominal
        Share of false claims that the level allows.
    """

    what: str
    repeats: int
    claims: int
    nominal: float

    @property
    def rate(self) -> float:
        """Share of false claims."""
        return self.claims / self.repeats

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the rate over more repeats: so far its own luck goes."""
        return wilson_interval(self.claims, self.repeats)

    @property
    def holds(self) -> bool:
        """Whether the rate is at most nominal, but for the luck of so many repeats."""
        return self.interval[0] <= self.nominal


def halves(system: System, repeats: int, *, seed: int, level: float = LEVEL, what: str = "") -> SelfCheck:
    """Compare two random halves of the runs of one system, four runs or more, again and again."""
    generator = np.random.default_rng(seed)
    half = system.runs // 2

    def draw() -> tuple[System, System]:
        order = generator.permutation(system.runs)
        return system.chosen(np.sort(order[:half])), system.chosen(np.sort(order[half:]))

    return _checked(what or system.name, draw, repeats, level)


def swapped(
    one: System, other: System, pairing: Pairing, repeats: int, *, seed: int, level: float = LEVEL, what: str = ""
) -> SelfCheck:
    """Swap the two runs of each shared configuration, or do not, by the toss of a coin, and compare what comes out.

    What either system gains by that is luck, so every claim is false; the comparison is paired, as that of the systems.
    """
    generator = np.random.default_rng(seed)
    together = _joined(one.chosen(pairing.first), other.chosen(pairing.second))
    count = len(pairing.first)

    def draw() -> tuple[System, System]:
        places = np.where(generator.random(count) < 0.5, 0, count)
        return together.chosen(np.arange(count) + places), together.chosen(np.arange(count) + count - places)

    return _checked(what or f"{one.name}-{other.name}", draw, repeats, level)


def _checked(what: str, draw: Callable[[], tuple[System, System]], repeats: int, level: float) -> SelfCheck:
    claims = 0
    for _ in range(repeats):
        means = mean_scores(draw())
        claims += p_value(float(means.means[0] - means.means[1]), spread(means, 0, 1)) <= 1 - level
    return SelfCheck(what, repeats, claims, 1 - level)


def _joined(first: System, second: System) -> System:
    """Return the runs of two systems as those of one, without what is right: means do not need it."""
    names = ("scores", "unit", "share")
    joined: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in (first, second)]) for name in names}
    joined["run"] = np.concatenate([first.run, second.run + first.runs])
    common = [name for name in first.configurations if name in second.configurations]
    sides = (first.configurations, second.configurations)
    joined["configurations"] = {name: np.concatenate([side[name] for side in sides]) for name in common}
    return replace(first, **joined, right=first.right[:0])

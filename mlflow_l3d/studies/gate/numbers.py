"""The looks of a gate: what the runs so far say, and whether that is an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from mlflow_l3d.analysis.comparison.difference import Spread, spread
from mlflow_l3d.analysis.comparison.power import Forecast
from mlflow_l3d.analysis.comparison.system import MOST_LOST, System, mean_scores
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.analysis.planning.spending import Decision, Measured, SequentialPlan, decisions, limits
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import unit_of


@dataclass(frozen=True)
class Look:
    """One look.

    Attributes
    ----------
    runs
        Runs of either system by then, those without a score included.
    pairs
        How many of them count: pairs with two scores, or of independent runs the fewer of either system.
    fraction
        Information as a fraction of that at the end of the budget.
    difference, error, degrees, skewness
        As of :class:`mlflow_l3d.analysis.planning.spending.Measured`.
    low, high
        Repeated confidence interval of the difference, level 1 - alpha: all of its looks hold together.
    equivalence_low, equivalence_high
        The same at level 1 - 2 alpha, for equivalence.
    level, equivalence_level
        One-sided levels at this look.
    decision
        What may be claimed.
    """

    runs: int
    pairs: int
    fraction: float
    difference: float
    error: float
    degrees: float
    skewness: float
    low: float
    high: float
    equivalence_low: float
    equivalence_high: float
    level: float
    equivalence_level: float
    decision: Decision

    @property
    def is_lossy(self) -> bool:
        """Whether too many runs of a side have no score to decide anything."""
        return self.runs - self.pairs > MOST_LOST * self.runs


def look_at(
    plan: SequentialPlan, earlier: Sequence[Look], runs: int, pairs: int, measured: Measured, end: float
) -> Look:
    """Return the next look.

    Parameters
    ----------
    plan
        Looks and bounds; the last look is that with the runs of the last.
    earlier
        The looks before: what they spent stays spent.
    runs, pairs
        As of :class:`Look`.
    measured
        What the runs say.
    end
        Information now as a fraction of that at the end of the budget.
    """
    fraction = 1.0 if runs >= plan.looks[-1] else min(end, 1.0)
    levels = plan.levels_at([*(look.fraction for look in earlier), fraction])[-1]
    usable = measured if math.isfinite(float(measured.error)) else measured._replace(error=math.inf)
    ends = [end for level in levels for end in limits(usable, level)]
    found: list[Any] = [*map(float, (*usable, *ends, *levels)), str(decisions(usable, levels, plan.smallest_effect))]
    look = Look(runs, pairs, fraction, *found)
    return replace(look, decision="undecided") if look.is_lossy else look


def measure(candidate: System, baseline: System, sign: float = 1.0, *, count_examples: bool) -> tuple[Measured, Spread]:
    """Return what the runs of two systems say of the difference of their means, candidate minus baseline.

    Parameters
    ----------
    candidate, baseline
        Two runs or more of each. Runs with equal configurations are paired.
    sign
        -1 turns the difference, where smaller scores are better.
    count_examples
        Whether the luck of test examples counts, too.

    Notes
    -----
    Third moments of independent runs add up; examples bring none that is known.
    """
    means = mean_scores([candidate, baseline])
    found, pairing = spread(means, 0, 1), means.pairings[0, 1]
    added = [(each.scores - each.scores.mean()) / each.runs for each in (candidate, baseline)]
    alone = [np.delete(values, runs) for values, runs in zip(added, (pairing.first, pairing.second), strict=True)]
    both = np.concatenate([added[0][pairing.first] - added[1][pairing.second], alone[0], -alone[1]])
    square = float(both @ both)
    variance = found.of_runs + (found.of_examples if count_examples else 0.0)
    skewness = float((both**3).sum()) / square**1.5 * (found.runs_raw / variance) ** 1.5 if square else 0.0
    degrees = found.degrees if count_examples else found.degrees_runs
    difference = sign * float(means.means[0] - means.means[1])
    return Measured(difference, math.sqrt(variance), degrees, sign * skewness), found


def view(candidate: System, baseline: System, look: Look, sign: float, count_examples: bool) -> tuple[float, float]:
    """Return the repeated confidence interval of a look with, or without, the luck of test examples.

    It has the level of the look: where examples count there is less information, so that the level could be a little
    larger.
    """
    measured, _ = measure(candidate, baseline, sign, count_examples=count_examples)
    low, high = map(float, limits(measured, look.level))
    # Few runs have fewer degrees of freedom alone: what holds on new examples is at least as uncertain.
    return (min(low, look.low), max(high, look.high)) if count_examples else (low, high)


EXIT_STATUS: Final[Mapping[Decision, int]] = {"better": 0, "equivalent": 0, "worse": 1, "undecided": 2}
"""What a CI job sees; an error is 3."""


@dataclass(frozen=True)
class Outstanding:
    """What a look leaves open.

    Attributes
    ----------
    equal
        Whether both have equal scores in every run.
    runs
        Runs of either that settle it, see :func:`mlflow_l3d.analysis.comparison.difference.runs_to_settle`.
    examples
        Test examples that it takes if no number of runs does.
    """

    equal: bool = False
    runs: float = math.inf
    examples: float = math.inf


@dataclass(frozen=True, kw_only=True)
class GateAnswer:
    """What a gate found, so far or in the end.

    Attributes
    ----------
    baseline, candidate
        What they are, in a few words.
    metric
        By which they are compared; the difference is candidate minus baseline, times -1 if smaller is better.
    examples
        ``fixed``: luck of the runs counts; ``random``: that of test examples as well.
    paired
        Whether runs with equal numbers are equal draws of what both share.
    plan
        What was fixed before.
    before
        What was to be expected before the first look.
    looks
        Those that were taken.
    means
        Mean score of baseline and candidate at the last look.
    other
        Repeated confidence interval of the same look that answers the other question: with the luck of test examples
        where `examples` is fixed, and without it if it is random; None without predictions.
    outstanding
        What it would take to settle it, by the last look.
    notes
        What else is to be known.
    """

    baseline: str
    candidate: str
    metric: Metric
    examples: str
    paired: bool
    plan: SequentialPlan
    before: Forecast
    looks: tuple[Look, ...] = ()
    means: tuple[float, float] = (math.nan, math.nan)
    other: tuple[float, float] | None = None
    outstanding: Outstanding = field(default_factory=Outstanding)
    notes: tuple[str, ...] = ()

    @property
    def decision(self) -> Decision:
        """The last look's."""
        return self.looks[-1].decision if self.looks else "undecided"

    @property
    def is_lossy(self) -> bool:
        """Whether too many runs of a side have no score to decide anything."""
        return any(look.is_lossy for look in self.looks[-1:])

    @property
    def exit_status(self) -> int:
        """0 if the candidate is better or equivalent, 1 if it is worse, 2 where the budget leaves it open."""
        return EXIT_STATUS[self.decision]

    @property
    def effect(self) -> str:
        """The smallest effect as it was typed, with its unit."""
        unit = unit_of(self.metric)
        return unit.size(0.0, f"{unit.scale * self.plan.smallest_effect:.6g}")

    @property
    def digits(self) -> int:
        """How many decimals tell differences and their limits from 0 and from the smallest effect, at most 3."""
        scale, effect = unit_of(self.metric).scale, self.plan.smallest_effect
        ends = [*(self.other or ())]
        for look in self.looks:
            is_equivalent = look.decision == "equivalent"
            limits = (look.equivalence_low, look.equivalence_high) if is_equivalent else (look.low, look.high)
            ends += look.difference, *limits
        pairs = [(abs(end), edge) for end in ends for edge in (0.0, effect)]
        unequal = [(scale * end, scale * edge) for end, edge in pairs if not math.isclose(end, edge, abs_tol=1e-9)]
        for digits in range(1 if effect >= 0.005 else 2, 3):
            if all(round(end, digits) != round(edge, digits) for end, edge in unequal):
                return digits
        return 3

    def metrics(self) -> dict[int, dict[str, float]]:
        """Return what MLflow holds, by look."""
        found: dict[int, dict[str, float]] = {}
        for number, look in enumerate(self.looks, 1):
            ends = look.difference, look.low, look.high
            found[number] = dict(zip(with_interval("difference"), ends, strict=True))
            found[number] |= {"runs_used": float(look.pairs), "looks": float(number)}
        power = {"power_equivalent": self.before.same.equivalent, "power_worse": self.before.worse.worse}
        found[len(self.looks)] |= {"exit_status": float(self.exit_status), **power}
        return found

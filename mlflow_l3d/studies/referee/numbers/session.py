"""A session of a referee: the champion, the candidates so far, and which run is to be made next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mlflow_l3d.analysis.sequential.discoveries import evidence_needed
from mlflow_l3d.analysis.sequential.evidence import Estimate, confidence_sequence
from mlflow_l3d.studies.referee.numbers.judge import Assessment, Rules, assess
from mlflow_l3d.studies.referee.numbers.noise import NoiseSoFar


@dataclass
class Runs:
    """The runs of one system.

    Attributes
    ----------
    name
        Of the system; the baseline or a candidate.
    first
        Number of its first fresh run, see :class:`Session`.
    scores
        Number of a run -> score, nan if it failed.
    """

    name: str
    first: int = 0
    scores: dict[int, float] = field(default_factory=dict)

    def fresh(self) -> dict[int, float]:
        """Return the runs that did not decide whether the system was kept."""
        return {number: score for number, score in self.scores.items() if number >= self.first}


@dataclass(frozen=True)
class Step:
    """One champion after another.

    Attributes
    ----------
    name
        Of the candidate that was kept.
    number
        Of the candidate, from 1.
    claimed
        Gain over the champion before it, by the runs that decided: too large on average (the winner's curse).
    shrunk
        The same, drawn towards 0 by what its error and the prior of the evidence say.
    confirmed, low, high
        Gain over the *baseline* by fresh runs alone, and its interval; nan before they are there.
    """

    name: str
    number: int
    claimed: float
    shrunk: float
    confirmed: float = math.nan
    low: float = -math.inf
    high: float = math.inf


class Session:
    """A session, from its records: the same records give the same session.

    A candidate is compared with the champion of its time on runs of equal numbers, which share their seeds. If it is
    kept, it becomes the champion and is run again with fresh numbers: those that decided were lucky.

    Parameters
    ----------
    rules
        Of the session.
    baseline
        Scores of the baseline by number. The first `confirm` of them never decide: gains are measured from them.
    planned
        How many of them were planned before the first candidate: the noise is learned from these.
    shares_seeds
        Whether runs with equal numbers have equal seeds.
    """

    def __init__(
        self, rules: Rules, baseline: dict[int, float], *, planned: int | None = None, shares_seeds: bool = True
    ) -> None:
        self.rules = rules
        self.baseline = Runs("baseline", rules.confirm, dict(baseline))
        self.champion = self.baseline
        self.noise = NoiseSoFar(shares_seeds)
        self.noise.add_champion(score for number, score in baseline.items() if planned is None or number < planned)
        self.judged = 0
        self.path: list[Step] = []

    @property
    def next_number(self) -> int:
        """Number of the first run of the next candidate: of the champion's fresh ones."""
        return self.champion.first

    def look(self, candidate: dict[int, float]) -> Assessment:
        """Look at the next candidate; nothing is counted."""
        needed = evidence_needed(self.judged + 1, len(self.path), self.rules.candidates, self.rules.alpha)
        return assess(candidate, self.champion.fresh(), self.noise.estimate(), self.rules, needed)

    def conclude(self, name: str, candidate: dict[int, float], assessment: Assessment) -> None:
        """Count a candidate that was kept or rejected."""
        self.judged += 1
        fresh = self.champion.fresh()
        order = sorted(candidate)
        scores = np.array([candidate[number] for number in order])
        beside = np.array([fresh.get(number, math.nan) for number in order])
        self.noise.add_candidate(scores, beside)
        if assessment.verdict != "keep":
            return
        width, error = self.rules.effect**2, assessment.error**2
        shrunk = assessment.gain * width / (width + error)
        self.path.append(Step(name, self.judged, assessment.gain, shrunk))
        first = max([*fresh, *candidate]) + 1
        self.champion = Runs(name, first, dict(candidate))

    @property
    def to_confirm(self) -> list[int]:
        """Numbers of the fresh runs that the champion lacks."""
        first = self.champion.first
        return [number for number in range(first, first + self.rules.confirm) if number not in self.champion.scores]

    def confirm(self) -> None:
        """Take note that all fresh runs of the new champion are there."""
        first, last = self.champion.first, self.path[-1]
        fresh = [self.champion.scores[number] for number in range(first, first + self.rules.confirm)]
        self.noise.add_champion(fresh)
        new = np.array([score for score in fresh if math.isfinite(score)])
        reserve = (score for number, score in self.baseline.scores.items() if number < self.baseline.first)
        old = np.array([score for score in reserve if math.isfinite(score)])
        if not len(new) or not len(old):
            return
        noise, rules = self.noise.estimate(), self.rules
        gain = rules.sign * float(new.mean() - old.mean())
        estimate = Estimate(gain, 1 / len(new) + 1 / len(old), noise.std, noise.degrees)
        low, high = confidence_sequence(estimate, rules.effect, 1 - rules.alpha)
        self.path[-1] = Step(last.name, last.number, last.claimed, last.shrunk, gain, low, high)

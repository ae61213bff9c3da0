"""A session of a referee: its records, the champion, the candidates so far, and which run is to be made next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlflow_l3d.analysis.planning.evidence import Estimate, confidence_sequence, evidence_needed
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.referee.numbers import Assessment, Rules, assess
from mlflow_l3d.studies.referee.numbers.noise import Noise, NoiseSoFar


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
        return "runs" not in (self.content or {})  # runs that exist share none


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
    kept, it becomes the champion and is run again with fresh numbers: those that decided were lucky, and so may the
    baseline's first ones have been unlucky that it was compared with.

    Parameters
    ----------
    rules
        Of the session.
    baseline
        Its record.
    planned
        How many of its runs were planned before the first candidate: the noise is learned from these.
    shares_seeds
        Whether runs with equal numbers have equal seeds.

    Attributes
    ----------
    champion
        Its record.
    next_number
        Number of the first run of the next candidate: of the champion's fresh ones, which did not decide that it was
        kept.
    judged, path
        How many candidates were concluded, and one champion after another.
    """

    def __init__(
        self, rules: Rules, baseline: SystemRecord, *, planned: int | None = None, shares_seeds: bool = True
    ) -> None:
        self.rules, self.baseline, self.champion, self.next_number = rules, baseline, baseline, 0
        self.planned = len(baseline.scores) if planned is None else planned
        self.noise = NoiseSoFar(shares_seeds)
        self.noise.add_champion(score for number, score in baseline.scores.items() if number < self.planned)
        self.judged = 0
        self.path: list[Step] = []

    def fresh(self) -> dict[int, float]:
        """Return the champion's runs that did not decide whether it was kept."""
        return {number: score for number, score in self.champion.scores.items() if number >= self.next_number}

    def noise_of(self, *, paired: bool = True) -> Noise:
        """Return what runs of champion and candidate vary by; without shared seeds they do so independently."""
        noise = self.noise.estimate()
        return noise if paired and self.champion.paired else replace(noise, correlation=0.0)

    def look(self, candidate: dict[int, float], number: int = 0, *, paired: bool = True) -> Assessment:
        """Look at a candidate, whose runs share their seeds with the champion's or not; nothing is counted.

        Its number sets its share of alpha; 0 is the next one.
        """
        needed = evidence_needed(number or self.judged + 1, len(self.path), self.rules.candidates, self.rules.alpha)
        return assess(candidate, self.fresh(), self.noise_of(paired=paired), self.rules, needed)

    def conclude(self, record: SystemRecord) -> None:
        """Count a candidate that was kept or rejected by the last of its looks."""
        self.judged += 1
        fresh = self.fresh() if record.paired and self.champion.paired else {}
        order = [number for number in sorted(record.scores) if self.next_number <= number < record.decided]
        both = (record.scores, fresh)
        scores, of_champion = (np.array([runs.get(number, math.nan) for number in order]) for runs in both)
        self.noise.add_candidate(scores, of_champion)
        if record.verdict == "keep":
            look, width = record.looks[-1], self.rules.effect**2
            shrunk = look.gain * width / (width + look.error**2)
            self.path.append(Step(record.title, record.number, look.gain, shrunk))
            self.champion, self.next_number = record, max(record.decided, self.planned)

    @property
    def to_confirm(self) -> range:
        """Numbers of the runs that confirm the champion, of it and of the baseline."""
        return range(self.next_number, self.next_number + self.rules.confirm)

    def confirm(self) -> None:
        """Take note of the fresh runs of the new champion, and those of the baseline with equal seeds, if all exist."""
        from scipy.special import stdtrit

        last = self.path[-1]
        rules = self.rules
        systems = (self.champion, self.baseline)
        both = [each.fresh_half if rules.fresh_half else each.scores for each in systems]
        if not {*self.to_confirm} <= both[0].keys() & both[1].keys():
            return
        self.noise.add_champion(self.champion.scores.get(number, math.nan) for number in self.to_confirm)
        new, old = (np.array([scores[number] for number in self.to_confirm]) for scores in both)
        noise, differences = self.noise_of(), new - old
        differences = differences[np.isfinite(differences)]
        if not len(differences):
            return
        gain = rules.sign * float(differences.mean())
        count = len(differences)
        variance = 2 * (1 - noise.correlation) * noise.std**2
        degrees = noise.degrees
        if count > 1 and (estimated := float(differences.var(ddof=1))) > variance:
            variance, degrees = estimated, count - 1.0
        estimate = Estimate(gain, variance / noise.std**2 / count if noise.std else 1.0, noise.std, degrees)
        low, high = confidence_sequence(estimate, rules.effect, 1 - rules.alpha)
        if math.isinf(high) and degrees:  # too few runs for any look, but this is the only one: Student's t
            half = estimate.error * float(stdtrit(degrees, 1 - rules.alpha / 2))
            low, high = gain - half, gain + half
        self.path[-1] = replace(last, confirmed=gain, low=low, high=high)


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

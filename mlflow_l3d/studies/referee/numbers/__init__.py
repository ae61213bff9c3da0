"""The statistics of a referee: its rules, what the runs so far say of one candidate, and its judgement."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from mlflow_l3d.analysis.comparison.predictions import least_error
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.analysis.planning.spending import FEWEST
from mlflow_l3d.studies.referee.numbers.noise import WIDTHS, Measured, Noise, Spread

Verdict: TypeAlias = Literal["keep", "reject", "undecided"]
_OVERSHOOT: Final = 0.583
"""By how many steps' standard deviations a random walk exceeds a bound on average (Siegmund 1985, chapter 10)."""


@dataclass(frozen=True)
class Rules:
    """What is fixed when a session begins.

    Attributes
    ----------
    effect
        The smallest gain that is worth finding, in the unit of the scores.
    alpha
        Expected share of false ones among the kept candidates, at most.
    power
        With which probability a candidate that is better by `effect` is to survive all looks.
    candidates
        How many are planned; more are allowed, see :func:`~mlflow_l3d.analysis.planning.evidence.evidence_needed`.
    most_runs
        Runs of one candidate at most.
    confirm
        Fresh runs of a new champion.
    sign
        -1 if smaller scores are better.
    step
        What one test example moves a score by; 0 if not known.
    fresh_half
        Whether a half of the test examples judges, and the other one, which decided nothing, confirms.
    """

    effect: float
    alpha: float = 0.05
    power: float = 0.65
    candidates: int = 300
    most_runs: int = 40
    confirm: int = 5
    sign: float = 1.0
    step: float = 0.0
    fresh_half: bool = False


@dataclass(frozen=True)
class Assessment:
    """One look at a candidate.

    Attributes
    ----------
    runs
        Its runs with a score.
    gain
        Estimated gain over the champion, above 0 if it is better.
    error
        Standard error of the gain.
    low, high
        Confidence sequence of the gain, level 1 - alpha, by the mixture of the evidence: all looks hold together.
    evidence
        E-value against "no gain".
    needed
        Evidence that a claim takes.
    verdict
        ``undecided`` if another run is to be made.
    """

    runs: int
    gain: float
    error: float
    low: float
    high: float
    evidence: float
    needed: float
    verdict: Verdict


def assess(
    candidate: Mapping[int, float], champion: Mapping[int, float], noise: Noise, rules: Rules, needed: float
) -> Assessment:
    """Look at a candidate.

    Parameters
    ----------
    candidate, champion
        Scores by the number of the run; equal numbers share their seeds. Those that failed are nan.
    noise
        What runs vary by.
    rules
        Of the session.
    needed
        Evidence that a claim takes.

    Notes
    -----
    The mean of the candidate is compared with that of all runs of the champion, corrected by what the champion's runs
    with the same seeds were lucky by (a control variate): candidate - champion - r (champion, same seeds - champion),
    with the correlation r of runs that share their seeds. Its variance is ``std^2 ((1 - r^2)/n + (1 - r)^2/m)`` for n
    runs of the candidate and m of the champion. If the own runs of either vary more than that, their variance counts.
    A candidate that fails where the champion does not is not kept. If scores are equal in all runs, the gain is 0.
    """
    scores = {number: value for number, value in candidate.items() if math.isfinite(value)}
    of_the_champion = {number: value for number, value in champion.items() if math.isfinite(value)}
    shared = [number for number in scores if number in of_the_champion]
    runs, spent = len(scores), len(candidate)
    if not runs or not of_the_champion:
        verdict: Verdict = "reject" if spent >= min(FEWEST, rules.most_runs) and of_the_champion else "undecided"
        return Assessment(0, math.nan, math.nan, -math.inf, math.inf, 0.0, needed, verdict)
    values = np.array(list(scores.values()))
    others = np.array(list(of_the_champion.values()))
    correlation = noise.correlation if len(shared) == runs else 0.0
    same_seeds = np.array([of_the_champion[number] for number in shared]) if correlation else np.zeros(0)
    lucky = float(same_seeds.mean() - others.mean()) if correlation else 0.0
    gain = rules.sign * float(values.mean() - others.mean() - correlation * lucky)
    if runs >= FEWEST and np.array_equal(values, same_seeds):
        gain = 0.0
    left = values - correlation * same_seeds if correlation else values
    of_candidate = _larger(left, noise.std**2 * (1 - correlation**2))
    of_champion = _larger(others, noise.std**2)
    parts = of_candidate / runs, of_champion * (1 - correlation) ** 2 / len(others)
    least = least_error(rules.step, runs)
    square = max(sum(parts), least**2)
    # A gain that is much larger than the effect is found by a wider mixture.
    learned = noise.spread or Spread.of_baseline(noise.std**2 or square or 1.0, noise.degrees)
    measured = Measured(gain, runs, float(runs * left.var()), 1 - correlation**2, noise.std**2, parts[1], least**2)
    evidence = learned.evidence(measured, rules.effect * WIDTHS)
    half = learned.half_width(measured, rules.effect * WIDTHS, 1 / rules.alpha)
    survival, floor = _survival(gain, square, of_candidate, rules)
    verdict = "undecided"
    if evidence >= needed and runs >= min(FEWEST, rules.most_runs):
        has_failed = any(number in of_the_champion and number not in scores for number in candidate)
        verdict = "reject" if has_failed else "keep"
    elif survival < floor or spent >= rules.most_runs:
        verdict = "reject"
    return Assessment(runs, gain, math.sqrt(square), gain - half, gain + half, evidence, needed, verdict)


def _larger(scores: FloatArray, variance: float) -> float:
    """Return the variance of scores, if it is larger than one that is known better."""
    return max(float(scores.var(ddof=1)) if len(scores) >= FEWEST else 0.0, variance)


def runs_left(assessment: Assessment, rules: Rules, noise: Noise) -> int:
    """Return how many more runs of a candidate a decision takes, if its gain is as estimated: all if none decides.

    Parameters
    ----------
    assessment
        The last look.
    rules, noise
        Of the session.
    """
    left = max(rules.most_runs - assessment.runs, 0)
    if assessment.verdict != "undecided" or not assessment.runs or not noise.std:
        return left if assessment.verdict == "undecided" else 0
    variance = noise.std**2
    share = 1 - noise.correlation**2
    effects = rules.effect * WIDTHS
    learned = noise.spread or Spread.of_baseline(variance, noise.degrees)
    for more in range(1, left):
        square = assessment.error**2 * assessment.runs / (assessment.runs + more)
        survival, floor = _survival(assessment.gain, square, variance * share, rules)
        runs = max(variance * share / square, 1.0)
        measured = Measured(assessment.gain, runs, (runs - 1) * variance * share, share, variance, 0.0, square)
        if survival < floor or learned.evidence(measured, effects) >= assessment.needed:
            return max(more, FEWEST - assessment.runs if survival >= floor else more)
    return left


def _survival(gain: float, square: float, of_candidate: float, rules: Rules) -> tuple[float, float]:
    """Return the log-likelihood ratio that a candidate survives by, and its floor.

    Wald's bound for the power, corrected for what a walk of single runs exceeds it by.
    """
    if not square:
        return (math.inf if gain > 0 else -math.inf), 0.0
    ratio = rules.effect * (gain - rules.effect / 2) / square
    step = rules.effect / math.sqrt(of_candidate) if of_candidate else 0.0
    return ratio, min(math.log1p(-rules.power) + _OVERSHOOT * step, 0.5)


UNPAIRED: Final = "Unpaired: these runs share no seeds with the baseline."
"""Note of a candidate of runs that exist already."""
JUDGED_BEFORE: Final = "It was judged before: count its verdict once."
"""Note of a candidate that is asked again, as a change is that leaves the champion as it is."""
OF_LOOK: Final = ("gain", "low", "high", "evidence", "needed")
"""Numbers of an assessment that tables and JSON have."""
_EXIT_STATUS = {"keep": 0, "reject": 1, "undecided": 2}


@dataclass(frozen=True)
class Judgement:
    """What a referee says of a candidate.

    Attributes
    ----------
    verdict
        ``keep``: it is better than the champion, and is the champion now. ``reject``: it is not, or by too little to be
        seen. ``undecided``: more runs are needed than were allowed.
    candidate, number
        What it is in a few words, and its place in the session, from 1.
    assessment
        The last look.
    spent, more
        Runs that this call made, those of the champion included; and how many more a decision is expected to take.
    confirmed, has_fresh_half
        Gain of the champion over the baseline by fresh runs, nan if there is none yet; and whether it is from test
        examples on which nothing was selected.
    failed
        Runs of the candidate without a score. If one fails where the champion's does not, the candidate is not kept.
    following
        Number of the next run of an undecided candidate: scores that are measured elsewhere continue there.
    champion
        The champion now, in a few words.
    run_id, candidate_run_id
        MLflow runs of the session and of the candidate.
    notes
        What to know of a candidate, or a champion, whose runs are not made here.
    """

    verdict: Verdict
    candidate: str
    number: int
    assessment: Assessment
    spent: int
    failed: int
    more: int
    following: int
    confirmed: float
    has_fresh_half: bool
    champion: str
    run_id: str
    candidate_run_id: str
    notes: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """0 if the candidate was kept, 1 if it was rejected, 2 if that is not decided."""
        return _EXIT_STATUS[self.verdict]

    def to_json(self) -> str:
        """Return the answer as one line of JSON."""
        numbers = {name: getattr(self.assessment, name) for name in (*OF_LOOK, "runs")}
        numbers |= {name: getattr(self, name) for name in ("spent", "failed", "more")}
        numbers |= {"next": self.following, "confirmed": self.confirmed}
        content = {
            **{"verdict": self.verdict, "candidate": self.candidate, "number": self.number},
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "confirmed_on": "the fresh half" if self.has_fresh_half else "the test examples that judge",
            **{"champion": self.champion, "referee": self.run_id, "run": self.candidate_run_id},
            **({"notes": list(self.notes)} if self.notes else {}),
        }
        return json.dumps(content)

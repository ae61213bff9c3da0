"""What all parts of a report say of an analysis alike, and what can be said about one factor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np

from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.importance.strategies import baseline_important
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.stability.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.stability.prediction_importance import PredictionImportance
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.designs import Design, design_named
from mlflow_l3d.report.numbers import MISSING, Unit, between, percent, plain, shorten, signed, unit_of

SMALLEST_DISTANCE: Final = 0.05
"""A corrected score nearer to 0 than this is not told from it by numbers of runs that people can afford."""
MOST_TIMES: Final = 20
"""More rows than this many times those there are is no advice."""
Status = Literal["important", "important?", "not important", "not important?", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be said about one factor.

    Attributes
    ----------
    status
        By the published score (above 0 is important); with ``?`` where the interval of the corrected score holds 0,
        is missing, or lies on the other side of 0. A baseline strategy has no interval.
    sentence
        The same in plain words, without the name of the factor.
    """

    status: Status
    sentence: str

    @property
    def yes_or_no(self) -> str:
        """The published rule alone: ``yes``, ``no`` or ``n/a``."""
        return {"i": "yes", "n": "no", "u": MISSING}[self.status[0]]


@dataclass(frozen=True)
class Shown:
    """An analysis, and what terminal, page and figures need to know about it."""

    analysis: Analysis

    @property
    def design(self) -> type[Design]:
        """Its design."""
        return design_named(self.analysis.design)

    @property
    def unit(self) -> Unit:
        """What its scores are written in."""
        return unit_of(self.analysis.metric)

    @cached_property
    def records(self) -> list[Importance]:
        """The factors, most important first by the published score; those without a score last.

        Baseline strategies have no such score: there the factor whose runs vary most stands first.
        """

        def place(record: Importance) -> float:
            value = record.score_std if self.design.baseline else record.importance
            return -value if math.isfinite(value) else math.inf

        return sorted(self.analysis.importances.values(), key=place)

    @property
    def level(self) -> float:
        """Level of the intervals, which the factors share."""
        return self.records[0].level if self.records else 0.95

    @cached_property
    def golden(self) -> Importance | None:
        """The record with the fullest set of golden scores; the factors share them."""
        every = self.analysis.importances.values()
        return max(every, key=lambda record: int(np.isfinite(record.golden).sum()), default=None)

    @property
    def golden_word(self) -> str:
        """The word before ``std``: golden, or pooled."""
        return "pooled" if self.golden is not None and self.golden.golden_pooled else "golden"

    @property
    def golden_runs(self) -> str:
        """What the golden scores are: golden runs only where they were run."""
        own = self.golden is not None and self.golden_word == "golden" and self.design.own_golden
        return own or f"{self.golden_word} runs"

    @property
    def graded(self) -> bool:
        """Whether predictions may agree in part, so that CON is a mean and CCON says how good they are."""
        return self.analysis.agreement not in (None, "exact_match", "regression")

    def agreement(self, name: str) -> Consistency | None:
        """Return how far runs agree where a factor, or `golden`, changes; None where too few examples were compared."""
        found = self.analysis.consistencies.get(name)
        return found if found is not None and self.examples_behind(found) >= FEWEST_EXAMPLES else None

    def prediction_importance(self, factor: str) -> PredictionImportance | None:
        """Return the importance of a factor for single predictions; None where too few examples were compared."""
        known = self.agreement(factor) is not None and self.agreement("golden") is not None
        return self.analysis.prediction_importances.get(factor) if known else None

    def examples_behind(self, group: Consistency) -> int:
        """Return on how many test examples an agreement rests, or at most rests: comparisons, where that is known."""
        votes = self.analysis.examples if group.group == "golden" else None
        return group.pairs_of_predictions if votes is None else len(votes.frame)

    def say(self, text: str, **more: str) -> str:
        """Return a sentence of the design with the words in braces filled in."""
        return text.format(
            design=self.analysis.design,
            metric=shorten(self.analysis.metric, 40),
            unit=self.unit.name,
            noun=self.unit.noun,
            pp=self.unit.short,
            level=percent(self.level),
            golden=self.golden_word,
            gold=self.golden_word[:4],
            runs=self.golden_runs,
            **more,
        )

    def stds(self, record: Importance) -> tuple[str, str] | None:
        """Return what the factor alone and what all others do to the score; None where that is not known."""
        own, others = self.unit.text(record.contributed_std), self.unit.text(record.mitigated_std)
        return None if MISSING in (own, others) else (f"{own} {self.unit.noun}", others)

    def verdict(self, record: Importance) -> Verdict:
        """Return what the published score of a factor says, and how far its interval lets us trust it."""
        if self.design.baseline:
            return self._baseline(record)
        if not math.isfinite(record.importance):
            return Verdict("unknown", f"no verdict, there is no importance score ({self._reason(record)}).")
        if any(check.code == "L3D014" and check.severity == "info" for check in self._about(record)):
            same = "every cell that was computed again had the same result"
            return Verdict("not important", f"not important ({signed(record.importance)}): {same}.")
        important = record.importance > 0
        word: Status = "important" if important else "not important"
        status: Status = "important?" if important else "not important?"
        because = f"the score is {'' if important else 'not '}above 0"
        if stds := self.stds(record):
            because = (
                f"it moves the score by {stds[0]} (std) while all others are held, the others without it by {stds[1]}"
            )
        low, high = record.importance_corrected_ci_low, record.importance_corrected_ci_high
        trust = f"{percent(record.level)} interval of the corrected score {between(low, high)}"
        if not (math.isfinite(low) and math.isfinite(high)):
            trust = "there is no interval, so this may be luck"
        elif low <= 0 <= high:
            trust += f" holds 0: not certain. {self._would_tell(record)}"
        elif (low > 0) == important and self.doubted(record):
            trust += " excludes 0, but a rule that looks at long-tailed scores (L3D013) makes false claims: not certain"
        elif (low > 0) == important:
            status = word
        else:
            trust += " says the opposite: the published score is biased by the few runs, trust the interval"
        if self.analysis.collapse is not None and record.collapsed_share > 0 and math.isfinite(low):
            status = "important?" if important else "not important?"
            trust += f"; runs collapse, so that it does not hold{self._rest(record)}"
        return Verdict(status, f"{word} ({signed(record.importance)}): {because}; {trust}.")

    def _rest(self, record: Importance) -> str:
        """Return the corrected score among the runs that did not collapse, with its interval."""
        assert self.analysis.collapse is not None
        rest = self.analysis.collapse.rest[record.factor]
        if not math.isfinite(rest.importance_corrected):
            return ""
        ends = between(rest.importance_corrected_ci_low, rest.importance_corrected_ci_high)
        return f": among the others it is {signed(rest.importance_corrected)} ({ends})"

    def doubted(self, record: Importance) -> bool:
        """Return whether a rule looked at the intervals of scores that have long tails."""
        looks = self.analysis.interim_analyses
        long = any(check.code == "L3D013" and check.severity == "warning" for check in self._about(record))
        return looks is not None and bool(looks["alpha"].notna().any()) and long

    def _about(self, record: Importance) -> list[Check]:
        """Return the checks that speak of a factor, or of all."""
        return [check for check in self.analysis.checks if check.factor in (None, record.factor)]

    def _would_tell(self, record: Importance) -> str:
        """Return which runs would tell a score from 0, if it is as far from 0 as it seems."""
        distance, found = abs(record.importance_corrected), record.components
        if found is None or self.design.planning is None:
            return "How many more runs would tell is not known for this design"
        if not distance >= SMALLEST_DISTANCE:
            return "It is so near 0 that hardly any number of runs would tell"
        (rows, columns), word = record.table.shape, self.design.rows_word
        own = distance + (
            record.importance_corrected_ci_high
            if record.importance_corrected < 0
            else -record.importance_corrected_ci_low
        )
        # This interval may be wider than one expects of as many runs; so would be those of more.
        wanted = min(distance, distance / own * self.design.half_width(found, rows=rows, columns=columns))
        if (same := self.design.needed(wanted, found, columns).rows) is not None and same <= MOST_TIMES * rows:
            of = f" of {columns} columns" * self.design.has_columns
            return f"If it is right, about {same} {word}{of} would tell"
        needed = self.design.needed(wanted, found)
        if needed.rows is None or not self.design.has_columns:
            return f"By what these {rows} {word} show, no number of runs that can be afforded would tell"
        size = f"{needed.rows} {word} of {needed.columns} columns"
        return f"If it is right, about {size} would tell; more {word} alone would not"

    def share(self, record: Importance) -> str:
        """Return the spread of a factor's runs, alone and as a share of the golden std, for a baseline strategy."""
        share = f"{plain(golden_share(record))} of the {self.golden_word} std"
        return f"the std of the runs is {self.unit.text(record.score_std)} {self.unit.noun}, {share}"

    def _baseline(self, record: Importance) -> Verdict:
        strategy = f"by the {self.analysis.design} strategy"
        important = baseline_important(record.score_std, record.golden_std)
        if important is None:
            return Verdict("unknown", f"no verdict {strategy} ({self._reason(record)}).")
        word = "important" if important else "not important"
        no_interval = "there is no interval, so this may be luck"
        return Verdict(
            "important?" if important else "not important?",
            f"{self.share(record)}: {word} {strategy} (important from half on); {no_interval}.",
        )

    def _reason(self, record: Importance) -> str:
        """Return why a factor has no verdict."""
        if self.design.baseline and int(np.isfinite(record.table).sum()) < 2:
            return "fewer than 2 of its runs have a score"
        if not self.design.baseline and record.rows_used < 2:
            return f"{record.rows_used} rows with a score, at least 2 are needed"
        if int(np.isfinite(record.golden).sum()) < 2:
            return f"fewer than 2 {self.golden_runs} have a score"
        if record.golden_std == 0:
            return f"all {self.golden_runs} have the same score"
        return "the standard deviations are missing"


def golden_share(record: Importance) -> float:
    """Return the std of a factor's runs as a share of the golden std, which is what a baseline strategy judges by."""
    known = record.golden_std > 0 and math.isfinite(record.golden_std)
    return record.score_std / record.golden_std if known else math.nan

"""What can be said about one factor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.strategies import baseline_important
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.numbers import MISSING, between, bracketed, percent, plain, points, signed

Status = Literal["important", "important?", "not important", "not important?", "unknown"]


def level_of(records: Iterable[Importance]) -> float:
    """Return the level of the records' intervals; they share one, 0.95 without a record."""
    return next((record.level for record in records), 0.95)


def by_importance(analysis: Analysis) -> list[Importance]:
    """Return the factors, most important first by the published score; those without a score last.

    Baseline strategies have no such score: there the factor whose runs vary most stands first.
    """

    def place(record: Importance) -> float:
        value = record.score_std if design_named(record.design).baseline else record.importance
        return -value if math.isfinite(value) else math.inf

    return sorted(analysis.importances.values(), key=place)


def golden_runs(record: Importance | None) -> str:
    """Return what the scores in ``record.golden`` are: golden runs only where they were run."""
    if record is not None and record.golden_pooled:
        return "pooled runs"
    return (record and design_named(record.design).own_golden) or "golden runs"


def golden_word(record: Importance | None) -> str:
    """Return the word before ``std``: golden, or pooled."""
    return "pooled" if record is not None and record.golden_pooled else "golden"


def golden_record(analysis: Analysis) -> Importance | None:
    """Return the record with the fullest set of golden scores; the factors share them."""
    return max(analysis.importances.values(), key=lambda record: int(np.isfinite(record.golden).sum()), default=None)


def golden_share(record: Importance) -> float:
    """Return the std of a factor's runs as a share of the golden std, which is what a baseline strategy judges by."""
    known = record.golden_std > 0 and math.isfinite(record.golden_std)
    return record.score_std / record.golden_std if known else math.nan


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
        if self.status == "unknown":
            return MISSING
        return "no" if self.status.startswith("not") else "yes"


def interval(record: Importance) -> str:
    """Return the corrected score with its interval, as in ``-0.42 [-0.90, +0.10]``."""
    if not math.isfinite(record.importance_corrected):
        return MISSING
    return f"{signed(record.importance_corrected)} {bracketed(record.importance_ci_low, record.importance_ci_high)}"


def verdict(record: Importance) -> Verdict:
    """Return what the published score of a factor says, and how far its interval lets us trust it."""
    if design_named(record.design).baseline:
        return _baseline(record)
    if not math.isfinite(record.importance):
        return Verdict("unknown", f"no verdict, there is no importance score ({_reason(record)}).")
    important = record.importance > 0
    word: Status = "important" if important else "not important"
    status: Status = "important?" if important else "not important?"
    own, others = points(record.contributed_std), points(record.mitigated_std)
    because = (
        f"changing it alone moves the score by {own} points (std), changing all other factors by {others}"
        if MISSING not in (own, others)
        else f"the score is {'' if important else 'not '}above 0"
    )
    low, high = record.importance_ci_low, record.importance_ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        trust = "there is no interval, so this may be luck"
    else:
        shown = f"{percent(record.level)} interval of the corrected score {between(low, high)}"
        if (low > 0 and important) or (high < 0 and not important):
            status, trust = word, shown
        else:
            trust = (
                f"{shown} holds 0: not certain, more runs would tell"
                if low <= 0 <= high
                else f"{shown} says the opposite: the published score is biased by the few runs, trust the interval"
            )
    return Verdict(status, f"{word} ({signed(record.importance)}): {because}; {trust}.")


def _baseline(record: Importance) -> Verdict:
    important = baseline_important(record.score_std, record.golden_std)
    if important is None:
        return Verdict("unknown", f"no verdict by the {record.design} strategy ({_reason(record)}).")
    word = "important" if important else "not important"
    return Verdict(
        "important?" if important else "not important?",
        f"the std of the runs is {points(record.score_std)} points, {plain(golden_share(record))} of the "
        f"{golden_word(record)} std: {word} by the {record.design} strategy (important from half on); "
        "there is no interval, so this may be luck.",
    )


def _reason(record: Importance) -> str:
    """Return why a factor has no verdict."""
    baseline = design_named(record.design).baseline
    if baseline and int(np.isfinite(record.table).sum()) < 2:
        return "fewer than 2 of its runs have a score"
    if not baseline and record.rows_used < 2:
        return f"{record.rows_used} complete rows, at least 2 are needed"
    if int(np.isfinite(record.golden).sum()) < 2:
        return f"fewer than 2 {golden_runs(record)} have a score"
    if record.golden_std == 0:
        return f"all {golden_runs(record)} have the same score"
    return "the standard deviations are missing"


def is_graded(analysis: Analysis) -> bool:
    """Return whether predictions may agree in part, so that CON is a mean and CCON says how good they are."""
    return analysis.agreement not in (None, "exact_match", "regression")

"""Numbers and verdicts as people read them, the same in the terminal and in the HTML report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mlflow_l3d.analysis.results import Analysis, Consistency, FloatArray, Importance

MISSING = "n/a"
"""What stands where there is no number."""
SINGLE_RUN_LIMIT = 1.96 * math.sqrt(2)
"""Two normal scores of equal mean differ by more than this many standard deviations one time in twenty."""

Status = Literal["important", "important?", "not important", "not important?", "unknown"]


def points(value: float, digits: int = 2) -> str:
    """Return a fraction (0..1) in percentage points, ``n/a`` where it is not finite."""
    return f"{100 * value + 0.0:.{digits}f}" if math.isfinite(value) else MISSING


def signed(value: float) -> str:
    """Return a number without a unit with its sign and two decimals, ``n/a`` where it is not finite."""
    return f"{value + 0.0:+.2f}" if math.isfinite(value) else MISSING


def shorten(text: str, width: int) -> str:
    """Return `text` on one line of printable characters, cut to at most `width` of them."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= width else line[: width - 3] + "..."


def by_importance(analysis: Analysis) -> list[Importance]:
    """Return the factors, most important first by the published score; those without a score last."""
    return sorted(
        analysis.importances.values(),
        key=lambda record: -record.importance if math.isfinite(record.importance) else math.inf,
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be said about one factor.

    Attributes
    ----------
    status
        By the published score (above 0 is important); with ``?`` where the interval of the corrected score holds 0,
        is missing, or lies on the other side of 0.
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
    """Return the corrected score with its 95 % interval, as in ``-0.42 [-0.90, +0.10]``."""
    if not math.isfinite(record.importance_corrected):
        return MISSING
    low, high = signed(record.importance_ci_low), signed(record.importance_ci_high)
    bounds = MISSING if MISSING in (low, high) else f"[{low}, {high}]"
    return f"{signed(record.importance_corrected)} {bounds}"


def verdict(record: Importance) -> Verdict:
    """Return what the published score of a factor says, and how far its interval lets us trust it."""
    if not math.isfinite(record.importance):
        return Verdict("unknown", f"no verdict, there is no importance score ({_reason(record)}).")
    important = record.importance > 0
    own, others = points(record.contributed_std), points(record.mitigated_std)
    because = (
        f"changing it alone moves the score by {own} points (std), changing all other factors by {others}"
        if MISSING not in (own, others)
        else "the score is above 0"
        if important
        else "the score is not above 0"
    )
    word: Status = "important" if important else "not important"
    low, high = record.importance_ci_low, record.importance_ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        status: Status = "important?" if important else "not important?"
        trust = "there is no interval, so this may be luck"
    else:
        shown = f"95 % interval of the corrected score {signed(low)} to {signed(high)}"
        if (low > 0 and important) or (high < 0 and not important):
            status, trust = word, shown
        else:
            status = "important?" if important else "not important?"
            trust = (
                f"{shown} holds 0: not certain, more mitigation runs would tell"
                if low <= 0 <= high
                else f"{shown} says the opposite: the published score is biased by the few runs, trust the interval"
            )
    return Verdict(status, f"{word} ({signed(record.importance)}): {because}; {trust}.")


def _reason(record: Importance) -> str:
    if record.rows_used < 2:
        return f"{record.rows_used} complete rows, at least 2 are needed"
    if int(np.isfinite(record.golden).sum()) < 2:
        return "fewer than 2 golden runs have a score"
    if record.golden_std == 0:
        return "all golden runs have the same score"
    return "the standard deviations are missing"


def golden_scores(analysis: Analysis) -> FloatArray:
    """Return the finite golden scores, shape (at most L,); the factors share them, the fullest set counts."""
    sets = [record.golden[np.isfinite(record.golden)] for record in analysis.importances.values()]
    return max(sets, key=len, default=np.empty(0))


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the report's questions with its answer: a short one, and sentences below it."""

    question: str
    short: str
    sentences: tuple[str, ...]


def answers(analysis: Analysis) -> tuple[Answer, Answer, Answer]:
    """Return the three questions that the report opens with, answered in plain words."""
    return _luck(analysis), _which(analysis), _stable(analysis)


def _luck(analysis: Analysis) -> Answer:
    question = "How much of the score is luck?"
    scores = golden_scores(analysis)
    if len(scores) < 2:
        return Answer(question, MISSING, (f"{len(scores)} golden runs have a score; at least 2 are needed.",))
    mean, std = float(scores.mean()), float(scores.std())
    low, high = float(scores.min()), float(scores.max())
    return Answer(
        question,
        f"{points(mean)} ± {points(std)}",
        (
            f"{analysis.metric} in percentage points, mean ± standard deviation over {len(scores)} golden runs: the "
            "same training repeated with every randomness factor changed.",
            f"The unluckiest run scored {points(low)}, the luckiest {points(high)}: {points(high - low)} points apart.",
            f"Rule of thumb: one run of each of two methods tells them apart only where they differ by more than "
            f"{points(SINGLE_RUN_LIMIT * std, 1)} points.",
        ),
    )


def _which(analysis: Analysis) -> Answer:
    question = "Which kind of luck is it?"
    records = by_importance(analysis)
    known = [(record, verdict(record)) for record in records if math.isfinite(record.importance)]
    if not known:
        return Answer(question, MISSING, ("No investigated factor has an importance score.",))
    sure = [record.factor for record, found in known if found.status == "important"]
    maybe = [record.factor for record, found in known if found.status == "important?"]
    named = (sure or maybe)[:2] or ["none of them" if len(known) > 1 else f"not {known[0][0].factor}"]
    more = len(sure or maybe) - len(named)
    certain_no = [record.factor for record, found in known if found.status == "not important"]
    open_no = [record.factor for record, found in known if found.status == "not important?"]
    unsure = not sure and bool(maybe or open_no)
    short = ", ".join(named) + (f" and {more} more" if more > 0 else "") + (" (unsure)" if unsure else "")
    parts = (
        ("Important: ", sure),
        ("Important by the score, but unsure: ", maybe),
        ("Not important: ", certain_no),
        ("Not important by the score, but unsure: ", open_no),
    )
    sentences = [head + ", ".join(factors) + "." for head, factors in parts if factors]
    top = known[0][0]
    own, others = points(top.contributed_std), points(top.mitigated_std)
    if MISSING not in (own, others):
        sentences.append(f"{top.factor} alone moves the score by {own} points (std), all other factors by {others}.")
    sentences.append("A factor is important where it moves the score more than all other factors together do.")
    return Answer(question, short, tuple(sentences))


def _stable(analysis: Analysis) -> Answer:
    question = "Are single predictions stable?"
    group = analysis.consistencies.get("golden")
    where = "two golden runs"
    if group is None or not math.isfinite(group.consistency):
        found = [one for one in analysis.consistencies.values() if math.isfinite(one.consistency)]
        if not found:
            return Answer(question, MISSING, ("The runs hold no predictions to compare.",))
        group = min(found, key=lambda one: one.consistency)
        where = f"two runs that differ in {group.group} only"
    return Answer(question, f"{points(group.consistency, 1)} % agree", _stable_sentences(group, where))


def _stable_sentences(group: Consistency, where: str) -> tuple[str, ...]:
    sentences = [
        f"Mean share of test examples on which {where} give the same prediction (consistency, over {group.runs} runs)."
    ]
    if math.isfinite(group.correct_consistency):
        sentences.append(
            f"Both are right on {points(group.correct_consistency, 1)} %, and agree on a wrong answer on "
            f"{points(group.consistency - group.correct_consistency, 1)} %."
        )
    changed = 1 - group.consistency
    sentences.append(
        f"Training again changes about one prediction in {1 / changed:,.0f}."
        if 0.001 <= changed <= 0.4
        else f"Training again changes {points(changed, 1)} % of the predictions."
    )
    if group.unparsed_share > 0:
        sentences.append(f"{points(group.unparsed_share, 1)} % of the predictions name no class.")
    return tuple(sentences)

"""The three questions that a result opens with, answered in plain words, the same in the terminal and in HTML."""

from __future__ import annotations

import math

import numpy as np

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.investigation.verdicts import (
    Status,
    Verdict,
    by_importance,
    golden_record,
    golden_runs,
    golden_share,
    golden_word,
    is_graded,
    verdict,
)
from mlflow_l3d.report.numbers import MISSING, plain, points
from mlflow_l3d.report.text import Answer

SINGLE_RUN_LIMIT = 1.96 * math.sqrt(2)
"""Two normal scores of equal mean differ by more than this many standard deviations one time in twenty."""

_DRAWN = {
    "golden runs": "the same work repeated with every randomness factor changed",
    "pooled runs": "the cells of all tables take the place of golden runs and vary less than these would",
}


def answers(analysis: Analysis) -> tuple[Answer, Answer, Answer]:
    """Return the three questions that the report opens with, answered in plain words."""
    which = _baseline_which if design_named(analysis.design).baseline else _which
    return _luck(analysis), which(analysis), _stable(analysis)


def early_stops(analysis: Analysis) -> tuple[str, ...]:
    """Return why an investigation ended when it did; empty where no stopping rule ended it."""
    found = analysis.interim_analyses
    if found is None or not len(found) or not {"factor", "rows", "decision", "reason"} <= set(found):
        return ()
    last = found.groupby("factor", sort=False).tail(1)
    if (last["decision"] != "stop").any() or not set(analysis.importances) <= set(last["factor"]):
        return ()
    rows = int(last["rows"].max())
    if len(last) == 1:
        return (f"Stopped by its rule: {last['reason'].iloc[0]}.",)
    final = last.sort_values("rows", kind="stable").iloc[-1]
    return (
        f"Stopped after {rows} rows, when the rule of every factor had said stop; the last was that of "
        f"{final['factor']}: {final['reason']}.",
    )


def _luck(analysis: Analysis) -> Answer:
    question = "How much of the score is luck?"
    record = golden_record(analysis)
    runs = golden_runs(record)
    scores = np.empty(0) if record is None else record.golden[np.isfinite(record.golden)]
    if record is None or len(scores) < 2:
        return Answer(question, MISSING, (f"{len(scores)} {runs} have a score; at least 2 are needed.",))
    # A design's own runs are not independent of each other; the record's std allows for it.
    design = design_named(record.design)
    std = record.golden_std if design.own_golden else float(scores.std())
    low, high = float(scores.min()), float(scores.max())
    return Answer(
        question,
        f"{points(float(scores.mean()))} ± {points(std)}",
        (
            f"{analysis.metric} in percentage points, mean ± standard deviation over {len(scores)} {runs}: "
            f"{design.words.drawn or _DRAWN[runs]}.",
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
    short, sentences = _sorted_out(known)
    top = known[0][0]
    own, others = points(top.contributed_std), points(top.mitigated_std)
    if MISSING not in (own, others):
        sentences.append(f"{top.factor} alone moves the score by {own} points (std), all other factors by {others}.")
    sentences += _together(analysis)
    sentences.append("A factor is important where it moves the score more than all other factors together do.")
    return Answer(question, short, tuple(sentences))


def _sorted_out(known: list[tuple[Importance, Verdict]]) -> tuple[str, list[str]]:
    groups: dict[Status, list[str]] = {"important": [], "important?": [], "not important": [], "not important?": []}
    for record, found in known:
        if found.status in groups:
            groups[found.status].append(record.factor)
    sure, maybe = groups["important"], groups["important?"]
    named = (sure or maybe)[:2] or ["none of them" if len(known) > 1 else f"not {known[0][0].factor}"]
    more = len(sure or maybe) - len(named)
    unsure = not sure and bool(maybe or groups["not important?"])
    short = ", ".join(named) + (f" and {more} more" if more > 0 else "") + (" (unsure)" if unsure else "")
    parts = (
        ("Important: ", sure),
        ("Important by the score, but unsure: ", maybe),
        ("Not important: ", groups["not important"]),
        ("Not important by the score, but unsure: ", groups["not important?"]),
    )
    return short, [head + ", ".join(factors) + "." for head, factors in parts if factors]


def _together(analysis: Analysis) -> list[str]:
    """Return what holds for all factors together; nothing for one factor."""
    known = [name for name, p in analysis.p_holm.items() if math.isfinite(p) and name in analysis.importances]
    if len(known) < 2:
        return []
    certain = [name for name in known if analysis.p_holm[name] <= 1 - analysis.importances[name].level]
    named = ", ".join(certain) if certain else "none"
    return [f"All {len(known)} claims taken together (Holm), important for certain: {named}."]


def _baseline_which(analysis: Analysis) -> Answer:
    question = "Which kind of luck is it?"
    known = [(record, found) for record in by_importance(analysis) if (found := verdict(record)).status != "unknown"]
    about = (
        f"The {analysis.design} strategy has no importance score: it calls a factor important where the std of its "
        f"runs is at least half the golden std{design_named(analysis.design).words.caution}"
    )
    if not known:
        return Answer(question, MISSING, ("No investigated factor has a result.", about))
    yes = [record.factor for record, found in known if found.yes_or_no == "yes"]
    named = yes[:2] or ["none of them" if len(known) > 1 else f"not {known[0][0].factor}"]
    more = f" and {len(yes) - 2} more" if len(yes) > 2 else ""
    sentences = [
        f"{record.factor}: the std of the runs is {points(record.score_std)} points, {plain(golden_share(record))} of "
        f"the {golden_word(record)} std."
        for record, _ in known[:3]
    ]
    return Answer(question, f"{', '.join(named)}{more} (by the {analysis.design} strategy)", (*sentences, about))


def _stable(analysis: Analysis) -> Answer:
    question = "Are single predictions stable?"
    group = analysis.consistencies.get("golden")
    where = _compared(analysis)
    if group is None or not math.isfinite(group.consistency):
        found = [one for one in analysis.consistencies.values() if math.isfinite(one.consistency)]
        if not found:
            return _stable_numbers(question, analysis)
        group = min(found, key=lambda one: one.consistency)
        where = _compared_within(analysis, group.group)
    sentences = _stable_sentences(analysis, group, where)
    if analysis.regression:
        sentences += _stable_numbers(question, analysis).sentences
    votes = analysis.examples
    if votes is not None and math.isfinite(votes.robust_share):
        shares = (
            f"{points(votes.robust_share, 1)} % of the examples are right in every run, "
            f"{points(votes.never_right_share, 1)} % in none; {points(votes.fragile_share, 1)} % depend on luck."
        )
        sentences = (*sentences, shares)
    short = "mean agreement" if is_graded(analysis) else "agree"
    return Answer(question, f"{points(group.consistency, 1)} % {short}", sentences)


def _compared(analysis: Analysis) -> str:
    """Return which runs are compared where every factor changes."""
    pooled = golden_word(golden_record(analysis)) == "pooled"
    return "two pooled runs" if pooled else design_named(analysis.design).words.compared


def _compared_within(analysis: Analysis, factor: str) -> str:
    """Return which runs are compared in the table of a factor."""
    return design_named(analysis.design).words.within.format(factor=factor)


def _stable_numbers(question: str, analysis: Analysis) -> Answer:
    """Return the answer for predicted numbers, from the golden runs or else from the factor that agrees least."""
    known = {name: metrics for name, metrics in analysis.regression.items() if metrics}
    if not known:
        none = (
            "hold no predictions to compare"
            if not analysis.regression
            else "predict too few different numbers to correlate"
        )
        return Answer(question, MISSING, (f"The runs {none}.",))
    values = {
        name: [one.get(f"consistency_{kind}", math.nan) for kind in ("pearson", "ccc")] for name, one in known.items()
    }
    least = min(known, key=lambda name: min(known[name].values()))
    pearson, ccc = values.get("golden", values[least])
    where = _compared(analysis) if "golden" in known else _compared_within(analysis, least)
    short = f"Pearson's correlation {plain(pearson)}" if math.isfinite(pearson) else f"concordance {plain(ccc)}"
    return Answer(
        question,
        short,
        (
            f"Of the numbers that {where} predict, mean over pairs: Pearson's correlation {plain(pearson)} (blind to "
            f"shift and scale), Lin's concordance {plain(ccc)} (1 only for equal predictions).",
        ),
    )


def _stable_sentences(analysis: Analysis, group: Consistency, where: str) -> tuple[str, ...]:
    graded, correct = is_graded(analysis), points(group.correct_consistency, 1)
    sentences = [
        f"Mean {analysis.agreement} of the predictions of {where} for one test example (consistency, over "
        f"{group.runs} runs); 100 % is full agreement."
        if graded
        else f"Mean share of test examples on which {where} give the same prediction (consistency, over {group.runs} "
        "runs)."
    ]
    if correct != MISSING:
        sentences.append(
            f"Against the truth: {correct} % (correct consistency)."
            if graded
            else f"Both are right on {correct} %, and agree on a wrong answer on "
            f"{points(group.agreement_on_wrong, 1)} %."
        )
    if not graded:
        changed = 1 - group.consistency
        sentences.append(
            f"Another run changes about one prediction in {1 / changed:,.0f}."
            if 0.001 <= changed <= 0.4
            else f"Another run changes {points(changed, 1)} % of the predictions."
        )
    if group.unparsed_share > 0:
        what = "name no class" if analysis.agreement is None else "could not be read"
        sentences.append(f"{points(group.unparsed_share, 1)} % of the predictions {what}.")
    return tuple(sentences)

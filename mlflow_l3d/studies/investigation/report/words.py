"""The three questions that a result opens with, answered in plain words, the same in the terminal and in HTML."""

from __future__ import annotations

import math
from typing import Final, get_args

import numpy as np

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES, TEN
from mlflow_l3d.analysis.consistency.results import Consistency
from mlflow_l3d.analysis.importance.checks.shape import Collapse
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.verdicts import Word
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.numbers import MISSING, between, counted, plain, points, signed
from mlflow_l3d.report.table import Answer
from mlflow_l3d.studies.investigation.report.verdicts import Shown

SINGLE_RUN_LIMIT = 1.96 * math.sqrt(2)
"""Two normal scores of equal mean differ by more than this many standard deviations one time in twenty."""

_LOOKED = (
    "Intervals allow for every interim analysis of the rule and for all factors. If a rule stops at a verdict, the "
    "importance lies too far from 0 on average: quote its interval, not the importance alone."
)
_DRAWN = {
    "golden": "the same work repeated with every randomness factor changed",
    "pooled": "the cells of all tables take the place of golden runs and vary less than these would",
}
_SHORT: Final = 3
"""More undecided factors than this are not told of one by one."""


def answers(shown: Shown) -> tuple[Answer, Answer, Answer]:
    """Return the three questions that the report opens with, answered in plain words."""
    return _luck(shown), _baseline_which(shown) if shown.design.baseline else _which(shown), _stable(shown)


def early_stops(analysis: Analysis) -> tuple[str, ...]:
    """Return why an investigation ended when it did; empty if no stopping rule ended it."""
    looks = analysis.interim_analyses
    if looks is None or not len(looks):
        return ()
    last = looks.groupby("factor", sort=False).tail(1)
    sentences = (_LOOKED,) if last["alpha"].notna().any() else ()
    if (last["decision"] != "stop").any() or not set(analysis.importances) <= set(last["factor"]):
        return sentences
    final = last.sort_values("rows", kind="stable").iloc[-1]
    if len(last) == 1:
        return (f"Stopped by its rule: {final['reason']}.", *sentences)
    return (
        f"Stopped after {final['rows']} rows, when the rule of every factor said stop; that of {final['factor']}: "
        f"{final['reason']}.",
        *sentences,
    )


def _luck(shown: Shown) -> Answer:
    question = "How much of the score is luck?"
    record, runs, unit = shown.golden, shown.golden_runs, shown.unit
    scores = np.empty(0) if record is None else record.golden[np.isfinite(record.golden)]
    if record is None or len(scores) < 2:
        return Answer(question, MISSING, (f"{len(scores)} {runs} have a score; at least 2 are needed.",))
    # A design's own runs are not independent of each other; the record's std allows for it.
    std = record.golden_std if shown.design.tables_are_golden else float(scores.std())
    low, high = float(scores.min()), float(scores.max())
    unlucky, lucky = (low, high) if shown.analysis.metric.greater_is_better else (high, low)
    bounds = between(record.golden_std_ci_low, record.golden_std_ci_high, unit.text)
    collapse = shown.analysis.collapse
    sure = "" if bounds == MISSING else f" ({shown.say('{level}')} interval of the deviation {bounds})"
    return Answer(
        question,
        f"{unit.text(float(scores.mean()))} ± {unit.text(std)}",
        (
            f"{shown.analysis.metric} in {unit.name}, mean ± standard deviation over {len(scores)} {runs}{sure}: "
            f"{shown.design.words.drawn or _DRAWN[shown.golden_word]}.",
            *([] if collapse is None or not collapse.collapsed else [_parts(shown, collapse, len(scores))]),
            f"The unluckiest run scored {unit.text(unlucky)}, the luckiest {unit.text(lucky)}: "
            f"{unit.amount(high - low)} apart.",
            f"Rule of thumb: one run of each of two methods distinguishes them only if they differ by more than "
            f"{unit.text(SINGLE_RUN_LIMIT * std, 1)} {unit.noun}.",
        ),
    )


def _which(shown: Shown) -> Answer:
    question = "Which kind of luck is it?"
    records = [record for record in shown.records if math.isfinite(record.importance_corrected)]
    if not records:
        return Answer(question, MISSING, ("No investigated factor has an importance.",))
    factors = {word: [each.factor for each in records if shown.verdict(each) == word] for word in get_args(Word)}
    sentences = [" ".join(f"{word.capitalize()}: {', '.join(names)}." for word, names in factors.items() if names)]
    if advice := [f"{name}: {each.text}" for name, each in shown.analysis.advice.items() if each.text]:
        sentences.append(" ".join(advice) if len(advice) <= _SHORT else "See each factor for advice.")
    sentences.append(f"{records[0].factor} {shown.moves(records[0])}.")
    if shown.analysis.collapse is not None:
        sentences += _two_parts(shown.analysis.collapse)
    sentences.append(
        f"A factor dominates if it makes up more than half of the variance of the score, interactions included, and is "
        f"minor if it makes up less; it is undecided if its {shown.say('{level}')} interval contains one half"
        f"{shown.together}. An interaction counts for each factor in it, so that several can dominate."
    )
    open_ = factors["undecided"] and not factors["dominates"]
    return Answer(question, "undecided" if open_ else _named(factors["dominates"], records), tuple(sentences))


def _baseline_which(shown: Shown) -> Answer:
    question, strategy = "Which kind of luck is it?", shown.analysis.design
    records = [record for record in shown.records if shown.is_important(record) is not None]
    about = (
        f"The {strategy} strategy has no importance: it calls a factor important if the std of its runs is at "
        f"least half the golden std{shown.design.words.caution}"
    )
    if not records:
        return Answer(question, MISSING, ("No investigated factor has a result.", about))
    short = _named([record.factor for record in records if shown.is_important(record)], records)
    sentences = [f"{record.factor}: {shown.share(record)}." for record in records[:3]]
    return Answer(question, f"{short} (by the {strategy} strategy)", (*sentences, about))


def _named(factors: list[str], records: list[Importance]) -> str:
    """Return some of the factors of these records in a few words."""
    if not factors:
        return "none of them" if len(records) > 1 else f"not {records[0].factor}"
    return ", ".join(factors[:2]) + (f" and {len(factors) - 2} more" if len(factors) > 2 else "")


def _parts(shown: Shown, collapse: Collapse, runs: int) -> str:
    """Return the two parts of the luck."""
    low, high = (points(end, 1) for end in collapse.share_interval())
    rest = next(iter(collapse.rest.values())).golden_std
    which = "of them" if collapse.runs == runs else "independent runs"
    return (
        f"{collapse.collapsed} of {collapse.runs} {which} score below chance (of all possible runs {low} to {high} %); "
        f"without these, the deviation is {shown.unit.amount(rest)}."
    )


def _two_parts(collapse: Collapse) -> list[str]:
    """Return which factor decides which runs collapse, and what matters among the others."""
    above = [record for record in collapse.causes.values() if record.importance_corrected > 0]
    causes = [record.factor for record in above if record.importance_corrected_ci_low > 0]
    perhaps = [record.factor for record in above if record.factor not in causes]
    deciding = f"{' and '.join(causes)} decide{'s' * (len(causes) == 1)} which ones"
    if not causes:
        deciding = "which factor decides which ones is not established"
        deciding += f", perhaps {' or '.join(perhaps)}" if perhaps else ""
    rest = [record for record in collapse.rest.values() if math.isfinite(record.importance_corrected)]
    rest.sort(key=lambda record: -record.importance_corrected)
    among = ", ".join(f"{record.factor} {signed(record.importance_corrected)}" for record in rest)
    return [
        f"Some runs collapse, so that intervals of the whole score do not hold; {deciding}.",
        *([f"Corrected importance among the others: {among}."] if among else []),
    ]


def _stable(shown: Shown) -> Answer:
    question, analysis = "Are single predictions stable?", shown.analysis
    groups = {name: one for name, one in analysis.consistencies.items() if math.isfinite(one.consistency)}
    if not groups:
        return _stable_numbers(question, shown)
    group = groups.get("golden") or min(groups.values(), key=lambda one: one.consistency)
    is_reported = shown.agreement(group.group) is not None
    sentences = _stable_sentences(shown, group) if is_reported else [_too_few(shown, group)]
    sentences += _unparsed(shown, group)
    if analysis.regression:
        sentences += _stable_numbers(question, shown).sentences
    votes = analysis.examples
    if votes is not None and len(votes.frame) >= FEWEST_EXAMPLES:
        fewest, most = votes.runs
        saw = f"{most}" if fewest == most else f"{fewest} to {most}"
        sentences.append(
            f"{points(votes.robust_share, 1)} % of the {len(votes.frame):,} examples that two or more runs saw are "
            f"right in every run that saw them ({saw} runs), "
            f"{points(votes.never_right_share, 1)} % in none; {points(votes.fragile_share, 1)} % depend on luck."
        )
        if most > TEN and votes.seen_by_ten >= FEWEST_EXAMPLES:
            sentences.append(
                f"In any ten runs these shares are {points(votes.robust_share_10, 1)} %, "
                f"{points(votes.never_right_share_10, 1)} % and {points(votes.fragile_share_10, 1)} % of the "
                f"{votes.seen_by_ten:,} examples that ten saw. Compare these with other studies: with more runs, fewer "
                "examples are right in all."
            )
    word = "mean agreement" if shown.graded else "agree"
    short = f"{points(group.consistency, 1)} % {word}" if is_reported else MISSING
    return Answer(question, short, tuple(sentences))


def _too_few(shown: Shown, group: Consistency) -> str:
    """Return why the report has no agreement of a group."""
    seen, votes = shown.examples_behind(group), shown.analysis.examples
    what = "comparison" if votes is None or group.group != "golden" else "test example"
    return (
        f"How far {_compared(shown, group.group)} agree is not reported: there are {counted(seen, what)}, and at least "
        f"{FEWEST_EXAMPLES} are needed. Raise test_size, or keep one test set for all runs with test_selection=fixed."
    )


def _rests_on(shown: Shown, group: Consistency) -> str:
    """Return what the agreement of a group rests on."""
    pairs, common = group.pairs_of_runs, group.common_examples
    if not math.isfinite(pairs):
        return f"over {group.runs} runs, {group.pairs_of_predictions:,} comparisons"
    each = f"{common:,.0f}" if common >= 10 else f"{common:.2g}"
    votes = shown.analysis.examples if group.group == "golden" else None
    every = "" if votes is None or len(votes.frame) <= common else f", {len(votes.frame):,} in all"
    return f"over {group.runs} runs: {counted(int(pairs), 'pair')} that share {each} examples on average{every}"


def _compared(shown: Shown, group: str) -> str:
    """Return which runs of a group are compared: of the table of a factor, or those in which every factor changes."""
    if group != "golden":
        return shown.design.words.within.format(factor=group)
    return "two pooled runs" if shown.golden_word == "pooled" else shown.design.words.compared


def _stable_numbers(question: str, shown: Shown) -> Answer:
    """Return the answer for predicted numbers, from the golden runs or else from the factor that agrees least."""
    groups = {name: metrics for name, metrics in shown.analysis.regression.items() if metrics}
    if not groups:
        few = "predict too few different numbers to correlate"
        none = few if shown.analysis.regression else "hold no predictions to compare"
        return Answer(question, MISSING, (f"The runs {none}.",))
    group = "golden" if "golden" in groups else min(groups, key=lambda name: min(groups[name].values()))
    pearson, ccc = (groups[group].get(f"consistency_{kind}", math.nan) for kind in ("pearson", "ccc"))
    return Answer(
        question,
        f"Pearson's correlation {plain(pearson)}" if math.isfinite(pearson) else f"concordance {plain(ccc)}",
        (
            f"Of the numbers that {_compared(shown, group)} predict, mean over pairs: Pearson's correlation "
            f"{plain(pearson)} (blind to shift and scale), Lin's concordance {plain(ccc)} (1 only for equal "
            "predictions).",
        ),
    )


def _stable_sentences(shown: Shown, group: Consistency) -> list[str]:
    compared, agreement = _compared(shown, group.group), shown.analysis.agreement
    correct, changed = points(group.correct_consistency, 1), 1 - group.consistency
    if shown.graded:
        sentences = [
            f"Mean {agreement} of the predictions of {compared} for one test example (consistency, "
            f"{_rests_on(shown, group)}); 100 % is full agreement."
        ]
        if correct != MISSING:
            sentences.append(f"Against the truth: {correct} % (correct consistency).")
    else:
        sentences = [
            f"Mean share of test examples on which {compared} give the same prediction (consistency, "
            f"{_rests_on(shown, group)})."
        ]
        if correct != MISSING:
            wrong = points(group.agreement_on_wrong, 1)
            sentences.append(f"Both are right on {correct} %, and agree on a wrong answer on {wrong} %.")
        one_in = f"about one prediction in {1 / changed:,.0f}" if 0.001 <= changed <= 0.4 else ""
        sentences.append(f"Another run changes {one_in or f'{points(changed, 1)} % of the predictions'}.")
    return sentences


def _unparsed(shown: Shown, group: Consistency) -> list[str]:
    if not group.unparsed_share > 0:
        return []
    what = "name no class" if shown.analysis.agreement is None else "could not be read"
    return [f"{points(group.unparsed_share, 1)} % of the {group.runs} runs' predictions {what}."]

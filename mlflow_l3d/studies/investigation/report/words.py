"""What the report of an investigation says first: a sentence that decides, three answers, and what to do next."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.cure import DETECTED, MOST_PAIRS, Remedy
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.shape import single_run_limit
from mlflow_l3d.analysis.importance.tables import constant
from mlflow_l3d.report.draw import nice_step
from mlflow_l3d.report.numbers import counted, listed, plain, points, rough_duration
from mlflow_l3d.report.remedies import beginning, labels_note, less_text, plain_words, remedy_words
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Answer, Step, all_of, changed_predictions, few_runs, may_be_luck
from mlflow_l3d.studies.investigation.report import details
from mlflow_l3d.studies.investigation.report.runs import Runs
from mlflow_l3d.studies.investigation.report.verdicts import Shown


def headline(shown: Shown) -> str:
    """Return the sentence that decides."""
    scores, unit = shown.golden_scores, shown.unit
    if len(scores) < 2:
        return "Too few runs have a score to say how much of it is luck."
    if shown.golden_deviation == 0:
        same = f"All {len(scores)} {shown.golden_runs} scored {unit.text(float(scores[0]), 1)}"
        tables = (record.table[np.isfinite(record.table)] for record in shown.records)
        if not constant(np.concatenate([scores, *tables])):
            return f"{same}, but other runs did not: {len(scores)} are too few to say how much is luck."
        return f"{same}: the varied factors change no score."
    if shown.analysis.few_tests:
        return f"{counted(shown.analysis.test_examples, 'test example')}: no answer is possible."
    collapse = shown.analysis.collapse
    if collapse is not None and collapse.collapsed:
        share = f"{points(collapse.collapsed / collapse.runs, 0)} % of the runs"
        return may_be_luck("single runs", _limit(shown, [*collapse.rest.values()]), share)
    limit = _limit(shown, shown.records)
    if shown.analysis.guessing:
        share = f"{points(shown.analysis.guessing / len(scores), 0)} % of the runs are no better than guessing"
        return f"{share}; a difference below {limit} may be [[luck|luck]]."
    return may_be_luck("single runs", limit)


def _limit(shown: Shown, records: Sequence[Importance]) -> str:
    """Return the distance below which two runs may differ by luck, with its unit."""
    scores, std, degrees = shown.design.run_spread(records)
    return shown.unit.size(single_run_limit(scores, std, degrees, span=shown.analysis.metric.span))


def answers(shown: Shown, source: Source | None = None) -> tuple[Answer, ...]:
    """Return the questions that the report opens with, answered in plain words."""
    source = source or Source()
    which = _which(shown)
    if shown.design.lists:
        means = " ".join(_level_means(shown, record, source) for record in shown.records)
        which = replace(which, sentences=(f"{which.lead} {means}", *which.sentences[1:]))
    return _luck(shown, source), which, _stable(shown), *_cured(shown, source)


def _level_means(shown: Shown, record: Importance, source: Source) -> str:
    """Return the mean score of each level of a list over the same rows, the highest first."""
    whole = record.table[np.isfinite(record.table).all(axis=1)]
    if not len(whole):
        return f"No row has a score at every level of {record.factor}."
    means = sorted(zip(whole.mean(axis=0), source.levels(record.factor, whole.shape[1]), strict=True), reverse=True)
    texts = [f"{name} **{shown.unit.text(float(mean), 1)}**" for mean, name in means]
    return f"Mean by {record.factor} over {counted(len(whole), 'row')}: {listed(texts)}."


def _cured(shown: Shown, source: Source) -> Iterator[Answer]:
    """Yield what would help, if that was looked at: what `cure` says of the same runs, by the same function."""
    if (remedies := shown.analysis.remedies) is not None:
        lead = remedies.reason
        if remedies.best:
            lead = f"**{beginning(remedies.best[0].remedy, 1)}** {less_text(remedies.best[0], shown.unit)}."
            lead += labels_note([remedies.best[0].remedy])
        if (cure := source.given.get("cure", "")).startswith("{"):
            lead = f"These runs have a remedy: {plain_words(Remedy(**json.loads(cure)))}. {lead}"
        if shown.analysis.guessing:
            below = " What is predicted below counts the runs that are not."
            lead = f"**First make all runs better than guessing (L3D005).**{below * bool(remedies.best)}"
        yield Answer("What would help?", "", (lead,))


def _luck(shown: Shown, source: Source) -> Answer:
    question, scores, unit = "How much is luck?", shown.golden_scores, shown.unit
    if len(scores) < 2:
        return Answer(question, "", (f"{len(scores)} {shown.golden_runs} have a score; at least 2 are needed.",))
    numbers = (scores.mean(), scores.min(), scores.max(), shown.golden_deviation)
    mean, low, high, deviation = (unit.text(float(value), unit.digits(shown.golden_deviation)) for value in numbers)
    noun = "training" if source.trains else "run"
    runs = f"Repeating the {noun} **{len(scores):,} times** with other seeds gave"
    if shown.runs > len(scores):
        runs = f"Of {shown.runs:,} {noun}s, **{len(scores):,} with everything redrawn** gave"
    if shown.golden_word == "pooled":
        runs = f"The **{len(scores):,} {noun}s** of all tables scored"
    metric = f"{shown.analysis.metric}, %" if unit.scale > 1 else str(shown.analysis.metric)
    lead = f"{runs} **{low} to {high}** ({metric}), [[typically|std]] **{mean} ± {deviation}**."
    lead += few_runs(shown.design.run_spread(shown.records)[2])
    if (alone := shown.analysis.luck_of_tests) > 0 and not shown.analysis.tests_drawn:
        lead += f" All runs share their {shown.analysis.test_examples:,} test examples, whose luck comes on top"
        lead += f": {unit.typical(alone)}."
    elif alone > 0:
        lead += f" {shown.analysis.test_examples:,} test examples alone cause {_of_tests(shown)}."
    return Answer(question, "", (lead, *details.luck_details(shown)))


def _of_tests(shown: Shown, whole: str = "it", behind: str = "") -> str:
    """Return how much of the spread test examples cause: an estimate that exceeds the whole is about the whole."""
    part = f"{shown.unit.typical(shown.analysis.luck_of_tests)}{behind}"
    return f"about all of {whole}" if shown.analysis.tests_share >= 1 else part


def _which(shown: Shown) -> Answer:
    records = [record for record in shown.records if math.isfinite(record.importance_corrected)]
    sentences: tuple[str, ...] = ("No investigated factor has an importance.",)
    if records or shown.design.baseline:
        lead = _baseline(shown) if shown.design.baseline else _kinds(shown, records)
        sentences = (lead, *details.which_details(shown))
    return Answer("Which kind of luck?", "", sentences)


def _kinds(shown: Shown, records: Sequence[Importance]) -> str:
    """Return the verdicts on all factors in one or two sentences."""
    above, below, open_ = (
        [record.factor for record in records if shown.verdict(record) == word]
        for word in ("dominates", "minor", "undecided")
    )
    if len(records) == 1:
        verdict = shown.verdict(records[0]) if above else f"is {shown.verdict(records[0])}"
        verdict = f"{records[0].factor} {verdict}{details.by_tests_text(shown, above)}"
        return f"**{verdict}:** [[involved in|share]] **{shown.share_text(records[0])}** of the variance."
    rest = [f"{listed(each)} {_be(each)} {word}" for each, word in ((below, "minor"), (open_, "undecided")) if each]
    tail = f" {'; '.join(rest)}." if rest else ""
    if above:
        verb = f"dominate{'s' if len(above) == 1 else ''}{details.by_tests_text(shown, above)}"
        return f"**{listed(above)} {verb}.**{tail}"
    if not open_:
        largest = f" The largest share has {records[0].factor}: {shown.share_text(records[0])}."
        return f"**No factor alone is involved in half of the variance.**{largest}"
    if not below:
        return f"**Undecided** for {all_of(len(open_))} factors{_why_open(shown, records)}."
    return f"**No factor is established to dominate.**{tail}"


def _why_open(shown: Shown, records: Sequence[Importance]) -> str:
    """Return why every factor is undecided: what holds for all of them, else of which factors it holds."""
    verdicts = {record.factor: shown.analysis.verdict(record.factor) for record in records}
    reason = next((verdict.reason for verdict in verdicts.values() if not verdict.needs_runs), "")
    if not reason:
        return f": {max(record.rows_used for record in records)} {shown.design.words.row} are too few"
    alike = [factor for factor, verdict in verdicts.items() if verdict.reason == reason]
    return f": {reason}" if len(alike) == len(records) else f". {listed(alike)}: {reason}"


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _baseline(shown: Shown) -> str:
    strategy = shown.analysis.design
    verdicts = {record.factor: shown.is_important(record) for record in shown.records}
    important = [name for name, is_important in verdicts.items() if is_important]
    if not {True, False} & {*verdicts.values()}:
        return "No investigated factor has a result."
    said = f"{listed(important)} {_be(important)} important" if important else "no factor is important"
    return f"By the {strategy} strategy, which has no importance score and no interval, **{said}**."


def _stable(shown: Shown) -> Answer:
    question, group = "Are single predictions stable?", details.stable_group(shown)
    more = tuple(details.stable_details(shown))
    if group is None:
        return Answer(question, "", more)
    agreed = f"{points(group.consistency, 1)} %"
    # Without golden runs that share examples, runs of one factor answer.
    who = "two runs" if group.group == "golden" else details.compared(shown, group.group)
    agree = f"[[{who[:1].upper()}{who[1:]} agree|agree]]"
    if shown.analysis.reported_agreement(group.group) is None:
        few = "two runs share less than one test example on average"
        if shown.analysis.examples_behind(group) < FEWEST_EXAMPLES:
            few = f"the runs share fewer than {FEWEST_EXAMPLES} test examples"
        lead = f"Not reported: {few}."
    elif shown.graded:
        beyond = "" if math.isnan(group.fleiss_kappa) else f"; beyond chance (kappa): {plain(group.fleiss_kappa)}"
        compared = f"{shown.analysis.agreement}{beyond}"
        lead = f"{agree} to **{agreed}** ({compared})."
    else:
        changed = changed_predictions(1 - group.consistency)
        lead = f"{agree} on **{agreed}** of the predictions{changed}."
    return Answer(question, "", (lead, *more))


def steps(shown: Shown, source: Source, runs: Runs | None = None) -> list[Step]:
    """Return what to do next, what would change the answer most first."""
    others = list(_next_steps(shown, source, runs or Runs()))
    remedies = shown.analysis.remedies
    is_offered = remedies is not None and remedies.std > 0 and (remedies.best or shown.analysis.guessing)
    if remedies is None or not is_offered or not source.run_id:
        return others[:2]
    text = "What would leave less luck? See every remedy:"
    cure = source.on_runs("cure", source.run_id)
    pairs = min(len(shown.golden_scores), MOST_PAIRS)
    decidable = next((each.remedy for each in remedies.best if each.is_decidable(pairs)), None)
    if decidable is not None and source.command() and not shown.analysis.guessing:
        text = "What would help is predicted from these runs. Verify it:"
        cure = source.on_runs("cure", source.run_id, verify=1, remedy=remedy_words(decidable))
    return [*others[:1], Step(text, cure)]


def _price(shown: Shown, runs: Runs, mitigation_runs: int, investigation_runs: int = 0) -> str:
    """Return how long larger tables of all factors train, one cell after the other; empty if it is not known."""
    rows, columns = shown.records[0].table.shape
    golden = 0 if shown.golden_word == "pooled" else round(len(shown.golden_scores) * mitigation_runs / rows)
    size = (len(shown.records), mitigation_runs, investigation_runs or columns, golden)
    seconds = float(pd.to_numeric(runs.cells.get("duration_seconds", pd.Series(dtype=float))).mean())
    hours = (shown.design.count(*size) - shown.runs) * seconds / 3600
    return f" (about {rough_duration(hours)} of training)" if hours > 0 else ""


def _next_steps(shown: Shown, source: Source, runs: Runs) -> Iterator[Step]:
    analysis, scores = shown.analysis, shown.golden_scores
    if analysis.cells_failed and source.can_repeat:
        yield Step(runs.without_score(analysis), source.command())
    if len(scores) > 1 and shown.golden_deviation == 0:
        shows = " A self-test shows it:" if source.can_repeat else ""
        yield Step(f"Does each seed reach the training?{shows}", source.command(self_test="only"))
        return
    if analysis.guessing:
        how = "longer, or with more labelled examples" if source.trains else "with another prompt format"
        yield Step(f"First make all runs better than guessing (L3D005): try them {how}, or with a larger model.")
    for check in analysis.checks:
        if check.code == "L3D016":
            text, _, line = check.message.partition(" data = ")
            yield Step(text, f"data = {line[:-1]}" if line else "")
    larger = {name: each for name, each in analysis.advice.items() if each.action in ("more_rows", "larger_table")}
    if analysis.few_tests or analysis.tests_share >= 0.5:
        luck = _of_tests(shown, "the luck", shown.unit.behind)
        tests = analysis.test_examples
        alone = f", since {tests:,} alone cause {luck}" if analysis.tests_share > 0 else ""
        advised, again = "Test more examples, or label more", ""
        if (unused := source.unused_tests) is not None:
            few = f"only {unused:,} test examples are unused" if unused else "all test examples are in use"
            advised = f"Label more examples ({few})"
            if 2 * unused >= tests:
                advised = f"Test more examples (test_size; {unused:,} are unused)"
                again = source.command(test_size=str(tests + min(unused, tests)))
        yield Step(f"{advised}{alone}:", again)
    if larger and not analysis.few_tests and source.can_repeat:
        more = {"mitigation_runs": str(max(each.rows or 0 for each in larger.values()))}
        if columns := [each.columns for each in larger.values() if each.columns]:
            more["investigation_runs"] = str(max(columns))
        price = _price(shown, runs, **{name: int(number) for name, number in more.items()})
        again = source.command(**more)
        sizes = "" if again else f" ({', '.join(map('='.join, more.items()))})"
        yield Step(f"More runs{sizes} may settle {listed([*larger])}{price}; finished ones count:", again)
    others = {
        name: one.text
        for name, one in analysis.advice.items()
        if one.action in ("look_at_runs", "other_design", "unaffordable")
    }
    for text in dict.fromkeys(others.values()):
        names = listed([name for name in others if others[name] == text])
        yield Step(f"{names}: {text}" if len(shown.records) > 1 else text)
    if len(shown.records) == 1 and source.can_repeat and shown.verdict(shown.records[0]) != "dominates":
        shows = "" if source.is_typed else " factor=all shows it."
        yield Step(f"What else moves the score?{shows}", source.command(factor="all"))
    std = shown.unit.scale * shown.golden_deviation if len(scores) > 1 else 0.0
    if std > 0 and source.run_id and shown.design.planning is not None:
        effect = nice_step(0.6 * std)
        needed = math.ceil(2 * (DETECTED * std / effect) ** 2)  # with a probability of 80 %
        unit = (" point" if effect == 1 else " points") if shown.unit.scale > 1 else ""
        text = f"Does a change help? To see a difference of {effect:g}{unit} takes about {needed} runs each"
        options = {"candidate": source.another, "smallest_effect": effect}
        if not source.is_typed:  # both sides must have their runs
            there = len(shown.records[0].table) if shown.golden_word == "pooled" else len(scores)
            if there < needed:
                text += f", and {there} are here"
            text += ". Investigate it with as many, and name its run"
            options |= {"candidate": "RUN_ID", "most_runs": min(needed, there)}
        if (metric := source.given.get("metric", "auto")) != "auto":
            options["metric"] = metric
        yield Step(f"{text}:", source.on_runs("gate", baseline=source.run_id, **options))

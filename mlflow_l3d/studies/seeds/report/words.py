"""What a seeds study answers, in sentences, and what a paper says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.importance.shape import single_run_limit
from mlflow_l3d.analysis.intervals import unseen_share
from mlflow_l3d.metrics.known import assumed_direction
from mlflow_l3d.report.draw import nice_step
from mlflow_l3d.report.numbers import MISSING, UNITS, between, counted, plain, points, unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import COMPARE, RETRY, Answer, Step, changed_predictions, few_runs, may_be_luck
from mlflow_l3d.studies.investigation.report.details import bibtex, escaped, with_caption
from mlflow_l3d.studies.seeds.numbers import SeedsStudy
from mlflow_l3d.studies.seeds.numbers.compared import AnswerChanges


def headline(study: SeedsStudy) -> str:
    """Return the sentence that decides."""
    scores, unit = scored(study), study.unit
    if study.changes is not None:
        return _changed_rows(study.changes)
    if len(scores) < 2:
        return f"Too few {unit}s have a score to say how much of it is luck."
    if study.collapsed_seeds:
        rest = scores.drop(list(study.collapsed_seeds), errors="ignore")
        share = f"{len(study.collapsed_seeds)} of {study.judged} {unit}s"
        if len(rest) < 2:
            return f"{share} [[collapsed|collapsed]]: the scores do not say how much is luck."
        return may_be_luck(f"{unit}s", _limit(study, rest), share)
    if study.own.std == 0:
        why = _hidden(study) or f"the {unit} does not change the score"
        return f"All {len(scores)} {unit}s scored {unit_of(study.metric).text(scores.iloc[0], 1)}: {why}."
    return may_be_luck(f"{unit}s", _limit(study, scores))


def _hidden(study: SeedsStudy) -> str:
    if study.metric.name in ("pearson", "spearman") and study.together.get("absolute_difference", 0) > 0:
        return f"of constant labels it is not defined ({study.metric}). Use --metric rmse"
    count = 0 if study.examples is None else len(study.examples.frame)
    differ = "their predictions differ, but " if count > 0 and study.pairs["consistency"].mean < 1 else ""
    if not differ and not 0 < count < FEWEST_EXAMPLES:
        return ""
    return f"{differ}{count} test examples show steps of {points(1 / max(count, 1), 1)} points only"


def scored(study: SeedsStudy) -> pd.Series:
    """Return the own metric of every seed that has it; the index are the seeds."""
    return study.scores[study.metric.name].dropna()


def _limit(study: SeedsStudy, scores: pd.Series) -> str:
    """Return the distance below which two scores may differ by luck, with its unit."""
    return unit_of(study.metric).size(single_run_limit(scores.to_numpy(), span=study.metric.span))


def digits(study: SeedsStudy) -> int:
    """Return with how many decimals a first screen writes the scores."""
    return unit_of(study.metric).digits(study.own.std)


def _changed_rows(changes: AnswerChanges, whom: str = "") -> str:
    """Return how many rows have more than one answer, in a sentence."""
    requests = f"{changes.repeats} identical requests{whom}"
    rows = f"{changes.rows:,} rows"
    if not changes.changed:
        return f"{requests} gave the same answer for each of {rows}."
    parts = f"; {changes.score_changed:,} of these change{'s' if changes.score_changed == 1 else ''} the score."
    if changes.unread:
        read = changes.changed - changes.unread
        parts = f": {read:,} change the answer, {changes.unread:,} are sometimes unreadable."
    return f"{requests} gave different answers for {changes.changed:,} of {rows}{parts}"


def study_answers(study: SeedsStudy, source: Source | None = None) -> tuple[Answer, ...]:
    """Return what one study says about the score, about the seeds themselves, and about single predictions."""
    luck = Answer("How much is luck?", "", tuple(_luck(study)))
    stable = Answer("Are single predictions stable?", "", tuple(_stable(study, source or Source())))
    if study.changes is not None:
        same = tuple(_changes(study, study.changes))
        return Answer("Does the same request get the same answer?", "", same), luck, stable
    if (passes := study.passes) is None:
        return luck, Answer(f"Was a {study.unit} lucky?", "", tuple(_lucky(study))), stable
    last = passes.iloc[-1]
    every, some = (points(last[name], 1) for name in ("all_pass", "any_pass"))
    lead = f"**{every} %** of the examples are right in all {last['k']:.0f} runs, {some} % in at least one."
    return luck, Answer("Is it right every time?", "", (lead + _collapses(study),)), stable


def _changes(study: SeedsStudy, changes: AnswerChanges) -> Iterator[str]:
    """Yield how many rows have more than one answer, and how many others may."""
    limits = between(*changes.interval, partial(points, digits=1))
    yield f"{_changed_rows(changes, f' to {study.model}')} Of all such rows, {limits} % may change (95 %)."
    yield f"The interval is exactly binomial. An answer is the class or text of a reply, scored by {changes.scored_by}."
    yield "A server that answers several requests at once may answer otherwise: compare concurrency=1."


def _luck(study: SeedsStudy) -> Iterator[str]:
    scores, unit = study.own, study.unit
    if scores.runs < 2:
        yield f"{counted(scores.runs, unit)} with a score; at least 2 are needed."
        return
    shown = unit_of(study.metric).text
    metric = f"{study.metric}{', %' if study.metric.percent else ''}"
    numbers = (scores.lowest, scores.highest, scores.mean, scores.std)
    low, high, mean, std = (shown(each, digits(study)) for each in numbers)
    lead = f"**{scores.runs} {unit}s** scored **{low} to {high}** ({metric}), on average **{mean}**, [[typically|std]] "
    yield f"{lead}**± {std}**.{few_runs(scores.runs - 1)}"
    yield f"With ddof=0, as published, the standard deviation (VAR) is {shown(scores.var)}."
    if (spread := between(scores.std_ci_low, scores.std_ci_high, shown)) != MISSING:
        yield f"All {unit}s would have a standard deviation of {spread} (95 %, normal scores or not)."
    population = study.together.get("accuracy_std_population", math.nan)
    if study.metric.name == "accuracy" and not math.isnan(population):
        left = f"Of the {shown(scores.std)}, {shown(population)} would be left on an endless test set"
        yield f"{left}; the rest comes with these examples."


def _lucky(study: SeedsStudy) -> Iterator[str]:
    scores, unit = scored(study), study.unit
    if len(scores) < 2:
        lead = f"Two scores are needed to compare {unit}s."
    elif study.own.std == 0:
        lead = f"All have the same score: {why}." if (why := _hidden(study)) else "**No:** all have the same score."
    else:
        shown = partial(unit_of(study.metric).text, digits=digits(study))
        ends = ((end, scores.index[scores == end]) for end in (scores.min(), scores.max()))
        named = [f"**{unit}{'s' if len(seeds) > 1 else ''} {_list(seeds, 6)}** ({shown(end)})" for end, seeds in ends]
        worst, best = named[:: int(study.metric.sign)]
        lead = f"Best of {len(scores)}: {best}; worst: {worst}. Do not report one alone."
    yield lead + _collapses(study)
    if study.collapsed_seeds:
        chance = math.nan if study.chance is None else study.chance
        low = "" if math.isnan(chance) else f"score at or below chance ({unit_of(study.metric).text(chance)}) or "
        yield f"{unit.title()}s that {low}give every example the same prediction: {_list(study.collapsed_seeds)}."
        if len(study.collapsed_seeds) < study.judged:
            failing = "VAR then says how often training fails"
            yield f"{failing}, and the interval of robust examples is too narrow: it covers about 70 %."
    elif study.judged:
        most = f"up to {points(unseen_share(study.judged, 0.95), 0)} % of all {unit}s may collapse"
        yield f"With {study.judged} {unit}s that all train, {most}. The intervals here are about those that do not."


def _collapses(study: SeedsStudy) -> str:
    """Return which seeds collapsed, as a further sentence."""
    seeds = study.collapsed_seeds
    return f" **{len(seeds)}** [[collapsed|collapsed]]: {_list(seeds, 6)}." if seeds else ""


def _stable(study: SeedsStudy, source: Source) -> Iterator[str]:
    unit, examples, shown = study.unit, study.examples, partial(points, digits=1)
    kappa = study.together.get("fleiss_kappa", math.nan)
    beyond = "" if math.isnan(kappa) else f"Agreement beyond chance (kappa) is {plain(kappa)}"
    if examples is not None and 0 < len(examples.frame) < FEWEST_EXAMPLES:
        yield f"Not reported: the {unit}s share fewer than {FEWEST_EXAMPLES} examples."
        yield f"There are {counted(len(examples.frame), 'test example')}, and at least {FEWEST_EXAMPLES} are needed."
    elif examples is not None:
        seeds = len(study.compared)
        con, ccon = (study.pairs[name].mean for name in ("consistency", "correct_consistency"))
        agree = f"[[Two {unit}s agree|agree]] on **{shown(con)} %** of the predictions"
        yield f"{agree}{changed_predictions(1 - con, unit)}."
        right = f"Two {unit}s give {shown(ccon)} % of the {len(examples.frame):,} examples the right answer"
        yield f"{right} (mean over {counted(seeds * (seeds - 1) // 2, 'pair')})."
        robust = f"{shown(examples.robust_share)} % are right under every {unit} (robust"
        some, none = shown(examples.fragile_share), shown(examples.never_right_share)
        yield f"{robust}{_limits(study, 'robust_share', shown)}), {some} % under some (fragile), {none} % under none."
        if beyond:
            yield f"{beyond}{_limits(study, 'fleiss_kappa', plain, ' ({} to {})')}."
    elif "absolute_difference" in study.together:
        pearson, ccc = (plain(study.pairs[f"consistency_{kind}"].mean, 3) for kind in ("pearson", "ccc"))
        apart = f"Two {unit}s predict numbers **{UNITS.text(study.together['absolute_difference'])}** apart on average"
        yield f"{apart}, in the unit of the labels. Their correlation is **{pearson}**."
        yield f"CON-PEAR is {pearson}; the numbers agree with {ccc} (Lin)."
    elif study.pairs:
        alike, right = (shown(study.pairs[name].mean) for name in ("consistency", "correct_consistency"))
        yield f"[[Two {unit}s agree|agree]] to **{alike} %** ({study.metric.agreement or 'exact_match'})."
        yield f"Against the truth: {right} % (correct consistency)." + (f" {beyond}." if beyond else "")
    elif study.unshared:
        yield f"Not known: the {unit}s predict no common example."
    else:
        fix = "Let the command write example_id, label, prediction to {output}/predictions.csv."
        if source.approach == "project":
            fix = "Let the project log an artifact predictions.csv with example_id, label, prediction."
        fix = fix if source.is_typed else "Return (labels, predictions) of the test examples in place of a score."
        fix = fix if source.can_repeat else "Evaluate a table with example_id, label and the prediction of each run."
        yield f"Not known: no predictions are stored. {fix}"


def _limits(study: SeedsStudy, name: str, shown: Callable[[float], str], form: str = ", {} to {}") -> str:
    """Return the interval of a number in a sentence; the empty text where it has none."""
    limits = between(*study.intervals.get(name, (math.nan, math.nan)), shown, form)
    return "" if limits == MISSING else limits


def short_notes(study: SeedsStudy, failed: int) -> Iterator[str]:
    """Yield what is assumed, and which runs failed, have no score, or have no answer to most examples."""
    unit = study.unit
    if note := assumed_direction(study.metric):
        yield note
    if failed:
        yield f"{counted(failed, unit)} failed: the numbers are from the rest."
    if study.missing_seeds:
        without = f"{unit.title()}s without a score: {_list(study.missing_seeds)}"
        yield f"{without}. If these would score low, the true spread is larger (L3D012)."
    if study.unshared:
        yield f"Left out of the comparison: {counted(study.unshared, 'example')} that not every {unit} predicts."
    if study.unanswered_seeds:
        which = f"{_list(study.unanswered_seeds)}. Whether these {unit}s trained is not known"
        yield f"Half of the predictions or more are missing, or are not an answer that the task allows: {which}."


def _list(seeds: Sequence[int], most: int | None = None) -> str:
    more = f" and {len(seeds) - most} more" if most and len(seeds) > most else ""
    return ", ".join(map(str, seeds[:most])) + more


def steps(study: SeedsStudy, source: Source, failed: int) -> Iterator[Step]:
    """Yield what to do next, what changes the answer most first."""
    if study.changes is not None:
        return
    again = source.can_repeat
    if failed and again:
        yield Step(f"{counted(failed, 'seed')} failed. {RETRY}", source.command("seeds"))
    if study.own.std == 0 and not study.collapsed_seeds and not _hidden(study):
        shows = " A self-test shows it:" if again else ""
        yield Step(f"Does the {study.unit} reach the training?{shows}", source.command("seeds", self_test="only"))
        return
    if study.collapsed_seeds and again:
        command = source.command("seeds", hyperparameters=f"{source.given.get('hyperparameters', 'auto')},NAME=VALUE")
        yield Step("Do fewer seeds collapse with other hyperparameters?", command)
    if investigate := investigate_command(source):
        other = "Is the data split a larger one?" if "data_split" in source.factors else "Which one is the largest?"
        yield Step(f"Seeds are one kind of luck. {other}", investigate)
    elif source.run_id and "command" in source.given:
        std, is_share = study.own.std, study.own.metric.percent  # in other units a gate has no default
        effect = {} if is_share or not std > 0 else {"smallest_effect": f"{nice_step(0.6 * std):g}"}
        gate = source.on_runs("gate", baseline=source.run_id, candidate=source.another, **effect)
        yield Step("Is a changed command better? Change it in this line; both are trained until that is clear:", gate)
    elif source.run_id:
        compare = source.on_runs("compare", runs=f"{source.run_id},RUN_ID")
        yield Step(COMPARE, compare)


def investigate_command(source: Source) -> str:
    """Return the command that studies all kinds of luck of the same training; empty if there is one kind only."""
    only_of_seeds = {"seeds", "validation_fraction", "self_test"}  # or with another meaning
    shared = {name: value for name, value in source.given.items() if name not in only_of_seeds}
    return replace(source, given=shared).command("investigate", factor="all") if len(source.factors) > 1 else ""


def citation(study: SeedsStudy, source: Source) -> list[tuple[str, str]]:
    """Return what was repeated, how often, mean, spread and their intervals; the same as a table; the literature."""
    own, unit = study.own, unit_of(study.metric)
    if own.runs < 2:
        return [("A sentence", f"{counted(own.runs, study.unit)} with a score: there is no spread to cite.")]
    text = partial(unit.text, digits=digits(study))
    where = f" on {study.task}" if study.task else ""
    metric = f"{study.metric}{' (%)' if study.metric.percent else ''}"
    mean = text(own.mean)
    std = text(own.std)
    of_mean = between(own.mean_ci_low, own.mean_ci_high, text)
    of_std = between(own.std_ci_low, own.std_ci_high, text)
    sure = "" if MISSING in (of_mean, of_std) else f"; 95 % intervals {of_mean} of the mean, {of_std} of the deviation"
    said = [f"Over {own.runs:,} {study.unit}s, {metric}{where} was {mean} ± {std} (mean ± standard deviation{sure})."]
    if missing := len(study.missing_seeds):
        said.append(f"{missing:,} {study.unit}s without a score are left out.")
    if study.collapsed_seeds:
        said.append(f"{len(study.collapsed_seeds):,} of {study.judged:,} {study.unit}s collapsed.")
    if (pairs := study.pairs.get("consistency")) is not None:
        said.append(f"Two {study.unit}s agree on {points(pairs.mean, 1)} % of the predictions.")
    row = " & ".join([escaped(metric), f"{own.runs:,}", f"{mean} ({of_mean})", f"{std} ({of_std})"])
    table = [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        rf"Metric & {study.unit.capitalize()}s & Mean & Standard deviation \\",
        r"& & (95\,\% interval) & (95\,\% interval) \\",
        r"\midrule",
        rf"{row} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    sentence = " ".join([*said, f"({f'mlflow-l3d {source.version}'.strip()})"])
    return [("A sentence", sentence), ("LaTeX", with_caption("\n".join(table), sentence)), ("BibTeX", bibtex(source))]

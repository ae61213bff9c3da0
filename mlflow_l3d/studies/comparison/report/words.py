"""What a comparison says of its pairs: a sentence that decides, three answers, and what to do next."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Final, NamedTuple

from mlflow_l3d.analysis.comparison.results import EQUIVALENT, UNDECIDED, Comparison, Difference, Rank, TaskMean
from mlflow_l3d.analysis.comparison.system import MOST_LOST
from mlflow_l3d.report.numbers import counted, listed, percent, points, probability, roughly, shorten_all, unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Answer, Step, advice, advise, all_of, effect_step

SHARED: Final = "train both with the same root_seed and factors"
"""What makes the runs of two systems share their configurations."""


class Lead(NamedTuple):
    """A pair from the side of the one with the better mean.

    Attributes
    ----------
    ahead, other
        The names, shortened.
    gain, low, high
        By how much it is better, with its interval, see :func:`limits`.
    pair, turned
        The record, and whether the one ahead is the second of it.
    """

    ahead: str
    other: str
    gain: float
    low: float
    high: float
    pair: Difference | TaskMean
    turned: bool


def judged(comparison: Comparison) -> Sequence[Difference | TaskMean]:
    """Return the pairs with a verdict each: over tasks, if there are several."""
    return comparison.over_tasks or comparison.differences


def limits(pair: Difference | TaskMean) -> tuple[float, float, float]:
    """Return a difference, and its interval: that of all pairs together, over tasks that of the pair."""
    if isinstance(pair, Difference):
        return pair.difference, pair.joint_low, pair.joint_high
    return pair.found.difference, pair.found.low, pair.found.high


def oriented(comparison: Comparison, pair: Difference | TaskMean) -> tuple[str, str, tuple[float, float, float], str]:
    """Return both names, the better over all tasks first, the difference with its interval, and the verdict."""
    value, low, high = limits(pair)
    whole = next(each for each in judged(comparison) if (each.first, each.second) == (pair.first, pair.second))
    if not comparison.metric.sign * limits(whole)[0] < 0:
        return pair.first, pair.second, (value, low, high), pair.verdict
    verdict = {"better": "worse", "worse": "better"}.get(pair.verdict, pair.verdict)
    return pair.second, pair.first, (-value, -high, -low), verdict


def leading(comparison: Comparison) -> Lead:
    """Return the pair of the best system and the next best."""
    names, sign = short_names(comparison), comparison.metric.sign
    best = {each.system for each in sorted(overall_ranks(comparison), key=lambda each: each.low)[:2]}
    pair = next(pair for pair in judged(comparison) if {pair.first, pair.second} == best)
    ahead, other, (value, *ends), _ = oriented(comparison, pair)
    low, high = sorted(sign * end for end in ends)
    return Lead(names[ahead], names[other], abs(value), low, high, pair, ahead != pair.first)


def overall_ranks(comparison: Comparison) -> list[Rank]:
    """Return the ranks over all tasks, best mean first."""
    task = "" if len(comparison.tasks) > 1 else comparison.tasks[0]
    return [each for each in comparison.ranks if each.task == task]


def short_names(comparison: Comparison) -> dict[str, str]:
    """Return each system's name as sentences have it: itself, or a letter for each if one is long."""
    if max(map(len, comparison.systems)) <= 24 or len(comparison.systems) > len(ascii_uppercase):
        return shorten_all(comparison.systems, 24)
    return dict(zip(comparison.systems, ascii_uppercase, strict=False))


def size(comparison: Comparison, value: float) -> str:
    """Return a difference, with its unit if the metric is read in per cent."""
    return unit_of(comparison.metric).size(value, change(comparison)(value, ""))


def change(comparison: Comparison, least: int = 1) -> Callable[..., str]:
    """Return what writes differences, with decimals by the errors, `least` or more: no claimed one rounds to 0."""
    unit = unit_of(comparison.metric)
    claimed = (pair for pair in judged(comparison) if pair.verdict not in (UNDECIDED, EQUIVALENT))
    sizes = [*(abs(limits(pair)[0]) for pair in claimed), *(each.spread.error for each in comparison.differences)]
    digits = max(least, *map(unit.digits, sizes))
    return lambda value, sign="+": unit.written(unit.scale * value, digits, sign)


def effect_text(comparison: Comparison) -> str:
    """Return the smallest effect with its unit."""
    unit, effect = unit_of(comparison.metric), comparison.smallest_effect
    return unit.size(effect, f"{unit.scale * effect:g}")


def advice_on(one: Difference) -> Answer:
    """Return what would settle a difference: runs, test examples, or nothing more."""
    there = " and ".join(f"{runs:,}" for runs in dict.fromkeys(one.runs))
    settled = one.verdict != UNDECIDED
    needed, more_runs = runs_to_have(one), one.spread.of_runs > one.spread.of_examples
    if not settled and {*one.runs} == {needed}:
        why = f"The {there} runs of each settle it with 80 % probability if all share their configurations: {SHARED}."
        return advice("shared configurations", why)
    return advise(there, needed, one.examples_needed, settled=settled, more_runs=more_runs)


def runs_to_have(one: Difference) -> float:
    """Return how many runs of each settle a difference if all are shared: never fewer than there are; inf if none."""
    return max(one.runs_to_settle, *one.runs)


class ComparedParent(NamedTuple):
    """A compared parent run, as a report names it.

    Attributes
    ----------
    task, system
        Its task, and its name in the comparison.
    run_id, experiment_id
        Where it is.
    choices
        Parameters and hyperparameters in which the runs of a task differ.
    command
        Its command with ``RUNS`` independent runs; empty if that is not known, as of runs of other code.
    """

    task: str
    system: str
    run_id: str
    experiment_id: str
    choices: Mapping[str, str]
    command: str = ""


def headline(comparison: Comparison) -> str:
    """Return the sentence that decides, the winner as its subject."""
    lead, names, ranks = leading(comparison), short_names(comparison), overall_ranks(comparison)
    several = f" over {len(comparison.tasks)} tasks" if len(comparison.tasks) > 1 else ""
    by, within = size(comparison, lead.gain), f"equivalent within {effect_text(comparison)}{several}"
    best = [each.system for each in ranks if each.low == 1]
    if len(ranks) == 2:
        both = listed([names[lead.pair.first], names[lead.pair.second]])
        texts = {
            EQUIVALENT: f"{both} are {within}.",
            UNDECIDED: f"No difference between {both} is established{several}.",
        }
        if comparison.lossy:
            return f"No verdict on {both}: too many runs failed."
        return texts.get(lead.pair.verdict, f"{lead.ahead} is better than {lead.other} by {by}{several}.")
    if len(best) == 1:
        return f"{lead.ahead} is the best of {len(ranks)} systems{several}, {by} ahead of {lead.other}."
    among = {pair.verdict for pair in judged(comparison) if {pair.first, pair.second} <= {*best}}
    if len(best) == len(ranks):
        nothing = f"No difference between the {len(ranks)} systems is established{several}."
        return f"All {len(ranks)} systems are {within}." if among == {EQUIVALENT} else nothing
    group = listed([names[each] for each in best], "or") if len(best) < 4 else f"one of {len(best)}"
    ending = f"; they are {within}." if among == {EQUIVALENT} else "."
    return f"The best of {len(ranks)} systems{several} is {group}{ending}"


def answers(comparison: Comparison) -> tuple[Answer, Answer, Answer]:
    """Return the three questions that the report opens with, answered in plain words."""
    lead = leading(comparison)
    opened = _open(comparison), *advice_on(nearest_pair(comparison) or comparison.differences[0]).sentences
    return (
        Answer("Could it be luck?", "", (_luck(comparison, lead),)),
        Answer("Would one run show it?", "", (_one_run(comparison, lead),)),
        Answer("What is open?", "", (_lossy(comparison),) if comparison.lossy else opened),
    )


def _luck(comparison: Comparison, lead: Lead) -> str:
    ends = sorted(comparison.metric.sign * end for end in (lead.low, lead.high))  # with the signs of the table
    interval = " to ".join(map(change(comparison), ends))
    said = f"{percent(comparison.level)} interval **{interval}**{' points' if comparison.metric.percent else ''}"
    said += "" if comparison.metric.greater_is_better else " (less is better)"
    counts = "It allows for luck on each task, and for tasks that differ."
    count = len(comparison.differences)
    if isinstance(lead.pair, Difference):
        number = lead.pair.spread.examples
        tested = f" and of {counted(number, 'test example')}" if number else ", not of test examples"
        counts = f"It allows for the luck of runs{tested}{f', and for {count} pairs at once' if count > 1 else ''}."
    if not {lead.pair.first, lead.pair.second}.isdisjoint(comparison.lossy):
        return f"**Not known:** {said} of the runs that did not fail, which are rarely any runs. {counts}"
    if lead.pair.verdict == UNDECIDED:
        gain = size(comparison, lead.gain)
        ahead = f"{lead.ahead} is ahead by {gain}" if gain.strip("0. points") else "the means are about equal"
        return f"**Yes:** {ahead}, {said}. {counts}"
    if lead.pair.verdict == EQUIVALENT:
        return f"It is too small to matter: {said}. {counts}"
    if lead.low <= 0:  # step-down p-values claim a little more than intervals that hold together
        return f"**Unlikely:** p = {probability(lead.pair.p_adjusted)} for {count} pairs, though {said}. {counts}"
    return f"**Unlikely:** {said}. {counts}"


def _one_run(comparison: Comparison, lead: Lead) -> str:
    pair = {lead.pair.first, lead.pair.second}
    wins = [each.run_wins.value for each in comparison.differences if {each.first, each.second} == pair]
    shares = sorted(1 - share if lead.turned else share for share in wins if math.isfinite(share))
    if not shares:
        return "The runs are too few to show how often one beats another."
    low, high = points(shares[0], 0), points(shares[-1], 0)
    often, by_task = (low, "") if low == high else (f"{low} to {high}", ", by task")
    return f"One run of {lead.ahead} beats one of {lead.other} in **{often} %** of cases{by_task}."


def _open(comparison: Comparison) -> str:
    pairs, names = judged(comparison), short_names(comparison)
    undecided = [f"{names[pair.first]} against {names[pair.second]}" for pair in pairs if pair.verdict == UNDECIDED]
    if not undecided:
        return f"**Nothing:** {'the pair is' if len(pairs) == 1 else f'{all_of(len(pairs))} pairs are'} decided."
    opening = f"{len(undecided)} of {len(pairs)} pairs: " if len(pairs) > 1 else ""
    more = [f"{len(undecided) - 2} more"] if len(undecided) > 2 else []
    opening += f"**{listed([*undecided[:2], *more])}**."
    one = nearest_pair(comparison)
    if one is None or isinstance(pairs[0], TaskMean):
        return f"{opening} More tasks, or more runs on each, settle it."
    which = "it" if len(undecided) == 1 else f"{names[one.first]} against {names[one.second]}"
    what = advice_on(one).short
    found = " of each, if the true difference is the one found" if what.endswith(" runs") else ""
    return f"{opening} To settle {which} takes {what}{found}."


def _lossy(comparison: Comparison) -> str:
    names = listed([short_names(comparison)[name] for name in comparison.lossy])
    return f"More than {percent(MOST_LOST)} of the runs of {names} failed: correct their error, and compare again."


def nearest_pair(comparison: Comparison) -> Difference | None:
    """Return the undecided pair that the fewest runs settle: of systems that may be best, or else of others."""
    best = {each.system for each in overall_ranks(comparison) if each.low == 1}
    undecided = [each for each in comparison.differences if each.verdict == UNDECIDED]
    return min(undecided, key=lambda each: (not {each.first, each.second} <= best, each.runs_to_settle), default=None)


def steps(comparison: Comparison, parents: Sequence[ComparedParent], source: Source) -> Iterator[Step]:
    """Yield what to do next: two commands at most."""
    names, one = short_names(comparison), nearest_pair(comparison)
    if comparison.lossy:
        yield Step(_lossy(comparison))
        return
    if one is None or all(pair.verdict != UNDECIDED for pair in judged(comparison)):
        if source.given and "self_check" not in source.given:
            command = source.command("compare", self_check="1000")
            yield Step("How often is such a claim false? Compare each system with itself:", command)
        return
    pair = f"{names[one.first]} against {names[one.second]}{f' on {one.task}' if len(comparison.tasks) > 1 else ''}"
    is_named = not math.isnan(comparison.smallest_effect)
    if {*one.runs} == {runs_to_have(one)}:
        yield Step(f"{pair}: {SHARED}, so that all runs share their configurations. Then compare again.")
    elif math.isfinite(one.runs_to_settle) and (is_named or one.runs_to_settle <= 20 * max(one.runs)):
        yield from _more_runs(one, pair, names, parents)
    elif math.isfinite(one.examples_needed) and not math.isfinite(one.runs_to_settle):
        needed, used = roughly(one.examples_needed), f"{one.spread.examples:,}"
        yield Step(
            f"{pair}: no number of runs alone settles it. With unlimited runs it takes about {needed} test examples "
            f"({used} were used): raise test_size of both, or evaluate larger files, if there are so many."
        )
    elif source.given:
        ends, unit = (one.joint_low, one.joint_high), unit_of(comparison.metric)
        yield from effect_step(ends, unit, lambda effect: source.command("compare", smallest_effect=effect))


def _more_runs(
    one: Difference, pair: str, names: Mapping[str, str], parents: Sequence[ComparedParent]
) -> Iterator[Step]:
    needed = runs_to_have(one)
    commands = {each.system: each.command for each in parents if each.task == one.task}
    texts = [f"{pair} takes about {needed:,.0f} runs of each (80 % power). Finished ones count:"]
    for system, there in zip((one.first, one.second), one.runs, strict=True):
        if there < needed and (command := commands.get(system, "")):
            text = texts.pop() if texts else f"The same for {names[system]}; then compare again:"
            yield Step(text, re.sub(r"(--(?:seeds|\w+-runs)) RUNS\b", rf"\1 {needed:.0f}", command, count=1))
    yield from (Step(text.replace("Finished ones count:", "Add runs, and compare again.")) for text in texts)


def differing_sentence(comparison: Comparison, parents: Sequence[ComparedParent]) -> str:
    """Return in what the systems differ, in one sentence; empty if their parameters are not known."""
    choices = [each.choices for each in parents if each.task == comparison.tasks[0]]
    names = dict.fromkeys(name for each in choices for name in each)
    varied = sorted(names, key=lambda name: name.endswith("_runs"))  # how much was trained comes last
    if not varied:
        return "No recorded parameter of the two differs." if len(choices) == 2 else ""
    texts = {name: " and ".join(each.get(name, "none") for each in choices) for name in varied[:3]}
    parts = [f"{name} ({text})" for name, text in texts.items()] if len(choices) == 2 else varied[:6]
    more = [f"{len(varied) - len(parts)} more"] if len(varied) > len(parts) else []
    return f"They differ in {listed([*parts, *more])}."

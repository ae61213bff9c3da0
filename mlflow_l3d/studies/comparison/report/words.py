"""What a comparison says: a sentence that decides, three answers, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mlflow_l3d.analysis.comparison.results import EQUIVALENT, UNDECIDED, Comparison, Difference, TaskMean
from mlflow_l3d.report.draw import nice_step
from mlflow_l3d.report.numbers import counted, percent, points, probability, unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.comparison.report.details import advice_on, luck_details, open_details, run_details
from mlflow_l3d.studies.comparison.report.pairs import (
    Lead,
    change,
    effect_text,
    judged,
    leading,
    overall_ranks,
    short_names,
    size,
)


@dataclass(frozen=True, kw_only=True)
class Side:
    """A compared run, as a report names it: in what it differs, and the command behind it.

    Attributes
    ----------
    choices
        Parameters and hyperparameters in which the runs of a task differ.
    source, verb
        Its command; that of runs of other code is not known.
    runs_parameter
        The parameter that says how many independent runs there are.
    """

    choices: Mapping[str, str] = field(default_factory=dict)
    source: Source = field(default_factory=Source)
    verb: str = "investigate"
    runs_parameter: str = "golden_runs"

    def more_runs(self, runs: float) -> str:
        """Return the command for so many runs; empty if it is not known."""
        return self.source.command(self.verb, **{self.runs_parameter: f"{runs:.0f}"})


Sides = Mapping[tuple[str, str], Side]
"""Task and system -> its run."""


def headline(comparison: Comparison) -> str:
    """Return the sentence that decides, the winner as its subject."""
    lead, names = leading(comparison), short_names(comparison)
    several = f" over {len(comparison.tasks)} tasks" if len(comparison.tasks) > 1 else ""
    by = size(comparison, lead.gain)
    ranks = overall_ranks(comparison)
    if len(ranks) == 2:
        if lead.pair.verdict == UNDECIDED:
            return f"No difference between {lead.ahead} and {lead.other} is established{several}."
        if lead.pair.verdict == EQUIVALENT:
            return f"{lead.ahead} and {lead.other} are equivalent within {effect_text(comparison)}{several}."
        return f"{lead.ahead} is better than {lead.other} by {by}{several}."
    best = [each.system for each in ranks if each.low == 1]
    shown = [names[system] for system in best]
    listed = f"{len(best)} systems" if len(best) > 3 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    among = [pair.verdict for pair in judged(comparison) if {pair.first, pair.second} <= {*best}]
    if len(best) == 1:
        close = lead.pair.verdict == EQUIVALENT
        then = (
            f"equivalent to {lead.other} within {effect_text(comparison)}" if close else f"{by} ahead of {lead.other}"
        )
        return f"{lead.ahead} is the best of {len(ranks)} systems{several}, {then}."
    if set(among) == {EQUIVALENT}:
        within = f"equivalent within {effect_text(comparison)}{several}."
        if len(best) == len(ranks):
            return f"All {len(ranks)} systems are {within}"
        return f"{listed} are ahead of the others, and {within}"
    if len(best) == len(ranks):
        return f"No difference between the {len(ranks)} systems is established{several}."
    return f"{listed} are ahead of the others{several}; which of them is best is undecided."


def answers(comparison: Comparison) -> tuple[Answer, Answer, Answer]:
    """Return the three questions that the report opens with, answered in plain words."""
    lead = leading(comparison)
    pair = lead.pair if isinstance(lead.pair, Difference) else None
    luck = Answer("Could it be luck?", "", (_luck(comparison, lead), *luck_details(comparison, pair)))
    run = Answer("Would one run show it?", "", (_one_run(comparison, lead), *(run_details(pair) if pair else [])))
    return luck, run, Answer("What is open?", "", (_open(comparison), *(open_details(pair) if pair else [])))


def _luck(comparison: Comparison, lead: Lead) -> str:
    interval = f"{change(comparison, lead.low)} to {change(comparison, lead.high)}"
    level, count = percent(comparison.level), len(comparison.differences)
    if isinstance(lead.pair, TaskMean):
        allows = "It allows for luck on each task, and for tasks that differ."
    else:
        examples = f"{counted(lead.pair.examples, 'test example')}" if lead.pair.examples else ""
        allows = f"It allows for the luck of runs{f' and of {examples}' if examples else ', not of test examples'}"
        allows += f", and for {count} pairs." if count > 1 else "."
    if lead.pair.verdict == UNDECIDED:
        ahead = f"{lead.ahead} is ahead by {size(comparison, lead.gain)}" if lead.gain else "both have the same mean"
        return f"**Yes:** {ahead}, {level} interval **{interval}**. {allows}"
    if lead.pair.verdict == EQUIVALENT:
        return f"Either way it is too small to matter: {level} interval **{interval}**. {allows}"
    if lead.low <= 0:  # step-down p-values claim a little more than intervals that hold together
        p = probability(lead.pair.p_adjusted)
        return f"**Unlikely:** p = **{p}**, adjusted for {count} pairs; the joint interval is {interval}."
    return f"**Unlikely:** the {level} interval is **{interval}**. {allows}"


def _one_run(comparison: Comparison, lead: Lead) -> str:
    shares = [lead.win_share(each) for each in comparison.differences if _same(each, lead.pair)]
    known = [share for share in shares if math.isfinite(share)]
    if not known:
        return "The runs are too few to show how often one beats another."
    cases = f"**{points(min(known), 0)} %** of cases"
    if isinstance(lead.pair, TaskMean):
        cases = f"**{points(min(known), 0)} to {points(max(known), 0)} %** of cases, depending on the task"
    return f"One run of {lead.ahead} beats one of {lead.other} in {cases}."


def _same(one: Difference, pair: Difference | TaskMean) -> bool:
    return one is pair or (isinstance(pair, TaskMean) and (one.first, one.second) == (pair.first, pair.second))


def _open(comparison: Comparison) -> str:
    pairs, names = judged(comparison), short_names(comparison)
    undecided = [pair for pair in pairs if pair.verdict == UNDECIDED]
    if not undecided:
        return "**Nothing:** the pair is decided." if len(pairs) == 1 else f"**Nothing:** all {len(pairs)} pairs are."
    called = [f"{names[pair.first]} against {names[pair.second]}" for pair in undecided]
    if len(pairs) == 1:
        opening = "**Which is better.**"
    elif len(undecided) == 1:
        opening = f"{called[0]} is **undecided**."
    else:
        rest = f" and {len(undecided) - 2} more" if len(undecided) > 2 else ""
        joined = ", ".join(called[:2]) if rest else " and ".join(called)
        opening = f"**{len(undecided)} of {len(pairs)} pairs:** {joined}{rest}."
    nearest = _nearest(comparison)
    if nearest is None:
        return f"{opening} To settle it takes **more tasks**, or more runs on each."
    what = advice_on(nearest).short
    what = f"**{what}**{' of each' * what.endswith(' runs')}"
    which = "it" if len(undecided) == 1 else f"{names[nearest.first]} against {names[nearest.second]}"
    return f"{opening} To settle {which} takes {what}."


def _nearest(comparison: Comparison) -> Difference | None:
    """Return the undecided pair that the fewest runs settle; None if single tasks leave nothing open."""
    undecided = [each for each in comparison.differences if each.verdict == UNDECIDED]
    return min(undecided, key=lambda each: each.runs_to_settle, default=None)


def steps(comparison: Comparison, sides: Sides, source: Source) -> list[Step]:
    """Return what to do next: two commands at most."""
    return list(_steps(comparison, sides, source))


def _steps(comparison: Comparison, sides: Sides, source: Source) -> Iterator[Step]:
    names, nearest = short_names(comparison), _nearest(comparison)
    if nearest is None or not any(pair.verdict == UNDECIDED for pair in judged(comparison)):
        if "self_check" not in source.given and (command := source.command("compare", self_check="1000")):
            yield Step("How often is such a claim false? Compare each system with itself:", command)
        return
    pair = f"{names[nearest.first]} against {names[nearest.second]}"
    task = f" on {nearest.task}" if len(comparison.tasks) > 1 else ""
    runs = nearest.runs_to_settle
    if math.isfinite(runs):
        few = [
            system
            for system, there in zip((nearest.first, nearest.second), nearest.runs, strict=True)
            if there < runs and (nearest.task, system) in sides
        ]
        commands = [sides[nearest.task, system].more_runs(runs) for system in few]
        why = f"{pair}{task} takes about {runs:,.0f} runs of each (80 % power); finished ones count:"
        if not any(commands):
            yield Step(f"{why.partition(';')[0]}. Add runs, and compare again.")
        for at, (system, command) in enumerate(zip(few, commands, strict=True)):
            if command:
                yield Step(f"The same for {names[system]}; then compare both again:" if at else why, command)
        return
    examples = nearest.examples_needed
    if math.isfinite(examples):
        yield Step(f"{pair}{task} takes about {examples:,.0f} test examples: raise test_size of both.")
    elif command := source.command("compare", smallest_effect=_effect(comparison, nearest)):
        yield Step("Name the largest difference that does not matter to you, such as:", command)


def _effect(comparison: Comparison, one: Difference) -> str:
    unit = unit_of(comparison.metric)
    return "1" if unit.scale > 1 else f"{nice_step(max(abs(one.joint_low), abs(one.joint_high), 1e-9)):g}"


def differing_sentence(comparison: Comparison, sides: Sides) -> str:
    """Return in what the systems differ, in one sentence; empty if their parameters are not known."""
    task = comparison.tasks[0]
    choices = [sides[task, system].choices for system in comparison.systems if (task, system) in sides]
    varied = list(dict.fromkeys(name for each in choices for name in each))
    if not varied:
        return "No recorded parameter of the two differs." if len(choices) == 2 else ""
    if len(choices) == 2:
        pairs = [f"{name} ({' and '.join(each.get(name, 'none') for each in choices)})" for name in varied[:3]]
    else:
        pairs = varied[:6]
    more = len(varied) - len(pairs)
    return f"They differ in {', '.join(pairs)}{f' and {more} more' if more else ''}."

"""What people see of a gate: a sentence that decides, three answers, what to do next, and the interim analyses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlflow_l3d.analysis.comparison.power import Forecast
from mlflow_l3d.analysis.comparison.system import MOST_LOST
from mlflow_l3d.analysis.planning.spending import SequentialPlan
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.draw import Axis, difference_cell
from mlflow_l3d.report.numbers import MISSING, between, counted, listed, percent, plain, share_text, shorten, unit_of
from mlflow_l3d.report.page import Document, Item, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table, verdict_cell
from mlflow_l3d.report.text import Answer, Step, advice, advise
from mlflow_l3d.studies.gate.numbers import GateAnswer, Look


@dataclass(frozen=True, kw_only=True)
class GateSource(Source):
    """Source of a gate.

    Attributes
    ----------
    candidate_run
        Parent of the candidate's runs; empty if it is not known.
    changes
        See :class:`mlflow_l3d.studies.gate.sides.Side`.
    """

    candidate_run: str = ""
    changes: Mapping[str, str] = field(default_factory=dict)


def headline(answer: GateAnswer) -> str:
    """Return the sentence that decides."""
    look, runs = answer.looks[-1], counted(answer.looks[-1].pairs, "run")
    if look.is_lossy:
        return f"No verdict: {look.runs - look.pairs} of {counted(look.runs, 'run')} of one side have no score."
    if answer.outstanding.equal:
        return f"The candidate probably has no effect: its {runs} score as those of the baseline."
    sentences = {
        "equivalent": f"The candidate is equivalent to the baseline within {answer.effect}.",
        "undecided": f"Undecided: {runs} of each do not settle whether the candidate is worse.",
    }
    size = unit_of(answer.metric).size(look.difference)
    return sentences.get(answer.decision, f"The candidate is {answer.decision} by {size}.")


def answers(answer: GateAnswer) -> tuple[Answer, Answer, Answer]:
    """Return the three questions that the report opens with: about luck, size, and other examples."""
    lucky = "**There is no difference:** the two have equal scores in every run."
    look = answer.looks[-1]
    if not answer.outstanding.equal:
        open_ = ("Not known", "It is about the runs that did not fail.") if look.is_lossy else ("Yes", "It contains 0.")
        words = {"undecided": open_, "equivalent": ("Unlikely", f"It is within ± {answer.effect}.")}
        word, place = words.get(look.decision, ("Unlikely", "It excludes 0."))
        level, low, high = interval_of(answer, look)
        ends = f"is **{limits(answer, low, high, answer.digits)}** after **{counted(look.pairs, 'run')}** of each"
        lucky = f"**{word}.** The [[{percent(level)} interval|repeated]] of the difference {ends}. {place}"
    return Answer("Could it be luck?", "", (lucky,)), Answer("How large is it?", "", _size(answer)), _elsewhere(answer)


def _size(answer: GateAnswer) -> tuple[str, str]:
    baseline, candidate = (f"**{unit_of(answer.metric).text(mean, answer.digits)}**" for mean in answer.means)
    smaller = "" if answer.metric.greater_is_better else " (smaller is better)"
    lead = f"Mean {answer.metric}{smaller}: {baseline} with the baseline, {candidate} with the candidate."
    look = answer.looks[-1]
    if answer.decision == "equivalent" and (look.low > 0 or look.high < 0):
        lead += f" It is {'better' if look.low > 0 else 'worse'}, but by too little to matter."
    return lead, f"Your smallest effect is {answer.effect}; smaller differences do not matter."


def _elsewhere(answer: GateAnswer) -> Answer:
    question = "On new examples, too?"
    interval = limits(answer, *(answer.other or (math.nan, math.nan)), answer.digits)
    if answer.examples == "random":
        lead = "**That is the question here:** the interval counts the luck of runs and of test examples."
        return Answer(question, "", (lead, f"More runs do not lessen the latter. Without it: {interval}."))
    about = "All other numbers are about these test data: their intervals count the luck of the runs alone."
    if answer.other is None:
        return Answer(question, "", ("Not known: without predictions this cannot be computed.", about))
    (low, high), effect = answer.other, answer.plan.smallest_effect
    holds = {"better": low > 0, "worse": high < 0, "equivalent": -effect < low and high < effect}
    word = "Yes" if holds.get(answer.decision) else "Not settled"
    return Answer(question, "", (f"**{word}:** with their luck, too, the interval is **{interval}**.", about))


def steps(answer: GateAnswer, source: GateSource) -> list[Step]:
    """Return what to do next."""
    runs, candidate = answer.outstanding.runs, source.candidate_run
    if answer.outstanding.equal or answer.is_lossy:
        return [Step(advice_on(answer).sentences[0])]
    if answer.decision in ("better", "equivalent"):
        take = f"Adopt {shorten(answer.candidate, 60)}." if answer.decision == "better" else "Take the cheaper one."
        command = source.command("gate", baseline=candidate, candidate=source.another) if candidate else ""
        return [Step(f"{take} The candidate can be the baseline of the next gate:", command)]
    if answer.decision == "worse":
        single = [text for shown, text in source.changes.items() if not set(";,\n") & set(shown)]
        if len(source.changes) > 1 and single and not any(text.startswith("approach=") for text in single):
            return [Step("Which change did it? Try one at a time:", source.command("gate", candidate=single[0]))]
        return [Step("Keep the baseline, and try another change:", source.command("gate", candidate=source.another))]
    if math.isfinite(runs):
        text = f"About {runs:,.0f} runs of each settle it, if the difference stays. Finished runs count:"
        return [Step(text, source.command("gate", most_runs=f"{runs:.0f}"))]
    command = source.command("gate", examples="fixed") if answer.examples == "random" else ""
    return [
        Step(advice_on(answer).sentences[0] + (" Is it worse on these test data alone?" if command else ""), command)
    ]


def advice_on(answer: GateAnswer) -> Answer:
    """Return what would settle a gate: a look at the change, runs, test examples, or nothing more."""
    outstanding = answer.outstanding
    if answer.is_lossy:
        why = f"No verdict if more than {percent(MOST_LOST)} of the runs fail: correct their error, and gate again."
        return advice("runs that do not fail", why)
    if outstanding.equal:
        why = "The two have equal scores in every run: check that what differs between them has an effect."
        return advice("a look at the change", why)
    there = str(answer.looks[-1].pairs)
    return advise(there, outstanding.runs, outstanding.examples, settled=answer.decision != "undecided")


def plan_lines(plan: SequentialPlan, forecast: Forecast, metric: Metric) -> list[str]:
    """Return the text before the first run: looks and power."""
    unit, same, worse = unit_of(metric), forecast.same, forecast.worse
    return [
        f"Looks after {listed([*map(str, plan.looks)])} runs of either side.",
        f"Power, if runs of the two share nothing (difference of two runs: std {unit.amount(forecast.std)}): "
        f"{share_text(same.equivalent)} to find two equal systems equivalent (after {same.runs:.0f} runs on average), "
        f"{share_text(worse.worse)} to find a candidate that is worse by {unit.amount(plan.smallest_effect)} "
        f"({worse.runs:.0f} runs).",
    ]


def look_line(answer: GateAnswer, look: Look) -> str:
    """Return one line that says what a look found, while the gate continues."""
    unit, number = unit_of(answer.metric), answer.looks.index(look) + 1
    level, low, high = interval_of(answer, look)
    line = f"Look {number} of {len(answer.plan.looks)}, {counted(look.pairs, 'run')}: {unit.change(look.difference)} "
    return line + f"{unit.noun}, {percent(level)} confidence interval {limits(answer, low, high)}: {look.decision}."


def interval_of(answer: GateAnswer, look: Look) -> tuple[float, float, float]:
    """Return level and ends of the interval that the decision of a look is about."""
    alpha = answer.plan.alpha
    if look.decision == "equivalent":
        return 1 - 2 * alpha, look.equivalence_low, look.equivalence_high
    return 1 - alpha, look.low, look.high


def limits(answer: GateAnswer, low: float, high: float, digits: int = 2) -> str:
    """Return an interval, in words if it has no end."""
    ends = between(low, high, lambda end: unit_of(answer.metric).change(end, digits))
    return "unbounded" if ends == MISSING else ends


def bound_table(plan: SequentialPlan, metric: Metric) -> Table:
    """Return the looks that are planned, with their levels."""
    rows = [
        (str(number), str(runs), plain(level.difference, 5), plain(level.equivalence, 5))
        for number, (runs, level) in enumerate(zip(plan.looks, plan.levels, strict=True), 1)
    ]
    heads = ("look", "runs of either", "level, better or worse", "level, equivalence")
    return Table(heads, tuple(rows), title=f"Looks and one-sided levels ({metric})")


def first_table(answer: GateAnswer) -> Table:
    """Return the interim analyses as a first screen has them: verdict, and the difference with its interval."""
    unit, effect = unit_of(answer.metric), answer.plan.smallest_effect
    drawn = [(look.difference, *interval_of(answer, look)[1:]) for look in answer.looks]
    levels = dict.fromkeys(percent(interval_of(answer, look)[0]) for look in answer.looks)
    axis = Axis.over([unit.scale * value for value in (-1.5 * effect, 1.5 * effect, *itertools.chain(*drawn))])
    head, digits, rows = axis.head("axis"), answer.digits, []
    for look, numbers in zip(answer.looks, drawn, strict=True):
        said = f"{unit.change(look.difference, digits)}\n({limits(answer, *numbers[1:], digits)})"
        value, low, high = (unit.scale * number for number in numbers)
        bar = difference_cell(value, low, high, axis, said.replace("\n", " "), margin=unit.scale * effect)
        row = {"after": counted(look.pairs, "run"), "verdict": verdict_cell(look.decision), head: bar}
        rows.append({**row, f"difference{', points' if unit.scale > 1 else ''} ({', last row '.join(levels)})": said})
    less = "candidate minus baseline" if answer.metric.greater_is_better else "baseline minus candidate"
    note = (
        f"Difference: {less}. Grey on the page: less than your smallest effect, ± {answer.effect}. "
        "The last row decides; [[intervals of all rows hold together|repeated]]."
    )
    return Table.of(rows, note, kind="bars", texts=frozenset({1, 2}), kinds=tuple(x.decision for x in answer.looks))


def gate_document(
    answer: GateAnswer, *, source: GateSource, settings: Mapping[str, str], lines: Sequence[str]
) -> Document:
    """Return a gate as people read it.

    Parameters
    ----------
    answer, source
        What it found, and its origin.
    settings, lines
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    candidate = f"candidate {shorten(answer.candidate, 60)}"
    status = f"exit status {answer.exit_status}"
    about = source.about(candidate, answer.metric, status)
    runs = counted(2 * answer.looks[-1].pairs, "run")
    notes = [note.partition(". ")[0].rstrip(".") + "." for note in answer.notes]
    advised = advice_on(answer)
    planned = plan_lines(answer.plan, answer.before, answer.metric)
    return Document(
        title=f"{answer.candidate} against {answer.baseline}",
        headline=headline(answer),
        about=about,
        place=source.place(runs),
        answers=answers(answer),
        table=first_table(answer),
        steps=steps(answer, source),
        lines=[about, *lines],
        notes=notes,
        in_full=[[Item(advised.lead, advised.question), *map(Item, answer.notes)]],
        sections=[Section("What was planned, and expected", [*planned, bound_table(answer.plan, answer.metric)])],
        settings=settings,
    )


def gate_markdown(answer: GateAnswer, *, run_id: str) -> str:
    """Return the summary for a CI job, which is also the description of the run: the headline comes first."""
    first, *others = answers(answer)
    blocks = [
        f"## {headline(answer)}",
        first.markdown(),
        f"Exit status {answer.exit_status} ({answer.decision}): `{answer.candidate}` against `{answer.baseline}`.",
        *[each.markdown() for each in (*others, advice_on(answer))],
        first_table(answer).markdown(),
        *(["\n".join(f"- {note}" for note in answer.notes)] if answer.notes else []),
        f"MLflow run `{run_id}`",
    ]
    return "\n\n".join(blocks) + "\n"

"""A gate as people read it: in the terminal, as Markdown below a CI job, as a page, and as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import MISSING, Unit, between, counted, percent, plain, share_text, unit_of
from mlflow_l3d.report.page import Document, Picture, Section
from mlflow_l3d.report.table import Table, document
from mlflow_l3d.report.text import Answer, advice, advise
from mlflow_l3d.studies.gate.numbers.gate import Forecast, GateAnswer, Look
from mlflow_l3d.studies.gate.numbers.sequential import SequentialPlan
from mlflow_l3d.studies.gate.report.figure import VERDICT, gate_bounds, gate_figure, verdict

_ABOUT: Final = {
    "fixed": ("These test data", "On these test data: the interval counts the luck of the runs alone."),
    "random": (
        "New examples, too",
        "On new examples, too: the interval counts the luck of the runs and of the test examples. More runs do not "
        "make the latter smaller.",
    ),
}
_CAPTION: Final = (
    "Dots: difference at each look, thin bars its repeated confidence interval, thick bars that for equivalence. Grey "
    "band: differences that do not matter. Dashed: a difference beyond it is claimed at that look, at the spread of "
    "the last one, without skewness."
)
_DOTTED: Final = " Dotted: one between these lines is claimed to be equivalent."


def sentence(answer: GateAnswer) -> str:
    """Return the answer in one sentence or two."""
    if not answer.looks:
        return "No look was taken."
    unit, look = unit_of(answer.metric), answer.looks[-1]
    effect = unit.amount(answer.plan.smallest_effect)
    measured = (
        f"{unit.change(look.difference)} {unit.noun} of {answer.metric}, repeated {_interval(answer, look)}, after "
        f"{counted(look.runs, 'run')} of either"
    )
    same = f"{verdict(answer)}: its runs score as those of the baseline do. " if answer.outstanding.equal else ""
    if answer.decision == "equivalent":
        side = "lower" if look.high < 0 else "higher" if look.low > 0 else ""
        also = f" The candidate is {side} for certain, but by less than what matters." if side else ""
        return f"{same}The two are equivalent within {effect}: {measured}.{also}"
    if answer.decision == "undecided":
        open_ = f"whether the candidate is worse, better, or equivalent within {effect}"
        return f"{same}After {look.runs} runs it is undecided {open_}: {measured}."
    return f"{VERDICT[answer.decision]}: {measured}. Smallest effect: {effect}."


def advice_on(answer: GateAnswer) -> Answer:
    """Return what would settle a gate: a look at the change, runs, test examples, or nothing more."""
    outstanding = answer.outstanding
    if outstanding.equal:
        why = "The two have equal scores in every run: check that what differs between them has an effect."
        return advice("a look at the change", why)
    there = str(answer.looks[-1].runs) if answer.looks else "0"
    return advise(there, outstanding.runs, outstanding.examples, settled=answer.decision != "undecided")


def plan_lines(plan: SequentialPlan, forecast: Forecast, metric: Metric) -> list[str]:
    """Return what is said before the first run: looks and power."""
    unit = unit_of(metric)
    return [
        f"Looks after {_list(plan.looks)} runs of either side.",
        f"Power, if runs of the two share nothing (difference of two runs: std {unit.amount(forecast.std)}): "
        f"{_power(forecast, unit.amount(plan.smallest_effect))}.",
    ]


def plan_text(title: str, plan: SequentialPlan, metric: Metric, lines: Sequence[str]) -> str:
    """Return a plan as the terminal shows it."""
    note = (
        f"Better and worse are claimed at {percent(plan.alpha / 2)} each, equivalence by two one-sided tests at "
        f"{percent(plan.alpha)} each, over all looks ({plan.spending})."
    )
    return document(title, lines, [bound_table(plan, metric), note])


def look_line(answer: GateAnswer, look: Look) -> str:
    """Return one line that says what a look found, while the gate goes on."""
    unit, number = unit_of(answer.metric), answer.looks.index(look) + 1
    line = f"Look {number} of {len(answer.plan.looks)}, {counted(look.runs, 'run')}: "
    line += f"{unit.change(look.difference)} {unit.noun}, {_interval(answer, look)}: {look.decision}"
    if number == 1 and (after := answer.after) is not None:
        pairs = f", correlation of pairs {after.correlation:.2f}" if abs(after.correlation) <= 1 else ""
        power = _power(after, unit.amount(answer.plan.smallest_effect))
        line += f". Difference of two runs: std {unit.amount(after.std)}{pairs}; power again: {power}"
    return f"{line}."


def bound_table(plan: SequentialPlan, metric: Metric) -> Table:
    """Return the looks that are planned, with their levels."""
    rows = [
        {
            "look": str(number),
            "runs of either": str(runs),
            "level, better or worse": plain(level.difference, 5),
            "level, equivalence": plain(level.equivalence, 5),
        }
        for number, (runs, level) in enumerate(zip(plan.looks, plan.levels, strict=True), 1)
    ]
    return Table.of(rows, title=f"Looks and one-sided levels ({metric})")


def look_table(answer: GateAnswer) -> Table:
    """Return the looks that were taken."""
    unit = unit_of(answer.metric)
    rows = [
        {
            "look": str(number),
            "runs": str(look.runs),
            "pairs" if answer.paired else "counted": str(look.pairs),
            "difference": unit.change(look.difference),
            "error": unit.text(look.error),
            f"{percent(1 - answer.plan.alpha)} interval": _between(unit, look.low, look.high),
            "for equivalence": _between(unit, look.equivalence_low, look.equivalence_high),
            "decision": look.decision,
        }
        for number, look in enumerate(answer.looks, 1)
    ]
    note = (
        "Intervals are repeated confidence intervals: those of all looks hold together, so they are wider than that of "
        f"a single one would be. In {unit.name}."
    )
    return Table.of(rows, note, title="Looks", texts=frozenset({7}))


def power_table(answer: GateAnswer) -> Table:
    """Return what was to be expected before, and after the first look."""
    unit = unit_of(answer.metric)
    effect, forecasts = unit.text(answer.plan.smallest_effect), {"before the first run": answer.before}
    if answer.after is not None:
        forecasts["after the first look"] = answer.after
    rows = [
        {
            "true difference": f"{true}, {when}",
            **{name: share_text(getattr(outlook, name)) for name in ("better", "equivalent", "worse", "undecided")},
            "runs": plain(outlook.runs, 0),
            "std": unit.text(forecast.std),
        }
        for when, forecast in forecasts.items()
        for true, outlook in ((unit.change(0.0), forecast.same), (f"-{effect}", forecast.worse))
    ]
    note = "Simulated normal scores. std: of the difference of one run of each; at first they are to share nothing."
    return Table.of(rows, note, title="Power")


def gate_answers(answer: GateAnswer) -> tuple[Answer, Answer, Answer]:
    """Return whether the candidate is worse, what that is about, and what would settle it."""
    unit, short, about = unit_of(answer.metric), *_ABOUT[answer.examples]
    verdicts, abouts = [sentence(answer)], [about]
    if all(map(math.isfinite, answer.means)):
        baseline, candidate = map(unit.text, answer.means)
        verdicts.append(f"Mean {answer.metric}: baseline {baseline}, candidate {candidate}.")
    if answer.other is not None:
        other = "On new examples, too," if answer.examples == "fixed" else "On these test data alone"
        abouts.append(f"{other} the interval of the same look is {_between(unit, *answer.other)} {unit.noun}.")
    return (
        Answer("Is the candidate worse?", verdict(answer), tuple(verdicts)),
        Answer("What is the answer about?", short, tuple(abouts)),
        advice_on(answer),
    )


def gate_document(
    answer: GateAnswer, *, lines: Sequence[str] = (), settings: Mapping[str, str] = MappingProxyType({})
) -> Document:
    """Return a gate as people read it; `lines` and `settings` are those of :class:`mlflow_l3d.report.page.Document`."""
    opening = gate_answers(answer)
    looks, power = look_table(answer) if answer.looks else None, power_table(answer)
    label = "Difference at each look, with its intervals and the bounds"
    caption = _CAPTION + _DOTTED * bool(np.isfinite(gate_bounds(answer)[1]).any())
    picture = Picture(partial(gate_figure, answer), "gate", label, caption)
    return Document(
        title=f"{answer.candidate} against {answer.baseline}",
        headline=f"gate: {verdict(answer)} (exit status {answer.exit_status})",
        answers=opening,
        lines=[*opening[0].sentences, *opening[1].sentences[1:], opening[2].text, *lines],
        text=[*answer.notes, looks, power],
        notes=answer.notes,
        sections=[
            Section("The looks so far, and those that were planned", [picture, looks]),
            Section("What was to be expected", [power, bound_table(answer.plan, answer.metric)]),
        ],
        settings=settings,
    )


def gate_markdown(answer: GateAnswer, *, run_id: str) -> str:
    """Return the summary for a CI job."""
    worse, about, advised = gate_answers(answer)
    tables = [*([look_table(answer)] if answer.looks else []), power_table(answer)]
    blocks = [
        f"## Gate: {answer.decision} (exit status {answer.exit_status})",
        f"`{answer.candidate}` against `{answer.baseline}`. {worse.sentences[0]}",
        *(*worse.sentences[1:], *about.sentences, advised.text),
        *[table.markdown() for table in tables],
        *(["\n".join(f"- {note}" for note in answer.notes)] if answer.notes else []),
        f"MLflow run `{run_id}`",
    ]
    return "\n\n".join(blocks) + "\n"


def _interval(answer: GateAnswer, look: Look) -> str:
    """Return the interval that the decision of a look is about."""
    unit, alpha = unit_of(answer.metric), answer.plan.alpha
    level, low, high = 1 - alpha, look.low, look.high
    if look.decision == "equivalent":
        level, low, high = 1 - 2 * alpha, look.equivalence_low, look.equivalence_high
    return f"{percent(level)} confidence interval {_between(unit, low, high)}"


def _power(forecast: Forecast, effect: str) -> str:
    same, worse = forecast.same, forecast.worse
    return (
        f"{share_text(same.equivalent)} to find two equal systems equivalent (after {same.runs:.0f} runs on average), "
        f"{share_text(worse.worse)} to find a candidate that is worse by {effect} ({worse.runs:.0f} runs)"
    )


def _between(unit: Unit, low: float, high: float) -> str:
    limits = between(low, high, unit.change)
    return "no limits yet" if limits == MISSING else limits


def _list(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last

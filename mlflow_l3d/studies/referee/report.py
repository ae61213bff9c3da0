"""A session as people read it: the champion, the price, its path, every candidate and every interim analysis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial

import numpy as np

from mlflow_l3d.analysis.planning.evidence import evidence_needed
from mlflow_l3d.report.draw import Axis, dot, drawn_line, svg, whisker
from mlflow_l3d.report.numbers import (
    MISSING,
    between,
    counted,
    listed,
    metric_text,
    percent,
    plain,
    shorten,
    unit_of,
    with_limits,
)
from mlflow_l3d.report.page import Document, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Drawn, Table, verdict_cell
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.referee.numbers import UNPAIRED, Judgement
from mlflow_l3d.studies.referee.numbers.session import Course, SystemRecord

_SHOWN = 20
"""Candidates that the terminal lists, the last ones."""
_LOOKS = "An interim analysis follows every run. Whoever reads them, or stops at one, loses no guarantee."
_FIXED = ("alpha", "power", "candidates", "most_runs", "confirm")
_KINDS = {"keep": "better", "reject": "equivalent"}


def headline(course: Course) -> str:
    """Return the sentence that says what the session has gained."""
    if not course.path:
        return f"No candidate was kept ({course.judged} judged): the baseline is the champion."
    last, unit = course.path[-1], unit_of(course.metric)
    name = shorten(last.name, 40)
    if not math.isfinite(last.confirmed):
        return f"The champion is {name}; its gain is not confirmed yet."
    if last.low <= 0:
        return f"The champion is {name}; fresh runs do not settle whether it is better than the baseline."
    return f"The champion is {name}, better than the baseline by {unit.size(last.confirmed)}."


def answers(course: Course) -> list[Answer]:
    """Return what the report opens with: the champion's gain, what claims are worth, and the price."""
    rules = course.rules
    unit = unit_of(course.metric)
    change = _change(course)
    kept = len(course.path)
    gain = "The baseline is the champion: **no candidate was kept**."
    more: tuple[str, ...] = ()
    if course.path:
        last, level = course.path[-1], percent(1 - rules.alpha)
        claimed = f"the runs that decided add up to {change(sum(step.claimed for step in course.path))}"
        gain = f"Not confirmed yet; {claimed}, which is too much on average."
        if math.isfinite(last.confirmed):
            limits = between(last.low, last.high, change)
            place = " on the fresh half of the test examples, which decided nothing" if rules.fresh_half else ""
            gain = f"**{change(last.confirmed)}{unit.behind}** over the baseline"
            gain += f" ({level} interval **{limits}**){place}."
            more = (f"It is from fresh runs alone: {claimed}, too much on average (the winner's curse).",)
    claims = (
        f"**{counted(course.judged, 'candidate')} judged, {kept} kept.** On average at most {percent(rules.alpha)} of "
        "the kept ones are no better than the champion that they replaced."
    )
    kinds = "A rejected candidate may be better by little: to see that takes more runs than it is worth."
    price = f"**{counted(course.spent, 'run')}**, {len(course.systems[0].scores)} of the baseline."
    if (single := len(course.systems)) > 1:
        price += f" One run of each system would be {single}: it took **{plain(course.spent / single, 1)} times** that."
    return [
        Answer("How much was gained?", "", (gain, *more)),
        Answer("Could it be luck?", "", (claims, kinds)),
        Answer("What did it cost?", "", (price,)),
    ]


def steps(course: Course, source: Source) -> list[Step]:
    """Return what to do next."""
    command = source.command("referee", candidate="NAME=VALUE").replace(" referee ", " referee judge ", 1)
    left = [f"{each.number} ({shorten(each.title, 40)})" for each in course.systems[1:] if not each.verdict]
    text = f"Judge the undecided again: {listed(left[-3:])}. Or judge" if left else "Judge"
    more = " What you name changes the champion, and what was kept stays:" if command else ""
    return [Step(f"{text} the next candidate.{more}", command)]


def notes(course: Course, systems: Iterable[SystemRecord] | None = None) -> Iterator[str]:
    """Yield what to be wary of; of runs without a score, those of some systems or of all."""
    if course.is_judging:
        yield "A judgement is under way: these are the runs and verdicts recorded so far."
    if course.lead_by_luck > course.rules.effect:
        fresh = "The fresh half decided nothing: quote the confirmed gain, which is from it."
        fix = fresh if course.rules.fresh_half else "Confirm the champion on new ones."
        yield (
            f"The test examples were used often: the best of {course.judged} equal candidates may be ahead by up to "
            f"{unit_of(course.metric).amount(course.lead_by_luck)} through luck of the examples alone. {fix}"
        )
    if failed := _failed(systems or course.systems):
        has = "has no score and does" if failed == 1 else "have no score and do"
        yield f"{counted(failed, 'run')} {has} not count. Look at why."


def _failed(systems: Iterable[SystemRecord]) -> int:
    return sum(not math.isfinite(score) for each in systems for score in each.scores.values())


def path_table(course: Course) -> Table | None:
    """Return one champion after another: claimed, shrunk and confirmed."""
    if not course.path:
        return None
    unit = unit_of(course.metric)
    change = _change(course)
    level = percent(1 - course.rules.alpha)
    claimed, shrunk = (np.cumsum([getattr(step, name) for step in course.path]) for name in ("claimed", "shrunk"))
    ends = [value for step in course.path for value in (step.confirmed, step.low, step.high)]
    axis = Axis.over(unit.scale * np.array([0.0, *claimed, *ends]))
    head, rows = axis.head("gain over the baseline"), []
    for step, *sums in zip(course.path, claimed, shrunk, strict=True):
        limits = between(step.low, step.high, change)
        said = with_limits(change(step.confirmed), limits, "({})")
        first, second, at, low, high = (
            axis.at(unit.scale * value) for value in (*sums, step.confirmed, step.low, step.high)
        )
        confirmed = [*whisker(low, high, 13), dot(at, 13, "confirmed", radius=4.5)] if limits != MISSING else []
        marks = [dot(first, 13, "claimed so far", hollow=True), dot(second, 13, "shrunk so far", radius=2), *confirmed]
        zero = drawn_line("mean", axis.at(0.0), axis.at(0.0), 0, 26)
        rows.append(
            {
                "champion": f"{step.number}: {shorten(step.name, 24)}",
                "claimed (shrunk)": f"{change(step.claimed)}\n({change(step.shrunk)})",
                head: Drawn(svg(26, said.replace("\n", " "), zero, *marks)),
                f"confirmed ({level})": said,
            }
        )
    note = (
        "Claimed: gain over the champion before it, by the runs that decided. Shrunk: without its likely luck. "
        "Confirmed: gain over the baseline, by fresh runs."
    )
    legend = "Circle: claimed. Small dot: shrunk. Dot: confirmed. All are gains over the baseline."
    kinds = tuple("better" if step.low > 0 else "undecided" for step in course.path)
    return Table.of(rows, note, legend=legend, kind="bars", kinds=kinds)


def candidates_table(course: Course, most: int | None = None) -> Table | None:
    """Return the candidates, the newest first: all with every interim analysis, or the last ones without."""
    chosen = course.systems[1:][::-1][:most]
    if not chosen:
        return None
    change, rows = _change(course), list[dict[str, str]]()
    for each in chosen:
        look = each.looks[-1] if each.looks else None
        rows.append(
            {
                "candidate": f"{each.number}: {shorten(each.title, 50)}",
                "verdict": verdict_cell(each.verdict or "undecided"),
                "gain": MISSING
                if look is None
                else with_limits(change(look.gain), between(look.low, look.high, change), "({})"),
                "evidence": MISSING if look is None else _evidence(look.evidence),
                "runs": f"{len(each.scores)}{f', {failed} failed' if (failed := _failed([each])) else ''}",
            }
        )
        if most is None:
            every = (f"{at.runs}: {change(at.gain)}, {_evidence(at.evidence)}" for at in each.looks)
            rows[-1]["after each run: gain, evidence"] = "; ".join(every)
    left = len(course.systems) - 1 - len(chosen)
    note = f"Gain in {unit_of(course.metric).name} over the champion of its time; its interval holds at every look."
    note += f" {counted(left, 'earlier candidate')} not shown." if left else ""
    kinds = tuple(_KINDS.get(each.verdict, "undecided") for each in chosen)
    return Table.of(rows, note, texts=frozenset({1, 5}), title="Candidates", kinds=kinds)


def comment_rows(course: Course) -> list[dict[str, str]]:
    """Return the last ten candidates for a comment, the newest first, each against the champion of its time."""
    rows, rules = list[dict[str, str]](), course.rules
    unit, sign, change = unit_of(course.metric), rules.sign, _change(course)
    digits = unit.digits(rules.effect)
    champions = [course.systems[0].title, *(step.name for step in course.path)]
    for each in course.systems[:0:-1][:10]:
        if not each.looks:
            continue
        look = each.looks[-1]
        # Only what a claim took says which champion an undecided candidate met: others may have followed since.
        kept = round(evidence_needed(each.number, 0, rules.candidates, rules.alpha) / look.needed) - 1
        runs = sorted(each.scores.items())[: len(each.looks)]  # a look follows each run; later ones confirm
        scores = [score for _, score in runs if math.isfinite(score)]
        scores = scores[len(scores) - look.runs :]
        after = sum(scores) / len(scores) if scores else math.nan
        low, high = sorted([sign * look.low, sign * look.high])
        title = f"{shorten(each.title, 60)} against {shorten(champions[min(kept, len(course.path))], 60)}"
        difference = with_limits(change(sign * look.gain), between(low, high, change), "({})")
        numbers = {"before": unit.text(after - sign * look.gain, digits), "after": unit.text(after, digits)}
        numbers |= {f"difference ({percent(1 - rules.alpha)})": difference}
        numbers |= {"verdict": each.verdict or "undecided", "cost": counted(len(each.scores), "run")}
        rows.append({metric_text(course.metric): title, **numbers})
    return rows


def session_document(course: Course, source: Source) -> Document:
    """Return a session as people read it, and its origin."""
    unit, rules = unit_of(course.metric), course.rules
    said = [*notes(course), "All claims are about these test examples, and assume that scores are about normal."]
    return Document(
        title=course.title,
        headline=headline(course),
        about=source.about(course.metric, counted(course.judged, "candidate")),
        place=source.place(counted(course.spent, "run")),
        answers=answers(course),
        table=path_table(course),
        steps=steps(course, source),
        lines=source.lines,
        remarks=[candidates_table(course, _SHOWN), "", *said],
        notes=said,
        sections=[Section("Every candidate and interim analysis", [_LOOKS, candidates_table(course)])],
        settings={
            "MLflow run": course.run_id,
            "baseline": course.systems[0].title,
            "smallest effect": unit.amount(rules.effect),
            **{name.replace("_", " "): f"{value:g}" for name, value in asdict(rules).items() if name in _FIXED},
        },
    )


def judgement_lines(course: Course, judgement: Judgement) -> list[str]:
    """Return the lines about a candidate; the last one is JSON."""
    unit = unit_of(course.metric)
    change = _change(course)
    title = shorten(judgement.candidate, 60)
    verdict = judgement.verdict
    look = judgement.assessment
    runs = counted(judgement.more, "run")
    judged = [each for each in course.systems if each.title == judgement.candidate]
    spent = counted(judgement.spent, "run")
    gain = (
        f"gain {change(look.gain)}{unit.behind} over the champion ({between(look.low, look.high, change)}), {spent} now"
    )
    following = f"about {runs} of it, from number {judgement.following}"
    if UNPAIRED in judgement.notes:
        following = f"judge it again when about {counted(judgement.more, 'more run')} of it are there"
    what = {
        "keep": "It is the champion now; the next changes are relative to it.",
        "reject": "It is not better, or by too little to be seen with the runs that are allowed.",
    }.get(verdict, f"Next: {following}.")
    if verdict == "reject" and look.gain > 0 and look.evidence >= look.needed:
        what = "It is ahead, but failed with seeds that the champion did not fail with: such a candidate is not kept."
    lines = [f"{verdict}: {title}", f"{gain}. {what}", *notes(course, judged)]
    if course.rules.fresh_half and course.path and math.isfinite(course.path[-1].confirmed):
        last = course.path[-1]
        limits = f"{change(last.confirmed)}{unit.behind} ({between(last.low, last.high, change)})"
        lines.append(f"On the fresh half of the test examples the champion gains {limits} over the baseline.")
    return [*lines, *judgement.notes, judgement.to_json()]


def _change(course: Course) -> Callable[[float], str]:
    """Return how gains are written: no digits beyond those of the smallest effect."""
    unit = unit_of(course.metric)
    return partial(unit.change, digits=unit.digits(course.rules.effect))


def _evidence(value: float) -> str:
    return plain(value, 2) if value < 100 else f"{value:,.0f}" if value < 1e6 else "> 1,000,000"

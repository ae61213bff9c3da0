"""What the report of a sweep says first: a sentence that decides, three answers, and what to do next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.verdicts import DECIDED, Advice
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.numbers import MISSING, between, counted, listed, percent, probability, shorten
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Answer, Step, all_of
from mlflow_l3d.studies.sweep.numbers.interactions import Interaction
from mlflow_l3d.studies.sweep.numbers.point import GOLDEN_STD, TASK, UNRELIABLE, value_of, value_text
from mlflow_l3d.studies.sweep.numbers.trends import Trend, scaled
from mlflow_l3d.studies.sweep.report.shown import ShownSweep, short

_SIZES: Final = ("mitigation_runs", "investigation_runs")
_NAMED: Final = 3
"""Factors and points that a sentence names at most; notes of a first screen."""
_NO_SCORE: Final = "No point has a score."
_NO_PAIR: Final = "No two points whose score varies are alike in all choices but one."
_METRICS: Final = "Points have different metrics, so their luck does not compare."


def headline(shown: ShownSweep) -> str:
    """Return the sentence that decides: what a test claims, else where luck is largest."""
    sweep, luck = shown.sweep, shown.luck["golden_std"]
    if not sweep.factors:
        return _NO_SCORE
    if len(luck) and not luck.any():
        return f"Repeated runs score the same at {counted(len(luck), 'point')}: the varied factors change no score."
    for of in (GOLDEN_STD, *shown.factors):
        for one in shown.every_test:
            if one.of == of and shown.claimed(one):
                return _claimed(shown, one) if isinstance(one, Trend) else _levels(shown, one)
    if sweep.without_effect:
        return f"{listed(sweep.without_effect)} changed no score."
    if sweep.trends or sweep.interactions:
        return "No choice is established to change luck, or the importance of a factor."
    if len(shown.metrics) > 1:
        return _METRICS
    ends = _extremes(shown)
    if len(ends) == 2:
        return _largest(shown, *ends)
    return f"Luck is typically {ends[0][1]}{shown.behind} at {ends[0][0]}." if ends else _NO_PAIR


def _step(one: Trend) -> str:
    return f"doubling of {one.choice}" if one.scale == "log2" else f"step of {value_text(one.step)} in {one.choice}"


def _values(shown: ShownSweep, one: Trend) -> list[float]:
    """Return the values of the choice of a trend, of points with a score."""
    values = {value_of(point, one.choice) for point in shown.sweep.points if point.analysis is not None}
    return sorted(value for value in values if isinstance(value, int | float))


def _claimed(shown: ShownSweep, one: Trend) -> str:
    """Return what a trend claims: of a step, or of two values that differ, which show no trend."""
    values = _values(shown, one)
    if len(values) != 2:
        luck = f"makes luck about {_ratio(shown, one.slope)}"
        matters = f"makes {one.of} matter {'more' if one.slope > 0 else 'less'}"
        return f"Each {_step(one)} {luck if one.of == GOLDEN_STD else matters}."
    low, high = map(value_text, values)
    where = f"at {one.choice}={high} than at {low}"
    if one.of != GOLDEN_STD:
        return f"{one.of} matters {'more' if one.slope > 0 else 'less'} {where}."
    start, end = scaled(np.array(values), one.scale, one.step)
    return f"Luck is about {_ratio(shown, one.slope * (end - start))} {where}."


def _ratio(shown: ShownSweep, change: float) -> str:
    """Return how much larger or smaller luck is, in per cent."""
    size = shown.change(GOLDEN_STD, change, sign="").lstrip("-")
    return f"{size} {'larger' if change > 0 else 'smaller'}"


def _levels(shown: ShownSweep, one: Interaction) -> str:
    """Return what a choice moves, and at which of its values."""
    (low, least), (high, most) = one.extremes()
    where = f"{one.choice}={short(value_text(high))}"
    other = short(value_text(low))
    if one.of != GOLDEN_STD:
        return f"{one.of} matters most at {where} and least at {other}."
    return _largest(shown, (where, shown.unit.typical(math.exp(most))), (other, shown.unit.typical(math.exp(least))))


def _largest(shown: ShownSweep, most: tuple[str, str], least: tuple[str, str]) -> str:
    high = f"{most[1]}{shown.behind}"
    return f"Luck is largest at {most[0]} (typically {high}) and smallest at {least[0]} ({least[1]})."


def _extremes(shown: ShownSweep) -> list[tuple[str, str]]:
    """Return name and luck of the point with the most luck, and of that with the least, if that reads as less."""
    ends = shown.luck.iloc[[0, -1]].to_dict("records") if len(shown.luck) else []
    named = [(shorten(shown.names[row["point"]], 60), shown.unit.typical(row["run_std"])) for row in ends]
    if named and named[0][1] == named[1][1]:
        return named[:1]
    if named and len(shown.sweep.choices) == 1:
        named[1] = named[1][0].removeprefix(f"{shown.names_head}="), named[1][1]
    return named


def answers(shown: ShownSweep) -> tuple[Answer, Answer, Answer]:
    """Return where luck is largest, whether that is a trend, and which factors matter where."""
    about = "Luck is the golden standard deviation: that of runs in which every factor varies."
    return (
        Answer("Where is luck largest?", "", (_where(shown), about)),
        Answer("Is that a trend?", "", (_trend(shown), *_moves(shown))),
        Answer("Which luck, where?", "", tuple(_which(shown))),
    )


def _where(shown: ShownSweep) -> str:
    if len(shown.metrics) > 1:
        return _METRICS
    ends, count = _extremes(shown), len(shown.luck)
    if not ends:
        return "No point has a golden standard deviation." if shown.sweep.factors else _NO_SCORE
    (most, size), *least = ends
    size = f"[[typically|std]] **{size}**{shown.behind}"
    if least:
        return f"At {most}: {size}. Smallest at {least[0][0]}: **{least[0][1]}**."
    return f"At {most}, the only point: {size}." if count == 1 else f"Nowhere: at all points {size}."


def _trend(shown: ShownSweep) -> str:
    sweep = shown.sweep
    move = next((one for one in shown.moves if one.of == GOLDEN_STD), None)
    differs = move is not None and shown.claimed(move)
    if one := next((one for one in shown.trends if one.of == GOLDEN_STD), None):
        claimed = shown.claimed(one)
        size = f"**{shown.change(one.of, one.slope)}** per {_step(one)}"
        limits = between(one.low, one.high, lambda end: shown.change(one.of, end).removesuffix(" %"))
        if limits == MISSING:
            return f"**Not known:** luck changes by {size}, which has no interval."
        more = " Its values do differ in luck." if not claimed and differs else ""
        yes = "Two values show no trend, but they differ" if len(_values(shown, one)) == 2 else "Yes"
        verdict = yes if claimed else "Not established"
        interval = f"{percent(sweep.level)} interval {limits} %"
        alone = " if this were the only test" if one.low * one.high > 0 and not claimed else ""
        return f"**{verdict}:** {size} ({interval}{alone}; p {probability(one.p_holm)} {shown.tests}).{more}"
    if move is not None:
        values = f"its {len(move.values)} values at which scores vary"
        said = f"Points are too few to compare luck between {values}."
        if not math.isnan(move.p_holm):
            verdict = "differs" if differs else "does not differ significantly"
            said = f"Luck **{verdict}** between {values} (p {probability(move.p_holm)} {shown.tests})."
        return f"{move.choice} has no trend to test. {said}"
    if sweep.without_effect:
        return f"{sweep.without_effect[0]} changed no score: does it have an effect?"
    return _METRICS if len(shown.metrics) > 1 else _NO_PAIR


def _moves(shown: ShownSweep) -> Iterator[str]:
    """Yield what choices change: the importance of factors, and the golden standard deviation."""
    sweep, moved = shown.sweep, [one for one in shown.moves if shown.claimed(one)]
    trends = [one for one in shown.trends if shown.claimed(one)]
    yield from (f"{choice} changed no score." for choice in sweep.without_effect)
    if (sweep.trends or sweep.interactions) and not (moved or trends):
        yield "Choices may still have an effect: the intervals show how large it may be."
    for choice in dict.fromkeys(one.choice for one in moved):
        yield f"{choice} moves {listed([shown.what(one.of) for one in moved if one.choice == choice])}."
    for one in trends:
        yield f"With {one.choice}, {shown.what(one.of)} {'rises' if one.slope > 0 else 'falls'}."


def _which(shown: ShownSweep) -> Iterator[str]:
    """Yield where factors dominate, and at how many points each has which verdict."""
    rows = shown.rows[shown.rows["factor"].ne("")]
    if rows["verdict"].eq(MISSING).all():
        yield "Baseline strategies have no share of the variance, and no verdict." if len(rows) else _NO_SCORE
        return
    above = [name for name in shown.factors if (rows["factor"].eq(name) & rows["verdict"].eq("dominates")).any()]
    rest = [name for name in shown.factors if name not in above]
    open_ = int((~rows["verdict"].isin(DECIDED)).sum())
    lead = "**No factor is established to dominate** at any point."
    if above:
        parts = [f"**{name} dominates** {_at(shown, name)}" for name in above[:_NAMED]]
        if rest:
            parts.append(f"{listed(rest) if len(rest) <= _NAMED else f'{len(rest)} others'} nowhere")
        lead = f"{'; '.join(parts)}."
    elif not open_:
        lead = "**No factor alone is involved in half of the variance** at any point."
    yield lead + (f" [[Undecided|verdict]]: {open_} of {counted(len(rows), 'verdict')}." if open_ else "")
    counts = pd.crosstab(rows["factor"], rows["verdict"]).reindex(columns=[*DECIDED, "undecided"], fill_value=0)
    for name, (yes, no, unsure) in zip(counts.index, counts.to_numpy().tolist(), strict=True):
        total = counted(yes + no + unsure, "point")
        yield f"{name}: dominates at {yes} of {total}, minor at {no}, undecided at {unsure}."
    yield "The verdicts of one point hold together; of many points one may be wrong by luck."


def _at(shown: ShownSweep, factor: str) -> str:
    """Return where a factor dominates: at points that are named, or at how many."""
    rows = shown.rows[shown.rows["factor"] == factor]
    here = rows["verdict"].eq("dominates")
    if here.all() and len(rows) > 1:
        return f"at {all_of(len(rows))} points"
    names = [shorten(shown.names[point], 40) for point in rows["point"][here]]
    return f"at {listed(names)}" if len(names) < _NAMED else f"at {len(names)} of {len(rows)} points"


def steps(shown: ShownSweep, source: Source) -> list[Step]:
    """Return what to do next, what changes the answer most first."""
    return list(_next_steps(shown, source))[:2]


def _next_steps(shown: ShownSweep, source: Source) -> Iterator[Step]:
    sweep = shown.sweep
    command = source.command("sweep") if source.given else ""
    can_repeat = bool(source.given)
    if sweep.failed and can_repeat:
        yield Step(f"{counted(len(sweep.failed), 'point')} without a score: the same command tries again:", command)
    sizes = _sizes_needed(shown)
    if sizes and can_repeat and not {*_SIZES} & set(sweep.choices):
        largest = {name: str(max(each)) for name, *each in zip(_SIZES, *sizes, strict=True) if any(each)}
        more = "" if command else f" ({', '.join(f'{name}={size}' for name, size in largest.items())})"
        text = f"More runs{more} may settle {counted(len(sizes), 'undecided verdict')}; finished ones count:"
        yield Step(text, source.command("sweep", **largest))
    if len(sweep.factors) == 1 and can_repeat:
        else_ = "What else moves the score?" + ("" if command else " factor=all shows it.")
        yield Step(else_, source.command("sweep", factor="all"))
    ends = _extremes(shown)
    if len(ends) == 2 and (run_id := shown.luck["run_id"].iloc[0]):
        yield Step(f"What is behind the luck at {ends[0][0]}? Its own report:", f"mlflow-l3d view {run_id}")


def _sizes_needed(shown: ShownSweep) -> list[tuple[int, int]]:
    """Return for each verdict that larger tables decide how many rows, and columns: at most ten times as many runs."""
    sizes = []
    for analysis in shown.analyses:
        design = design_named(analysis.design)
        for record in analysis.importances.values() if not design.baseline else ():
            advice = analysis.advice.get(record.factor, Advice())
            rows, columns = advice.rows or 0, advice.columns or 0
            runs = max(rows, record.table.shape[0]) * max(columns, record.table.shape[1])
            # No step asks for more than ten times the runs.
            if advice.action in ("more_rows", "larger_table") and runs <= 10 * record.table.size:
                sizes.append((rows, columns))
    return sizes


def short_notes(shown: ShownSweep) -> list[str]:
    """Return the first things to watch, for a first screen."""
    notes = _notes(shown)
    more = [f"{len(notes) - _NAMED} more under What to watch."] if len(notes) > _NAMED else []
    return [*(shorten(note, 160) for note in notes[:_NAMED]), *more]


def watch(shown: ShownSweep) -> list[str]:
    """Return what a reader must know: points and cells without a score, collapsed runs, checks, one task only."""
    one_task = "All points are of one task: what another task would show is not known."
    return [*_notes(shown), *([one_task] if TASK not in shown.sweep.choices and shown.analyses else [])]


def _notes(shown: ShownSweep) -> list[str]:
    sweep = shown.sweep
    notes = []
    for point in sweep.failed:
        error = f": {shorten(point.error, 300).rstrip('.')}" if point.error else ""
        notes.append(f"{shorten(point.name, 100)} has no score{error}.")
    if lacking := [each.cells_failed for each in shown.analyses if each.cells_failed]:
        verb = "has" if sum(lacking) == 1 else "have"
        notes.append(f"{counted(sum(lacking), 'run')} of {counted(len(lacking), 'point')} {verb} no score.")
    if down := sum(each.collapse is not None for each in shown.analyses):
        more = "Trends and tests use the runs that did not; the tables show all runs."
        notes.append(f"Runs collapse at {counted(down, 'point')}. {more}")
    if len(shown.metrics) > 1:
        notes.append(f"Points have different metrics ({', '.join(shown.metrics)}): their luck does not compare.")
    for other in dict.fromkeys(sweep.follows.values()):
        followers = [name for name, each in sweep.follows.items() if each == other]
        verb = "follows" if len(followers) == 1 else "follow"
        notes.append(f"{listed(followers)} {verb} from {other}: what {other} moves may be moved by that instead.")
    checks = ({(one.code, one.title) for one in each.checks if one.severity == "warning"} for each in shown.analyses)
    warned = sorted(Counter(check for codes in checks for check in codes).items())
    untested = dict.fromkeys(UNRELIABLE, " No test uses an importance that it concerns.")
    places = (
        f"{title} ({code}) at {counted(number, 'point')}.{untested.get(code, '')}" for (code, title), number in warned
    )
    return [*notes, *places]

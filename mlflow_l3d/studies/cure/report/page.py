"""A cure as people read it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from mlflow_l3d.analysis.cure.rank import pareto
from mlflow_l3d.report.draw import Axis
from mlflow_l3d.report.numbers import counted, duration, listed, metric_text, points, share_text, unit_of
from mlflow_l3d.report.page import Document, Drawing, Item, Section
from mlflow_l3d.report.remedies import range_text, remedy_table, remedy_words
from mlflow_l3d.report.scatter import scatter
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table, verdict_cell
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.cure.numbers.verified import CureAnswer, Verified

_ROWS: Final = 4
"""Remedies on the first screen."""
_READING: Final = (
    "Remaining std: standard deviation of the score over golden runs with the remedy. Change of mean: with the remedy "
    "less without. Fragile: test examples that are right under some results and wrong under others. Trainings: behind "
    "one result. Basis: exact, from stored runs without resampling error; extrapolated, from fewer members or other "
    "sizes; unknown, until it is verified."
)


def cure_document(answer: CureAnswer, *, source: Source, run_id: str, settings: Mapping[str, str]) -> Document:
    """Return a cure as people read it.

    Parameters
    ----------
    answer
        What it found.
    source
        The origin of the parent run.
    run_id
        Its own run.
    settings
        The given values.
    """
    unknown = [each for each in answer.predictions if each.basis == "unknown"]
    first = [each for each in answer.shown() if each.remedy.kind != "fix"][:_ROWS]
    note = f"Without a remedy {unit_of(answer.metric).typical(answer.std)}. Predicted from stored runs, with intervals."
    sections = [
        Section("Predicted and achieved", [verified_table(answer)], is_open=True, name="verified"),
        Section("What remains luck", [remaining_table(answer)], name="luck"),
        Section("Every remedy", [remedy_table(answer.predictions, answer.metric, _READING)], name="remedies")
        if answer.predictions
        else Section("Every remedy", []),
        Section(
            "Unknown until verified",
            [[Item(each.reason or "not predictable", remedy_words(each.remedy)) for each in unknown] or None],
        ),
        Section("What could not be predicted or verified", [list(map(Item, answer.reasons)) or None]),
    ]
    return Document(
        title=f"cure of run {source.run_id}",
        headline=headline(answer),
        about=source.about(metric_text(answer.metric)),
        place=source.place(counted(len(answer.predictions), "prediction")),
        answers=[_helping(answer), _cost(answer), _luck(answer)],
        drawing=front(answer),
        table=remedy_table(first, answer.metric, note) if first else None,
        steps=list(_steps(answer, source, run_id)),
        lines=[f"Cure of run {source.run_id}; report.html is among the artifacts of MLflow run {run_id}."],
        notes=answer.reasons[:2],
        sections=sections,
        settings=settings,
    )


def headline(answer: CureAnswer) -> str:
    """Return the sentence that decides."""
    unit, best, helping = unit_of(answer.metric), answer.best, answer.helping()
    if best is not None and answer.verdict(best) == "better":
        now, then = unit.text(best.plain.value, 1), unit.size(best.cured.value)
        return f"Verified: a {remedy_words(best.prediction.remedy)} leaves ± {then} of ± {now}."
    if answer.verified:
        return "Not verified: no trained remedy is established to leave less luck at no lower mean."
    if helping:
        then = unit.size(helping[0].std.value)
        return f"A {remedy_words(helping[0].remedy)} would leave ± {then} of ± {unit.text(answer.std, 1)}."
    return "No remedy that can be predicted from these runs leaves clearly less luck in a single result."


def _helping(answer: CureAnswer) -> Answer:
    question, unit, best = "What would help?", unit_of(answer.metric), answer.best
    if best is not None:
        change, ends = unit.change(best.mean_change.value, 1), range_text(best.mean_change, unit, sign=True)
        share = points(best.ratio.value, 0)
        lead = (
            f"**{answer.verdict(best).capitalize()}:** {best.runs} golden runs of a {remedy_words(best.prediction.remedy)} "
            f"have **{share} %** of the spread ({points(best.ratio.low, 0)} to {points(best.ratio.high, 0)} %) and a mean "
            f"that is **{change}**{unit.behind} higher ({ends.partition('(')[2]}."
        )
        return Answer(question, "", (lead,))
    helping = answer.helping()
    if not helping:
        why = " ".join(answer.reasons[:1]) or "Every remedy leaves more than 95 % of the spread, or lowers the mean."
        return Answer(question, "", (why,))
    first = helping[0]
    agree = f", and two results agree on {points(first.consistency.value, 0)} % of the predictions" * math.isfinite(
        first.consistency.value
    )
    lead = (
        f"A **{remedy_words(first.remedy)}**: mean **{unit.change(first.mean_change.value, 1)}**{unit.behind}{agree}."
    )
    return Answer(question, "", (lead,))


def _cost(answer: CureAnswer) -> Answer:
    question, chosen = (
        "What does it cost?",
        answer.best.prediction if answer.best else next(iter(answer.helping()), None),
    )
    if chosen is None:
        return Answer(question, "", ("Nothing to pay for. Reporting the mean of several runs costs their trainings.",))
    time = f", {duration(chosen.seconds)} of training" if math.isfinite(chosen.seconds) else ""
    return Answer(question, "", (f"**{counted(chosen.trainings, 'training')}** behind each prediction{time}.",))


def _luck(answer: CureAnswer) -> Answer:
    question, chosen = "What stays luck?", answer.best.prediction if answer.best else next(iter(answer.helping()), None)
    unit = unit_of(answer.metric)
    if chosen is None or not chosen.shares:
        return Answer(
            question,
            "",
            (f"± {unit.text(answer.std, 1)}{unit.behind}, as before: which factors cause it, the investigation says.",)
            if chosen is None
            else (f"± {unit.text(chosen.std.value, 1)}{unit.behind}.",),
        )
    named = sorted(chosen.shares.items(), key=lambda each: -each[1])[:2]
    causes = listed([f"**{name}** ({share_text(share)})" for name, share in named])
    return Answer(question, "", (f"± {unit.text(chosen.std.value, 1)}{unit.behind}. Involved in it: {causes}.",))


def front(answer: CureAnswer) -> Drawing | None:
    """Return every remedy as a dot, over its trainings, and the line of those that no cheaper one beats."""
    known = [each for each in answer.predictions if math.isfinite(each.std.value) and each.remedy.kind != "fix"]
    if len(known) < 2:
        return None
    unit, known = unit_of(answer.metric), sorted(known, key=lambda each: (each.trainings, -each.std.value))
    cost = np.log2([each.trainings for each in known])
    places, values = cost / max(cost.max(), 1.0), unit.scale * np.array([each.std.value for each in known])
    line = np.minimum.accumulate(values)
    axis = Axis.over([*values, unit.scale * answer.std])
    most = int(max(each.trainings for each in known))
    ticks = [
        (math.log2(count) / max(cost.max(), 1.0), str(count)) for count in (1, 2, 5, 10, 20, 50, 100) if count <= most
    ]
    names = [f"{remedy_words(each.remedy)}: ± {unit.text(each.std.value)}" for each in known]
    label = f"Remaining standard deviation of {len(known)} remedies by trainings, from {names[0]} to {names[-1]}"
    best = len(pareto(known))
    caption = (
        f"A dot: one remedy. Up: remaining std ({unit.short}); right: trainings behind one result. Line: the least that "
        f"is left for the price ({counted(best, 'remedy').replace('remedys', 'remedies')})."
    )
    return Drawing(scatter(places, values, axis, ticks, label, names=names, line=line), caption)


def verified_table(answer: CureAnswer) -> Table | None:
    """Return what was predicted of each verified remedy, and what was achieved."""
    if not answer.verified:
        return None
    unit = unit_of(answer.metric)
    rows = [
        {
            "remedy": remedy_words(each.prediction.remedy),
            "verdict": verdict_cell(answer.verdict(each)),
            f"std before ({unit.short})": range_text(each.plain, unit),
            "std predicted": range_text(each.prediction.std, unit),
            "std achieved": range_text(each.cured, unit),
            "ratio of stds (%)": f"{points(each.ratio.value, 0)}\n({points(each.ratio.low, 0)} to {points(each.ratio.high, 0)})",
            "mean predicted": range_text(each.prediction.mean_change, unit, sign=True),
            "mean achieved": range_text(each.mean_change, unit, sign=True),
            "runs agree (%)": f"{points(each.plain_consistency, 1)} to {points(each.consistency, 1)}",
            "runs": str(each.runs),
        }
        for each in answer.verified
    ]
    effect = unit.text(answer.smallest_effect)
    note = (
        "Golden runs with and without the remedy have the same configurations and test examples. better: the ratio of "
        f"the standard deviations lies below 100 %, and the mean is lower by less than {effect}, both by 95 % intervals "
        "(jackknife over pairs; paired t)."
    )
    kinds = tuple(answer.verdict(each) for each in answer.verified)
    return Table.of(rows, note, texts=frozenset({1}), kinds=kinds)


def remaining_table(answer: CureAnswer) -> Table | None:
    """Return how much of what remains each factor is involved in."""
    some = [each for each in answer.shown() if each.shares][:8]
    factors = list(dict.fromkeys(name for each in some for name in each.shares))
    rows = [
        {"remedy": remedy_words(each.remedy)} | {name: points(each.shares.get(name, math.nan), 0) for name in factors}
        for each in some
    ]
    note = (
        "Share (%) of the remaining variance that a factor is involved in; interactions count for each factor in them."
    )
    return Table.of(rows, note) if rows else None


def _steps(answer: CureAnswer, source: Source, run_id: str) -> Iterator[Step]:
    best = answer.best
    if best is not None:
        download = f"mlflow artifacts download --run-id {run_id} --artifact-path cure.json --dst-path ."
        yield Step("Use the verified remedy, after", download)
        if command := source.command(cure="cure.json"):
            yield Step("With it, what is luck?", command)
    elif answer.helping() and source.run_id:
        yield Step("Predicted, not yet trained. Verify it:", f"mlflow-l3d cure {source.run_id} --verify 1")


def prediction_rows(answer: CureAnswer) -> list[dict[str, Any]]:
    """Return one row per remedy: what is predicted, and achieved if it was verified."""
    achieved: dict[int, Verified] = {id(each.prediction): each for each in answer.verified}
    rows = []
    for each in answer.predictions:
        row: dict[str, Any] = {"remedy": remedy_words(each.remedy), **asdict(each.remedy)}
        numbers = ("std", "mean_change", "consistency", "fragile")
        row |= {
            f"{name}{end}": value
            for name in numbers
            for end, value in zip(("", "_low", "_high"), getattr(each, name), strict=True)
        }
        row |= {"trainings": each.trainings, "seconds": each.seconds, "basis": each.basis, "reason": each.reason}
        if (found := achieved.get(id(each))) is not None:
            row |= {
                "achieved_std": found.cured.value,
                "achieved_mean_change": found.mean_change.value,
                "verdict": answer.verdict(found),
            }
        rows.append(row)
    return rows

"""The document of evaluation runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from mlflow_l3d.report.draw import Axis, dot, svg, text, whisker
from mlflow_l3d.report.numbers import MISSING, between, counted, listed, plain, share_text, with_limits
from mlflow_l3d.report.page import Document, Drawing, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.judged.numbers import ScorerNumbers

_ROWS = 50
"""Rows of a table at most."""
_NOTES = {
    "Which luck moves the mean?": "Variance components; low and high: 95 % interval of the variance.",
    "What would one more gain?": "Standard error of the mean, now and with one more of each.",
    "Do the judges agree?": "equal: share of equal verdicts; kappa: Cohen's for two judges, else Krippendorff's alpha.",
    "How often do k answers pass?": "all: pass^k, any: pass@k; unbiased, 95 % intervals clustered by row.",
    "Which rows change?": "row: its tag l3d.row, or a hash of its inputs; number: in the data, from 0. All: rows.json.",
}


def evaluation_document(
    scorers: Sequence[ScorerNumbers], title: str, run_ids: Sequence[str], notes: Sequence[str], source: Source
) -> Document:
    """Return evaluation runs as people read them.

    Parameters
    ----------
    scorers
        The numbers, those of the headline first.
    title, run_ids, notes, source
        As in :class:`mlflow_l3d.studies.judged.results.JudgedEvaluation`.
    """
    first, (one, *_) = scorers[0], [each.components for each in scorers]
    interval = "without an interval" if math.isnan(one.mean_low) else f"with a 95 % interval of {_limits(first)}"
    sections = [
        Section(f"{question} ({each.scorer})", [frame_table(frame, _NOTES[question])])
        for each in scorers
        for question, frame in zip(
            _NOTES, (each.components.frame, each.gains, each.agreement, each.passes, each.unstable), strict=True
        )
    ]
    return Document(
        title=title,
        headline=f"{first.scorer} is {first.shown(one.mean)}, {interval}.",
        about=f"{title} · {counted(len(scorers), 'scorer')}",
        place=source.place(counted(one.rows, "row"), counted(one.answers, "answer")),
        answers=(Answer("How sure is that?", "", (*_sure(first),)), _main_luck(first), _change(first)),
        drawing=_stds(first),
        table=_scorer_table(scorers),
        steps=[*_steps(first, run_ids)],
        lines=source.lines,
        notes=[*notes, *dict.fromkeys(note for each in scorers for note in each.components.notes)],
        sections=sections,
        settings={"evaluation runs": ", ".join(run_ids)},
    )


def frame_table(frame: pd.DataFrame, note: str) -> Table | None:
    """Return the first rows of a frame as a table; None if it has none."""
    if frame.empty:
        return None
    heads = [str(name).replace("_", " ") for name in frame]
    rows = frame.head(_ROWS).to_numpy(object)
    texts = frozenset(at for at, value in enumerate(rows[0]) if isinstance(value, str))
    return Table.of([dict(zip(heads, map(_cell, row), strict=True)) for row in rows], note, texts=texts - {0})


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2g}" if 0 < abs(value) < 1e-3 else plain(value, 0 if value.is_integer() else 3)


def _limits(one: ScorerNumbers) -> str:
    return between(one.components.mean_low, one.components.mean_high, one.shown)


def _sure(one: ScorerNumbers) -> Iterator[str]:
    counts = one.components
    size = f"{counted(counts.rows, 'row')} and {counted(counts.answers, 'answer')}"
    allows = f"The interval allows for the luck of **{size}**."
    yield f"**Not known:** {size} show no luck." if math.isnan(counts.mean_low) else allows
    yield "It counts each row alike, and leaves out failed answers."
    if not math.isnan(one.recorded_mean) and one.shown(one.recorded_mean) != one.shown(counts.mean):
        yield f"MLflow logged {one.shown(one.recorded_mean)}."


def _main_luck(one: ScorerNumbers) -> Answer:
    parts = one.components.frame.sort_values("share", ascending=False).head(3).to_dict("records")
    if parts and math.isnan(parts[0]["std"]):
        return Answer("Which luck is it?", "", ("Not known: there are too few rows.",))
    if not parts or not parts[0]["std"] > 0:
        return Answer("Which luck is it?", "", ("None is visible: all judgements are the same.",))
    if len(parts) == 1:
        return Answer("Which luck is it?", "", (f"Not known: {parts[0]['source']} cannot be separated here.",))
    shares = listed([f"{part['source']} {share_text(part['share'])}" for part in parts])
    return Answer("Which luck is it?", "", (f"Mostly **{parts[0]['source']}**. Shares of the variance: {shares}.",))


def _change(one: ScorerNumbers) -> Answer:
    said = f"**{len(one.unstable)} of {counted(one.components.rows, 'row')}** get different verdicts."
    if most := [str(number) for number in one.unstable.get("number", ())][:3]:
        said += f" Those of row{'s' * (len(most) > 1)} {listed(most)} change most."
    if one.is_rated_once:
        said = "Not known: each answer has one judgement, and none is repeated. Repeat the evaluation to see it."
    if len(one.agreement):
        name, value = one.agreed
        said += f" Judges agree with {name} {plain(value)}."
    return Answer("Do verdicts change?", "", (said,))


def _steps(one: ScorerNumbers, run_ids: Sequence[str]) -> Iterator[Step]:
    if one.components.answers == one.components.rows:
        why = "Evaluate once more, and read the runs together: their answers count as repeats."
        yield Step(why, f"mlflow-l3d evaluate {','.join(run_ids)},RUN_ID")
    yield Step("Compare it with another version of the app:", f"mlflow-l3d compare --runs {'+'.join(run_ids)},RUN_ID")


def _stds(one: ScorerNumbers) -> Drawing | None:
    """Return one line per source of luck: its standard deviation, with its interval."""
    scale, parts, y = one.unit.scale, [], 0
    rows = one.components.frame.dropna(subset="std").to_dict("records")
    ends = [[scale * math.sqrt(row[end]) for end in ("low", "high")] for row in rows]
    axis = Axis.over([0.0, *(scale * row["std"] for row in rows), *(high for _, high in ends)])
    for row, (low, high) in zip(rows, ends, strict=True):
        parts += [text(0, y + 12, str(row["source"]), kind="strong", anchor="start")]
        parts += whisker(axis.at(low), axis.at(high), y + 26) if math.isfinite(high) else []
        parts += [dot(axis.at(scale * row["std"]), y + 26, f"{row['source']}: {one.unit.text(row['std'])}")]
        y += 40
    caption = f"A dot: [[standard deviation|std]] from one source ({one.unit.name}). Line: its 95 % interval."
    label = f"Standard deviation of {one.scorer} by source of luck"
    return Drawing(svg(y + 24, label, *parts, axis.drawn(y)), caption) if rows else None


def _scorer_table(scorers: Sequence[ScorerNumbers]) -> Table:
    rows = []
    for one in scorers:
        values = one.summary()
        cells = {"scorer": one.scorer, "mean": with_limits(one.shown(values["mean"]), _limits(one), "({})")}
        std = f"± {one.unit.text(values['mean_std'], 1)}{one.unit.behind}" if values["mean_std"] > 0 else MISSING
        cells |= {"std. error, all\ndrawn again": std, "MLflow's\nmean": one.shown(values["mlflow_mean"])}
        cells |= {name.replace("_", "\n"): str(values[name]) for name in list(values)[5:]}
        rows.append(cells | {"unstable\nrows": MISSING} if one.is_rated_once else cells)
    note = (
        "In brackets: 95 % intervals for these judges and prompts, clustered by row. Std. error: if judges and prompts "
        "were drawn again, too."
    )
    return Table.of(rows, note).without_empty(["std. error, all\ndrawn again", "MLflow's\nmean"])

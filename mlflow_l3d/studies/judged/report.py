"""The reports of evaluation runs: the document of one evaluation, and that of compared ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.comparison.results import BETTER, EQUIVALENT, UNDECIDED, WORSE
from mlflow_l3d.report.draw import Axis, difference_cell, dot, svg, text, whisker
from mlflow_l3d.report.numbers import MISSING, between, counted, listed, percent, plain, share_text, with_limits
from mlflow_l3d.report.page import Document, Drawing, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table, frame_table, verdict_cell
from mlflow_l3d.report.text import Answer, Step, effect_step
from mlflow_l3d.studies.judged.numbers import Pair, ScorerNumbers

_NOTES = {
    "Which luck moves the mean?": "std in the unit of the scorer, not in %; low and high: 95 % limits of the variance.",
    "What would one more gain?": "Standard error of the mean in the unit of the scorer, now and with one more of each.",
    "Do the judges agree?": "equal: share of equal verdicts; kappa: Cohen's for two judges, else Krippendorff's alpha.",
    "How often do k answers pass?": "all: pass^k, any: pass@k; unbiased, 95 % intervals clustered by row.",
    "Which rows change?": "row: tag l3d.row or hash of inputs; number: in the data, from 1. All, from 0: rows.json.",
}
_NUMBERS = (
    "Verdicts as shares. low, high: alone; joint: for all comparisons (Holm). row std: of true differences; answer "
    "std: luck of answers and judgements; judge std: what judges add. non inferior: loses less than smallest_effect."
)
_TURNED: Final = {BETTER: WORSE, WORSE: BETTER}


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
            _NOTES, (each.components.frame, each.gains, each.agreement, each.passes, each.changing), strict=True
        )
    ]
    steps = [
        Step("Compare it with another version of the app:", f"mlflow-l3d compare --runs {'+'.join(run_ids)},RUN_ID")
    ]
    if one.answers == one.rows:
        why = "Evaluate once more, and read the runs together: their answers count as repeats."
        steps.insert(0, Step(why, f"mlflow-l3d evaluate {','.join(run_ids)},RUN_ID"))
    return Document(
        title=title,
        headline=f"{first.scorer} is {first.shown(one.mean)}, {interval}.",
        about=f"{title} · {counted(len(scorers), 'scorer')}",
        place=source.place(counted(one.rows, "row"), counted(one.answers, "answer")),
        answers=(
            Answer("How sure is that?", "", (*_sure(first),)),
            Answer("Which luck is it?", "", (_main_luck(first),)),
            Answer("Do verdicts change?", "", (_verdict_changes(first),)),
        ),
        drawing=_stds(first),
        table=_scorer_table(scorers),
        steps=steps,
        lines=source.lines,
        notes=[*notes, *dict.fromkeys(note for each in scorers for note in each.components.notes)],
        sections=sections,
        settings={"evaluation runs": ", ".join(run_ids)},
    )


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


def _main_luck(one: ScorerNumbers) -> str:
    parts = one.components.frame.sort_values("share", ascending=False).head(3).to_dict("records")
    if parts and math.isnan(parts[0]["std"]):
        return "Not known: there are too few rows."
    if not parts or not parts[0]["std"] > 0:
        return "None is visible: all judgements are the same."
    if len(parts) == 1:
        return f"Not known: {parts[0]['source']} cannot be separated here."
    shares = listed([f"{part['source']} {share_text(part['share'])}" for part in parts])
    return f"Mostly **{parts[0]['source']}**. Shares of the variance: {shares}."


def _verdict_changes(one: ScorerNumbers) -> str:
    said = f"**{len(one.unstable)} of {counted(one.components.rows, 'row')}** get different verdicts."
    if most := [str(number) for number in one.changing.get("number", ())][:3]:
        said += f" Those of row{'s' if len(most) > 1 else ''} {listed(most)} change most."
    if one.is_rated_once:
        said = "Not known: each answer has one judgement, and none is repeated. Repeat the evaluation to see it."
    if len(one.agreement):
        name, value = one.agreed
        said += f" Judges agree with {name} {plain(value)}."
    return said


def _stds(one: ScorerNumbers) -> Drawing | None:
    """Return one line per source of luck: its standard deviation, with its interval."""
    scale, parts, y = one.unit.scale, [], 0
    rows = one.components.frame.dropna(subset="std").to_dict("records")
    ends = [[scale * math.sqrt(row[end]) for end in ("low", "high")] for row in rows]
    axis = Axis.over([0.0, *(scale * row["std"] for row in rows), *(high for _, high in ends)])
    for row, (low, high) in zip(rows, ends, strict=True):
        parts += [text(0, y + 12, str(row["source"]), kind="strong", anchor="start")]
        if math.isfinite(high):
            parts += whisker(axis.at(low), axis.at(high), y + 26)
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


def comparison_document(
    pairs: Sequence[Pair], systems: Mapping[str, str], notes: Sequence[str], source: Source
) -> Document:
    """Return compared evaluation runs as people read them.

    Parameters
    ----------
    pairs, systems, notes, source
        As in :class:`mlflow_l3d.studies.judged.results.JudgedComparison`.
    """
    lead, *_ = pairs = sorted(pairs, key=lambda pair: (not pair.is_decided, pair.record.p_adjusted))
    needed = [pair.record.needed.assign(scorer=pair.scorer, pair=f"{pair.first} - {pair.second}") for pair in pairs]
    return Document(
        title=" vs ".join(systems),
        headline=_headline(pairs),
        about=f"{_scorers(pairs)} · {counted(len(systems), 'system')}",
        place=source.place(counted(lead.record.rows, "paired row")),
        answers=(
            Answer("Could it be luck?", "", (_luck(lead, len(pairs)),)),
            Answer("What was compared?", "", (_compared(pairs, source),)),
            Answer("What is open?", "", (_open(pairs),)),
        ),
        table=differences_table(pairs),
        steps=[*_steps(lead, source, several=len({pair.scorer for pair in pairs}) > 1)],
        lines=source.lines,
        notes=[*notes, *dict.fromkeys(note for pair in pairs for note in pair.record.notes)],
        sections=[
            Section("Every scorer in numbers", [frame_table(pd.DataFrame([p.summary() for p in pairs]), _NUMBERS)]),
            Section("Which rows and repeats settle it?", [frame_table(pd.concat(needed), "With a power of 80 %.")]),
        ],
        settings={f"runs of {name}": run_ids for name, run_ids in systems.items()},
    )


def _scorers(pairs: Sequence[Pair], word: str = "and") -> str:
    return listed(list(dict.fromkeys(pair.scorer for pair in pairs)), word)


def _headline(pairs: Sequence[Pair]) -> str:
    """Return the sentence that decides, the winner as its subject."""
    wins: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        if pair.is_decided:
            words = wins.setdefault(pair.sides, [])
            words.append(f"by {pair.unit.size(abs(pair.record.difference))} on {pair.scorer}")
    if wins:
        return "; ".join(f"{one} is better than {other} {listed(words)}" for (one, other), words in wins.items()) + "."
    if lossy := [pair for pair in pairs if pair.is_lossy]:
        return f"No verdict on {_scorers(lossy, 'or')}: {lossy[0].record.obstacle}."
    both = listed(list(dict.fromkeys(name for pair in pairs for name in pair.sides)))
    effect = pairs[0].record
    if all(pair.record.verdict == EQUIVALENT for pair in pairs):
        return f"{both} are equivalent on {_scorers(pairs)} within {pairs[0].unit.size(effect.smallest_effect)}."
    tied = ": all rows tie" if all(1 < pair.record.rows == pair.record.ties for pair in pairs) else ""
    return f"No difference between {both} is established on {_scorers(pairs, 'or')}{tied}."


def sized_difference(pair: Pair, sign: int) -> tuple[str, str]:
    """Return a difference with its unit, as it is or turned round, and its interval for all comparisons."""
    one, change = pair.record, pair.change_text
    gain, *ends = (change(sign * value) for value in (one.difference, one.joint_low, one.joint_high))
    return f"{gain}{pair.unit.behind}", f"{percent(one.level)} interval **{' to '.join(ends[::sign])}**"


def _luck(lead: Pair, count: int) -> str:
    one = lead.record
    gain, interval = sized_difference(lead, -1 if one.difference < 0 else 1)
    together = f", and for {count} comparisons at once" if count > 1 else ""
    ahead = f"{lead.sides[0]} is ahead by {gain.lstrip('+')}" if one.difference else "neither is ahead"
    said = f"{ahead} on {lead.scorer}, {interval}. It allows for the luck of rows and answers{together}."
    if math.isnan(one.joint_low):
        return f"**Not known**: {ahead} on {lead.scorer}; no luck is seen in {counted(one.rows, 'paired row')}."
    opening = "It is too small to matter" if one.verdict == EQUIVALENT else "**Yes**"
    opening = "**Not known**" if lead.is_lossy else opening
    return f"{'**Unlikely**' if lead.is_decided else opening}: {said}"


def _direction(pairs: Sequence[Pair]) -> str:
    lower = [*dict.fromkeys(pair.scorer for pair in pairs if not pair.record.higher_is_better)]
    if len({pair.scorer for pair in pairs}) == 1:
        return f"{'lower' if lower else 'higher'} values of {pairs[0].scorer} are better"
    return f"higher values are better{f', except for {listed(lower)}' if lower else ''}"


def _compared(pairs: Sequence[Pair], source: Source) -> str:
    one, typed = pairs[0].record, source.given.get("metric", "")
    repeats = " and ".join(dict.fromkeys(f"{each:.3g}" for each in (one.repeats_first, one.repeats_second)))
    alone = f" Rows of one side alone do not count: {one.unpaired_first} and {one.unpaired_second}."
    unpaired = alone if one.unpaired_first or one.unpaired_second else ""
    assumed = ""
    if guessed := [pair for pair in pairs if source.given and f"{pair.scorer}:" not in typed]:
        turned = "lower" if guessed[0].record.higher_is_better else "higher"
        assumed = f" Assumed: {_direction(pairs)} (else: --metric {guessed[0].scorer}:{turned})."
    return f"**{counted(one.rows, 'row')}** that both answered; answers per row: {repeats}.{unpaired}{assumed}"


def _open(pairs: Sequence[Pair]) -> str:
    undecided = [pair for pair in pairs if pair.record.verdict == UNDECIDED]
    if not undecided:
        return "**Nothing:** every comparison is decided."
    one = min(undecided, key=lambda pair: (bool(pair.record.obstacle), pair.rows_needed))
    what = f"about **{one.rows_needed:,.0f} rows** settle" if math.isfinite(one.rows_needed) else "no rows settle"
    which = f"{len(undecided)} of {counted(len(pairs), 'comparison')}. On {one.scorer}" if len(pairs) > 1 else ""
    if one.record.obstacle:
        return f"{which or 'The pair:'} nothing can be decided: {one.record.obstacle}."
    not_worse = "".join([said for pair in undecided if (said := pair.not_worse)][:3])
    return f"{which or 'The pair:'} {what} it with 80 % power, if the true difference is {one.planned}.{not_worse}"


def _steps(lead: Pair, source: Source, *, several: bool) -> Iterator[Step]:
    one = lead.record
    if one.verdict != UNDECIDED or one.obstacle:
        return
    if math.isnan(one.smallest_effect) and source.given:
        alone = {"metric": f"{lead.scorer}:{'higher' if one.higher_is_better else 'lower'}"} if several else {}
        ends = one.joint_low, one.joint_high
        yield from effect_step(ends, lead.unit, lambda at: source.command("compare", **alone, smallest_effect=at))
    if max(one.repeats_first, one.repeats_second) == 1:
        yield Step("Answer each row several times: evaluate again, and name the runs of a system as RUN_ID+RUN_ID.")


def differences_table(pairs: Sequence[Pair]) -> Table:
    """Return the comparisons as a first screen has them: verdict, interval around 0, and the second less the first.

    Who compares names the old system first, as a rule.
    """
    rows = []
    axes = {}
    several = len({(pair.first, pair.second) for pair in pairs}) > 1
    for unit in dict.fromkeys(pair.unit for pair in pairs):
        ends = [(0.0, -pair.record.joint_high, -pair.record.joint_low) for pair in pairs if pair.unit == unit]
        axes[unit] = Axis.over((unit.scale * value for values in ends for value in values), ticks=4)
    for pair in pairs:
        one, scale = pair.record, pair.unit.scale
        value, low, high = (-scale * number for number in (one.difference, one.joint_high, one.joint_low))
        margin = 0.0 if math.isnan(one.smallest_effect) else scale * one.smallest_effect
        change = pair.change_text
        said = f"{change(-one.difference)}\n({between(-one.joint_high, -one.joint_low, change)})"
        bar = difference_cell(value, low, high, axes[pair.unit], said.replace("\n", " "), margin=margin)
        name = f"{pair.scorer}\n{pair.second} - {pair.first}" if several else pair.scorer
        rows.append((name, verdict_cell(_TURNED.get(one.verdict, one.verdict)), bar, said))
    return Table(
        ("scorer", "verdict", next(iter(axes.values())).head("difference") if len(axes) == 1 else "", "difference"),
        tuple(rows),
        f"Verdict and difference: of {'the first of a pair' if several else pairs[0].second}; {_direction(pairs)}.",
        texts=frozenset({1, 2}),
        kind="bars",
        kinds=tuple(_TURNED.get(pair.record.verdict, pair.record.verdict) for pair in pairs),
    )

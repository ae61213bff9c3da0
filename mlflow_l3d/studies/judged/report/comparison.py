"""The document of compared evaluation runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.comparison.results import BETTER, EQUIVALENT, UNDECIDED, WORSE
from mlflow_l3d.report.draw import Axis, difference_cell
from mlflow_l3d.report.numbers import between, counted, listed, percent
from mlflow_l3d.report.page import Document, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table, verdict_cell
from mlflow_l3d.report.text import Answer, Step, effect_step
from mlflow_l3d.studies.judged.numbers import Pair
from mlflow_l3d.studies.judged.report.evaluation import frame_table

_NUMBERS = (
    "Verdicts as shares. low and high: alone; joint: for all comparisons together (Holm). row std: of the true "
    "differences of rows; answer std: luck of answers and judgements; judge std: what other judges would add."
)
_TURNED: Final = {BETTER: WORSE, WORSE: BETTER}


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
            Answer("What was compared?", "", (_compared(lead, source),)),
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
    both, effect = listed(list(dict.fromkeys(name for pair in pairs for name in pair.sides))), pairs[0].record
    if all(pair.record.verdict == EQUIVALENT for pair in pairs):
        return f"{both} are equivalent on {_scorers(pairs)} within {pairs[0].unit.size(effect.smallest_effect)}."
    tied = ": all rows tie" if all(1 < pair.record.rows == pair.record.ties for pair in pairs) else ""
    return f"No difference between {both} is established on {_scorers(pairs, 'or')}{tied}."


def best_level(pairs: Sequence[Pair]) -> str:
    """Return which level of a factor is best by a scorer, from the differences of all of its levels."""
    if not any(pair.record.difference for pair in pairs):
        return f"On {pairs[0].scorer}, all levels are equal."
    best = Counter(pair.sides[0] for pair in pairs).most_common(1)[0][0]
    rivals = {pair.second if pair.first == best else pair.first: pair for pair in pairs if best in pair.sides}
    won = [name for name, pair in rivals.items() if pair.is_decided and pair.sides[0] == best]
    rest = [name for name in rivals if name not in won]
    words = {f"**{best}** is better than": won, f"undecided between **{best}** and": rest}
    said = [f"{text} {listed(levels)}" for text, levels in words.items() if levels]
    near = min((rivals[name] for name in rest or won), key=lambda pair: abs(pair.record.difference))
    gain, interval = _sized(near, 1 if near.first == best else -1)
    sure = near.record.obstacle or f"{interval}, p = {near.record.p_adjusted:.2g}"
    return f"On {near.scorer}, {'; '.join(said)}: difference {gain} ({sure})."


def _change(pair: Pair) -> Callable[[float], str]:
    """Return how differences of a pair are written: no digits that their interval leaves open."""
    return partial(pair.unit.change, digits=pair.unit.digits(pair.record.joint_high - pair.record.joint_low))


def _sized(pair: Pair, sign: int) -> tuple[str, str]:
    """Return a difference with its unit, as it is or turned round, and its interval for all comparisons."""
    one, change = pair.record, _change(pair)
    gain, *ends = (change(sign * value) for value in (one.difference, one.joint_low, one.joint_high))
    return f"{gain}{pair.unit.behind}", f"{percent(one.level)} interval **{' to '.join(ends[::sign])}**"


def _luck(lead: Pair, count: int) -> str:
    one = lead.record
    gain, interval = _sized(lead, -1 if one.difference < 0 else 1)
    together = f", and for {count} comparisons at once" if count > 1 else ""
    ahead = f"{lead.sides[0]} is ahead by {gain.lstrip('+')}" if one.difference else "neither is ahead"
    said = f"{ahead} on {lead.scorer}, {interval}. It allows for the luck of rows and answers{together}."
    if math.isnan(one.joint_low):
        return f"**Not known**: {ahead} on {lead.scorer}; no luck is seen in {counted(one.rows, 'paired row')}."
    opening = "It is too small to matter" if one.verdict == EQUIVALENT else "**Yes**"
    opening = "**Not known**" if lead.is_lossy else opening
    return f"{'**Unlikely**' if lead.is_decided else opening}: {said}"


def _compared(lead: Pair, source: Source) -> str:
    one, scorer = lead.record, lead.scorer
    repeats = " and ".join(dict.fromkeys(f"{each:.3g}" for each in (one.repeats_first, one.repeats_second)))
    alone = f" Rows of one side alone do not count: {one.unpaired_first} and {one.unpaired_second}."
    unpaired = alone if one.unpaired_first or one.unpaired_second else ""
    better, turned = ("higher", "lower") if one.higher_is_better else ("lower", "higher")
    assumed = ""
    if source.given and f"{scorer}:" not in source.given.get("metric", ""):
        assumed = f" Assumed: {better} values of {scorer} are better (else: --metric {scorer}:{turned})."
    return f"**{counted(one.rows, 'row')}** that both answered; answers per row: {repeats}.{unpaired}{assumed}"


def _open(pairs: Sequence[Pair]) -> str:
    undecided = [pair for pair in pairs if pair.record.verdict == UNDECIDED]
    if not undecided:
        return "**Nothing:** every comparison is decided."
    one = min(undecided, key=lambda pair: (bool(pair.record.obstacle), pair.rows_needed))
    what = f"about **{one.rows_needed:,.0f} rows** settle" if math.isfinite(one.rows_needed) else "no rows settle"
    which = f"{len(undecided)} of {counted(len(pairs), 'comparison')}. On {one.scorer}" * (len(pairs) > 1)
    if one.record.obstacle:
        return f"{which or 'The pair:'} nothing can be decided: {one.record.obstacle}."
    return f"{which or 'The pair:'} {what} it with 80 % power, if the true difference is the one measured."


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
    rows, axes, several = [], {}, len({(pair.first, pair.second) for pair in pairs}) > 1
    for unit in dict.fromkeys(pair.unit for pair in pairs):
        ends = [(0.0, -pair.record.joint_high, -pair.record.joint_low) for pair in pairs if pair.unit == unit]
        axes[unit] = Axis.over((unit.scale * value for values in ends for value in values), ticks=4)
    for pair in pairs:
        one, scale = pair.record, pair.unit.scale
        value, low, high = (-scale * number for number in (one.difference, one.joint_high, one.joint_low))
        margin = 0.0 if math.isnan(one.smallest_effect) else scale * one.smallest_effect
        change = _change(pair)
        said = f"{change(-one.difference)}\n({between(-one.joint_high, -one.joint_low, change)})"
        bar = difference_cell(value, low, high, axes[pair.unit], said.replace("\n", " "), margin=margin)
        name = f"{pair.scorer}\n{pair.second} - {pair.first}" if several else pair.scorer
        rows.append((name, verdict_cell(_TURNED.get(one.verdict, one.verdict)), bar, said))
    lower = ", ".join(dict.fromkeys(pair.scorer for pair in pairs if not pair.record.higher_is_better))
    return Table(
        ("scorer", "verdict", next(iter(axes.values())).head("difference") if len(axes) == 1 else "", "difference"),
        tuple(rows),
        f"Verdict and difference: of {'the first of a pair' if several else pairs[0].second}. Higher values are "
        f"better{f', except for {lower}' * bool(lower)}.",
        texts=frozenset({1, 2}),
        kind="bars",
        kinds=tuple(_TURNED.get(pair.record.verdict, pair.record.verdict) for pair in pairs),
    )

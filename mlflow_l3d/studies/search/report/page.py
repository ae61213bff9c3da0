"""What a search found: as text, and as ``search.html``, one page that needs no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import (
    MISSING,
    Unit,
    counted,
    duration,
    percent,
    plain,
    share_text,
    shorten,
    unit_of,
    value_text,
)
from mlflow_l3d.report.page import Document, Picture, Section, chip
from mlflow_l3d.report.table import Part, Table
from mlflow_l3d.report.text import Answer
from mlflow_l3d.studies.search.numbers import HeldOut, SearchResult, range_text
from mlflow_l3d.studies.search.report import figures as draw


def search_answers(result: SearchResult) -> tuple[Answer, Answer, Answer]:
    """Return the gain on validation, whether it holds elsewhere, and which hyperparameter matters."""
    unit = unit_of(result.metric)
    gain = "the default stays" if result.kept_default else unit.change(result.best_score - result.default_score)
    held_out = _held_out_short(result.held_out, unit)
    return (
        Answer("Gain on the validation examples", gain, (validation_sentence(result), bias_sentence(result))),
        Answer("Gain on held-out configurations", held_out, (held_out_sentence(result),)),
        Answer("Which hyperparameter matters most?", next(iter(result.importances), MISSING), _matters(result)),
    )


def validation_sentence(result: SearchResult) -> str:
    """Return the scores by which the search chose."""
    each = "" if result.configurations == 1 else f" of each of {result.configurations} configurations"
    where, unit = f"{counted(result.validation_examples, 'validation example')}{each}", unit_of(result.metric)
    found, default = unit.text(result.best_score), unit.text(result.default_score)
    if result.kept_default:
        return f"On {where} no trial beat the default, whose {result.metric.name} is {found}."
    if not math.isfinite(result.default_score):
        return f"On {where} {result.metric.name} is {found} with the found setting; the default has no score."
    return (
        f"On {where} {result.metric.name} is {found} with the found setting and {default} with the default: "
        f"{unit.change(result.best_score - result.default_score)} {unit.name}."
    )


def bias_sentence(result: SearchResult) -> str:
    """Return why the score of the winner is not to be believed."""
    trials = counted(result.trials_run, "trial")
    if result.kept_default or result.trials_run < 2:
        other = "lower" if result.metric.greater_is_better else "higher"
        return f"It is the best of {trials}; on other examples its score may be {other}."
    return f"The best of {trials} looks better on the examples that chose it than it is."


def held_out_sentence(result: SearchResult) -> str:
    """Return how the found setting scores on configurations that it was not chosen on."""
    held, unit = result.held_out, unit_of(result.metric)
    if result.kept_default and held is None:
        return "The found setting is the default, so there is nothing to compare."
    if held is None or not held.configurations:
        return (
            "The found setting was not compared with the default on other configurations, so nobody knows how much of "
            "the gain is luck."
        )
    found, default = (unit.text(math.fsum(scores) / len(scores)) for scores in (held.found, held.default))
    configurations = counted(held.configurations, "configuration")
    text = (
        f"On the test examples of {configurations} that {'was' if held.configurations == 1 else 'were'} not searched "
        f"on, {result.metric.name} is {found} with the found setting and {default} with the default: "
        f"{unit.change(held.difference)} {unit.name}"
    )
    if math.isfinite(held.ci_low):
        ends = f"{unit.change(held.ci_low)} to {unit.change(held.ci_high)}"
        text += f" ({percent(held.level)} interval {ends}). {_verdict(held, result.metric)}"
    else:
        text += ". One configuration gives no interval, so this may be luck."
    return f"{text} {counted(held.missing, 'pair')} without a score left out." if held.missing else text


def _held_out_short(held: HeldOut | None, unit: Unit) -> str:
    if held is None or not held.configurations:
        return "not tried"
    is_sure = held.ci_low > 0 or held.ci_high < 0 or held.ci_low == held.ci_high == 0
    return f"{unit.change(held.difference)}{'' if is_sure else ', unsure'}"


def _verdict(held: HeldOut, metric: Metric) -> str:
    low, high = sorted(metric.sign * end for end in (held.ci_low, held.ci_high))
    if low > 0:
        return "The found setting is better than the default."
    if high < 0:
        return "The default is better: the search has found what suits its own split."
    if low == high == 0:
        return "The two are the same."
    return "The interval holds 0: whether the found setting is better is not certain."


def _matters(result: SearchResult) -> tuple[str, ...]:
    if not result.importances:
        return ("The importances of the hyperparameters are not known.",)
    name, share = next(iter(result.importances.items()))
    return (
        f"At the coarse level {name} alone accounts for {share_text(share)} of the variance of the score, all "
        f"hyperparameters each on its own for {share_text(sum(result.importances.values()))}; the rest is due to "
        "several together.",
        "Luck counts as a cause here: a small share is not a finding.",
    )


MOST_TRIALS: Final = 300
"""Rows of the table of trials; the artifact of all trials has the others."""


def search_report(
    result: SearchResult, *, lines: Sequence[str] = (), settings: Mapping[str, str] = MappingProxyType({})
) -> Document:
    """Return a search as people read it.

    Parameters
    ----------
    result
        What was found.
    lines
        For the terminal, below the title: the task, where to find the runs.
    settings
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    unit, pictures = unit_of(result.metric), _pictures(result)
    trials = f"{counted(result.trials_run, 'trial')} in {duration(result.seconds)}"
    took = (
        f"{trials}, each trained on {counted(result.configurations, 'configuration')} and scored by "
        f"{result.metric.name} on {counted(result.validation_examples, 'validation example')}. Scores are {unit.name}."
    )
    return Document(
        title=result.title,
        answers=search_answers(result),
        lines=[*lines, f"{trials}, scored by {result.metric.name} ({unit.noun})."],
        text=_text(result),
        notes=[took, *result.notes],
        sections=[
            Section("The found setting", _found_setting(result)),
            Section("The levels", [stage_table(result)]),
            *[Section(picture.label, [picture]) for picture in pictures],
            Section("Trials, best first", [trial_table(result, MOST_TRIALS)]),
        ],
        settings=settings,
    )


def _found_setting(result: SearchResult) -> list[str | Table]:
    """Return the table of what was searched, and how to use the found setting."""
    others = ", ".join(
        f"{name} = {shorten(value_text(value), 200)}"
        for name, value in result.best.items()
        if name not in result.searched
    )
    table = setting_table(result, "searched at level {number} ({name})")
    parts: list[str | Table] = [replace(table, note=f"Not searched: {others}." if others else "")]
    if result.run_id:
        command = Markup("Use it in an investigation: <code>-P hyperparameters={}</code>")
        parts.append(command.format(result.run_id))
    return parts


def _pictures(result: SearchResult) -> list[Picture]:
    """Return the figures that have something to show."""
    every = (
        (
            result.importances,
            draw.importance_bars,
            "importances",
            "Importance of the hyperparameters",
            "Share of the variance of the score over the coarse space that each one alone accounts for (fANOVA).",
        ),
        (
            draw.complete_trials(result),
            draw.history,
            "history",
            "How the score rose",
            "One point a complete trial, in the order of the trials; the line is the best so far. Both levels have "
            "one scale.",
        ),
        (
            draw.varied_hyperparameters(result),
            draw.slices,
            "slice",
            "Score by hyperparameter",
            "Each complete trial stands once in every panel; a stronger blue is a later trial.",
        ),
    )
    return [Picture(partial(drawn, result), *about) for shown, drawn, *about in every if shown]


def _text(result: SearchResult) -> list[Part]:
    """Return what the terminal shows: the tables, the gain, the importances, the notes, and how to use the setting."""
    parts: list[Part] = [stage_table(result), setting_table(result, "range at level {number}"), [""]]
    if result.importances:
        shares = ", ".join(f"{name} {share_text(share)}" for name, share in result.importances.items())
        parts.append(f"Share of the variance of the score at level 1: {shares}.")
    parts.append(f"validation: {validation_sentence(result)} {bias_sentence(result)}")
    parts.append(f"held out: {held_out_sentence(result)}")
    parts += [f"note: {note}" for note in result.notes]
    if result.run_id:
        parts.append(["", f"Use it: -P hyperparameters={result.run_id}"])
    return parts


def setting_table(result: SearchResult, range_head: str) -> Table:
    """Return one row per searched hyperparameter: name, default, found, and its range at each stage.

    `range_head` is the head of the ranges, in which ``{number}`` and ``{name}`` are those of the stage.
    """
    rows = []
    for name in result.searched:
        values = [_cell(setting.get(name), 60, MISSING) for setting in (result.default, result.best)]
        ranges = [range_text(stage.ranges[name]) if name in stage.ranges else "fixed" for stage in result.stages]
        rows.append((name, *values, *[shorten(text, 60) for text in ranges]))
    heads = [range_head.format(number=number, name=stage.name) for number, stage in enumerate(result.stages, 1)]
    texts = frozenset(range(3, 3 + len(heads)))
    return Table(("hyperparameter", "default", "found", *heads), tuple(rows), texts=texts, kind="found")


def stage_table(result: SearchResult) -> Table:
    """Return one row per stage: how many trials there were, how they ended, and the best score."""
    rows = [
        {
            "level": stage.title,
            "sampler": stage.sampler,
            **{name: str(getattr(stage, name)) for name in ("trials", "complete", "pruned", "failed")},
            "best score": unit_of(result.metric).text(stage.best_score),
        }
        for stage in result.stages
    ]
    return Table.of(rows, texts=frozenset({1}))


def trial_table(result: SearchResult, most: int) -> Table:
    """Return at most `most` trials for a page, the best first, those without a score last."""
    unit = unit_of(result.metric)
    ranks = result.trials["state"].map({"complete": 0, "pruned": 1}).fillna(2)
    order = np.lexsort((-result.metric.sign * result.trials["score"].astype(float), ranks))
    rows = []
    for place, row in enumerate(result.trials.iloc[order[:most]].to_dict("records")):
        name, state, spread = f"{row['level']} {row['number']}", str(row["state"]), float(row["score_std"])
        mark = "best" if place == 0 and state == "complete" else "default" if row["is_default"] else ""
        kind = "important" if mark == "best" else "not-important"
        run = Markup('<code title="{}">{}</code>').format(row["run_id"], str(row["run_id"])[:8])
        rows.append(
            (
                Markup("{} {}").format(name, chip(kind, mark)) if mark else name,
                unit.text(float(row["score"])),
                unit.text(spread) if math.isfinite(spread) else "",
                state if row["origin"] == "trained" else f"{state}, {row['origin']}",
                *[_cell(row.get(each)) for each in result.searched],
                plain(float(row["duration_seconds"]), 1),
                run if row["run_id"] else "",
            )
        )
    head = ("trial", "score", "std", "state", *result.searched, "seconds", "run")
    left_out = len(result.trials) - len(rows)
    note = f"{left_out} more trials are in trials.json." if left_out > 0 else ""
    texts = frozenset({3, len(head) - 1})
    return Table(head, tuple(rows), note, texts, kind="trials").without_empty(("std", "run"), empty="")


def _cell(value: Any, width: int = 40, absent: str = "-") -> str:
    # pandas puts nan in a gap.
    return absent if value is None or value != value else shorten(value_text(value), width)

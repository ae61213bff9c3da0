"""What people see of a search: a sentence that decides, three answers, what to do next, tables and plots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from markupsafe import Markup

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.draw import Axis, amount_bar, difference_bar, svg
from mlflow_l3d.report.html import chip
from mlflow_l3d.report.numbers import MISSING, counted, duration, percent, plain, share_text, shorten, unit_of
from mlflow_l3d.report.page import Document, Drawing, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.search.numbers import HeldOut, SearchResult, range_text, setting_text

MOST_TRIALS: Final = 300
"""Rows of the table of trials; the artifact of all trials has the others."""


def search_report(
    result: SearchResult, *, source: Source, lines: Sequence[str], settings: Mapping[str, str]
) -> Document:
    """Return a search as people read it.

    Parameters
    ----------
    result, source
        The result, and its origin.
    lines
        For the terminal, below the headline: the run and its files.
    settings
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    trials = counted(len(result.ended), "trial")
    about = source.about(result.metric)
    failed = result.trials.loc[result.trials["state"].eq("failed"), "level"].value_counts(sort=False)
    lost = [f"{counted(number, f'{stage} trial')} failed." for stage, number in failed.items()]
    fixed = {name: value for name, value in result.best.items() if name not in result.searched}
    others = ", ".join(f"{name} = {setting_text(value, 200)}" for name, value in fixed.items())
    return Document(
        title=result.title,
        headline=headline(result),
        about=about,
        place=source.place(trials),
        answers=answers(result),
        drawing=gains(result),
        table=setting_table(result),
        steps=[*steps(result, source)],
        lines=[f"{about} · {trials} in {duration(result.seconds)}", *lines],
        notes=[*lost, *result.notes],
        sections=[
            Section("The found setting", [f"Not searched: {others}." if others else None]),
            Section("Trials, best first", [trial_table(result, MOST_TRIALS)]),
        ],
        settings=settings,
    )


def setting_table(result: SearchResult) -> Table:
    """Return one row per searched hyperparameter: default, found, its share of the variance, and its ranges."""
    rows, shares = [], result.importances
    for name in result.searched:
        values = [setting_text(setting.get(name), 60, MISSING) for setting in (result.default, result.best)]
        said = share_text(shares[name]) if name in shares else MISSING
        drawn = [Drawn(amount_bar(shares.get(name, 0.0), math.nan, math.nan, said), said)] if shares else []
        ranges = [range_text(stage[name]) if name in stage else "fixed" for stage in result.stages.values()]
        rows.append((name, *values, *drawn, *[shorten(text, 60) for text in ranges]))
    heads = [f"level {number} ({stage})" for number, stage in enumerate(result.stages, 1)]
    head = ("hyperparameter", "default", "found", *(["[[share of variance|fanova]]"] if shares else []), *heads)
    return Table(head, tuple(rows), texts=frozenset(range(3, len(head))), kind="found")


def trial_table(result: SearchResult, most: int) -> Table:
    """Return at most `most` trials for a page, the best first, those without a score last."""
    unit = unit_of(result.metric)
    ranks = result.trials["state"].map({"complete": 0, "pruned": 1}).fillna(2)
    order = np.lexsort((-result.metric.sign * result.trials["score"].astype(float), ranks))
    rows = []
    for place, row in enumerate(result.trials.iloc[order[:most]].to_dict("records")):
        name = f"{row['level']} {row['number']}"
        state = str(row["state"])
        spread = float(row["score_std"])
        mark = "best" if place == 0 and state == "complete" else "default" if row["is_default"] else ""
        kind = "important" if mark == "best" else "not-important"
        run = Markup('<code title="{}">{}</code>').format(row["run_id"], str(row["run_id"])[:8])
        rows.append(
            (
                Markup("{} {}").format(name, chip(kind, mark)) if mark else name,
                unit.text(float(row["score"])),
                unit.text(spread) if math.isfinite(spread) else "",
                state if row["origin"] == "trained" else f"{state}, {row['origin']}",
                *[setting_text(row.get(each)) for each in result.searched],
                plain(float(row["duration_seconds"]), 1),
                run if row["run_id"] else "",
            )
        )
    head = ("trial", "score", "std", "state", *result.searched, "seconds", "run")
    left_out = len(result.trials) - len(rows)
    note = f"{left_out} more trials are in trials.json." if left_out > 0 else ""
    texts = frozenset({3, len(head) - 1})
    return Table(head, tuple(rows), note, texts, kind="trials").without_empty(("std", "run"), empty="")


def gains(result: SearchResult) -> Drawing | None:
    """Return the gain over the default on the examples that chose the found setting, and on new configurations."""
    held, unit = result.held_out, unit_of(result.metric)
    scale = unit.scale * result.metric.sign
    rows = [("On the validation examples", "undecided", result.best_score - result.default_score, math.nan, math.nan)]
    if held is not None:
        new = f"With {counted(held.configurations, 'new seed')}"
        low, high = sorted((scale * held.ci_low, scale * held.ci_high))
        rows.append((new, verdict(held, result.metric), held.difference, low, high))
    values = [scale * value for _, _, value, *_ in rows]
    if result.kept_default or not any(map(math.isfinite, values)):
        return None
    axis = Axis.over([0.0, *values, *(end for *_, low, high in rows for end in (low, high))])
    bars = [
        Markup('<div class="{}"><p class="note">{}</p>{}</div>').format(
            kind, words, difference_bar(value, low, high, axis, f"{words}: {unit.written(value, sign='+')}")
        )
        for (words, kind, _, low, high), value in zip(rows, values, strict=True)
    ]
    points = f" in {unit.noun}" if unit.behind else ""
    interval = f", with its {percent(held.level)} interval" if held is not None and math.isfinite(held.ci_low) else ""
    caption = f"Gain over the default{points}{interval}."
    return Drawing(Markup("").join([*bars, svg(22, "axis", axis.drawn(0))]), caption)


_OF_A_SEARCH: Final = (
    *("space", "coarse_trials", "fine_trials", "coarse_sampler", "fine_sampler", "pruner", "search_seeds"),
    "held_out_runs",
)
"""Parameters that an investigation does not have."""


def verdict(held: HeldOut | None, metric: Metric) -> str:
    """Return what the found setting is on other configurations: better, worse, equal, undecided, or not tried."""
    if held is None:
        return "not tried"
    if held.is_lossy:
        return "undecided"
    low, high = sorted(metric.sign * end for end in (held.ci_low, held.ci_high))
    if low == high == 0:
        return "equal"
    return "better" if low > 0 else "worse" if high < 0 else "undecided"


def headline(result: SearchResult) -> str:
    """Return the sentence that decides."""
    held, word = result.held_out, verdict(result.held_out, result.metric)
    if result.kept_default:
        return "No trial beat the default: it stays."
    if held is None:
        return "The found setting was not tried with new seeds: how much of its gain is luck is not known."
    if held.is_lossy:
        tried = counted(held.configurations + held.missing, "new seed")
        return f"No verdict: runs failed with {held.missing} of {tried}. Correct their error, and search again."
    size = unit_of(result.metric).size(held.difference)
    change = "gain" if result.metric.sign * held.difference >= 0 else "loss"
    new = f"with {counted(held.configurations, 'new seed')}"
    chose = f"; {share_text(held.overlap)} of the test examples chose it" if held.overlap and not held.is_unseen else ""
    return {
        "better": f"The found setting is better than the default by {size} {new}{chose}.",
        "worse": f"The default is better than the found setting by {size} {new}{chose}.",
        "equal": f"The found setting and the default score the same {new}{chose}.",
        "undecided": f"Undecided: a {change} of {size} {new} may be luck{chose}.",
    }[word]


def answers(result: SearchResult) -> tuple[Answer, Answer, Answer]:
    """Return the gain on validation, whether it holds elsewhere, and which hyperparameter matters."""
    return (
        Answer("How large is the gain on validation?", "", _validation(result)),
        Answer("And with new seeds?", "", _elsewhere(result)),
        Answer("Which hyperparameter matters?", "", _matters(result)),
    )


def _validation(result: SearchResult) -> tuple[str, str]:
    """Return the scores by which the search chose, and why that of the winner is too good."""
    name, trials = result.metric.name, counted(len(result.ended), "trial")
    shown = name if result.metric.greater_is_better else f"{name} (smaller is better)"
    found, default = (unit_of(result.metric).text(score, 1) for score in (result.best_score, result.default_score))
    gain = _change(result.metric, result.best_score - result.default_score)
    bias = f"The best of {trials} looks better on the examples that chose it than it is."
    lead = f"{gain} {shown} is **{found}** with the found setting, **{default}** with the default. {bias}"
    if result.kept_default:
        lead = f"There is none: no trial beat the default, whose {shown} is **{found}**."
    elif not math.isfinite(result.default_score):
        lead = f"The default has no score; {shown} is **{found}** with the found setting. {bias}"
    each = "" if result.configurations == 1 else f" of each of {result.configurations} configurations"
    examples = f"{counted(result.validation_examples, 'validation example')}{each}"
    return lead, f"{trials} in {duration(result.seconds)}, scored by {name} on {examples}."


def _elsewhere(result: SearchResult) -> tuple[str, ...]:
    """Return how the found setting scores on configurations that it was not chosen on."""
    held, unit = result.held_out, unit_of(result.metric)
    if result.kept_default and held is None:
        return ("The found setting is the default, so there is nothing to compare.",)
    if held is None or not held.configurations:
        return ("**Not known:** the found setting and the default were not compared with other seeds.",)
    found, default = (unit.text(math.fsum(scores) / len(scores), 1) for scores in (held.found, held.default))
    interval = "One seed gives no interval"
    if math.isfinite(held.ci_low):
        low, high = sorted((result.metric.sign * held.ci_low, result.metric.sign * held.ci_high))
        interval = f"{percent(held.level)} interval **{unit.change(low, 1)} to {unit.change(high, 1)}**"
    gain = f"{_change(result.metric, held.difference)} **{found}** against **{default}**"
    lost = [f"{counted(held.missing, 'pair')} without a score left out."] if held.missing else []
    where = f"Scored on test examples of {counted(held.configurations, 'new seed')}."
    if held.is_unseen:
        left_out = f", without the {share_text(held.overlap)} that scored trials" if held.overlap else ""
        where = f"{where[:-1]}{left_out}. The interval holds for new seeds and new test examples."
    elif held.configurations > 1:
        trials = f" {share_text(held.overlap)} of them scored trials, so the gain is too large." if held.overlap else ""
        where += f"{trials} There are no predictions: the interval leaves out the luck of test examples."
    return f"{gain} with the default. {interval}.", where, *lost


def _change(metric: Metric, difference: float) -> str:
    """Return a gain with its unit, from a difference of scores: above 0 if the found setting is better."""
    unit = unit_of(metric)
    return f"**{unit.change(metric.sign * difference, 1)}{' points' if unit.scale > 1 else ''}:**"


def _matters(result: SearchResult) -> tuple[str, ...]:
    if not result.importances:
        return ("The importances of the hyperparameters are not known.",)
    name, share = next(iter(result.importances.items()))
    return (
        f"**{name}:** alone it accounts for **{share_text(share)}** of the variance of the score.",
        f"At the coarse level all hyperparameters, each on its own, account for "
        f"{share_text(sum(result.importances.values()))}; the rest is due to several together. Luck counts as a cause "
        "here: a small share is not a finding.",
    )


def steps(result: SearchResult, source: Source) -> Iterator[Step]:
    """Yield what to do next."""
    held, word = result.held_out, verdict(result.held_out, result.metric)
    typed = {name: value for name, value in source.given.items() if name not in _OF_A_SEARCH}
    shared = replace(source, given=typed)
    if result.kept_default or word == "worse":
        yield Step("Keep the default. How much of its score is luck?", shared.command())
        return
    if word == "not tried":
        text = "Is the gain luck? Try it with 10 new seeds; finished trials count:"
        yield Step(text, source.command("search", held_out_runs="10"))
    if held is not None and word == "undecided" and not held.is_lossy:
        more = source.command("search", held_out_runs=str(4 * (held.configurations + held.missing)))
        yield Step("Four times as many seeds halve the interval; finished trials count:", more)
    if result.run_id:
        command = shared.command(hyperparameters=result.run_id)
        how = "" if command else f" Investigate it with hyperparameters={result.run_id}."
        yield Step(f"How much of the score of the found setting is luck?{how}", command)

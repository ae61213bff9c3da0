"""What a search says first: a sentence that decides, three answers, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import counted, duration, percent, share_text, unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.search.numbers import HeldOut, SearchResult

_OF_A_SEARCH: Final = (
    *("space", "coarse_trials", "fine_trials", "coarse_sampler", "fine_sampler", "pruner", "search_seeds"),
    "held_out_runs",
)
"""Parameters that an investigation does not have."""


def verdict(held: HeldOut | None, metric: Metric) -> str:
    """Return what the found setting is on other configurations: better, worse, equal, undecided, or not tried."""
    if held is None or not held.configurations:
        return "not tried"
    low, high = sorted(metric.sign * end for end in (held.ci_low, held.ci_high))
    if low == high == 0:
        return "equal"
    return "better" if low > 0 else "worse" if high < 0 else "undecided"


def headline(result: SearchResult) -> str:
    """Return the sentence that decides."""
    held, word = result.held_out, verdict(result.held_out, result.metric)
    if result.kept_default:
        return "No trial beat the default: it stays."
    if held is None or word == "not tried":
        return "The found setting was not tried on new configurations: how much of its gain is luck is not known."
    size = unit_of(result.metric).size(held.difference)
    change = "gain" if result.metric.sign * held.difference >= 0 else "loss"
    new = f"on {counted(held.configurations, 'new configuration')}"
    return {
        "better": f"The found setting is better than the default by {size} {new}.",
        "worse": f"The default is better than the found setting by {size} {new}.",
        "equal": f"The found setting and the default score the same {new}.",
        "undecided": f"Undecided: a {change} of {size} {new} may be luck.",
    }[word]


def answers(result: SearchResult) -> tuple[Answer, Answer, Answer]:
    """Return the gain on validation, whether it holds elsewhere, and which hyperparameter matters."""
    return (
        Answer("How large is the gain on validation?", "", _validation(result)),
        Answer("And on new configurations?", "", _elsewhere(result)),
        Answer("Which hyperparameter matters?", "", _matters(result)),
    )


def _validation(result: SearchResult) -> tuple[str, str]:
    """Return the scores by which the search chose, and why that of the winner is too good."""
    name, trials = result.metric.name, counted(result.trials_run, "trial")
    found, default = (unit_of(result.metric).text(score, 1) for score in (result.best_score, result.default_score))
    gain = _change(result.metric, result.best_score - result.default_score)
    bias = f"The best of {trials} looks better on the examples that chose it than it is."
    lead = f"{gain} {name} is **{found}** with the found setting, **{default}** with the default. {bias}"
    if result.kept_default:
        lead = f"There is none: no trial beat the default, whose {name} is **{found}**."
    elif not math.isfinite(result.default_score):
        lead = f"The default has no score; {name} is **{found}** with the found setting. {bias}"
    each = "" if result.configurations == 1 else f" of each of {result.configurations} configurations"
    examples = f"{counted(result.validation_examples, 'validation example')}{each}"
    return lead, f"{trials} in {duration(result.seconds)}, scored by {name} on {examples}."


def _elsewhere(result: SearchResult) -> tuple[str, ...]:
    """Return how the found setting scores on configurations that it was not chosen on."""
    held, unit = result.held_out, unit_of(result.metric)
    if result.kept_default and held is None:
        return ("The found setting is the default, so there is nothing to compare.",)
    if held is None or not held.configurations:
        return ("**Not tried:** the found setting and the default were not compared on other configurations.",)
    found, default = (unit.text(math.fsum(scores) / len(scores), 1) for scores in (held.found, held.default))
    interval = "One configuration gives no interval"
    if math.isfinite(held.ci_low):
        ends = f"{unit.change(held.ci_low, 1)} to {unit.change(held.ci_high, 1)}"
        interval = f"{percent(held.level)} interval **{ends}**"
    gain = f"{_change(result.metric, held.difference)} **{found}** against **{default}**"
    lost = [f"{counted(held.missing, 'pair')} without a score left out."] if held.missing else []
    where = f"Scored on the test examples of {counted(held.configurations, 'configuration')} that no trial saw."
    return f"{gain} with the default. {interval}.", where, *lost


def _change(metric: Metric, difference: float) -> str:
    """Return a difference of scores with its unit, and how to read it if smaller is better."""
    unit = unit_of(metric)
    more = " points" * (unit.scale > 1) + " (smaller is better)" * (not metric.greater_is_better)
    return f"**{unit.change(difference, 1)}{more}:**"


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
        text = "Is the gain luck? Try it on 10 new configurations; finished trials count:"
        yield Step(text, source.command("search", held_out_runs="10"))
    if held is not None and word == "undecided":
        more = source.command("search", held_out_runs=str(4 * (held.configurations + held.missing)))
        yield Step("Four times as many configurations halve the interval; finished trials count:", more)
    if result.run_id:
        command = shared.command(hyperparameters=result.run_id)
        how = "" if command else f" Investigate it with hyperparameters={result.run_id}."
        yield Step(f"How much of the score of the found setting is luck?{how}", command)

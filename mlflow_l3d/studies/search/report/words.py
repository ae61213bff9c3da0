"""The sentences about a search."""

from __future__ import annotations

import math

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import MISSING, Unit, counted, percent, share_text, unit_of
from mlflow_l3d.report.table import Answer
from mlflow_l3d.studies.search.numbers import HeldOut, SearchResult


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

"""What a comparison says in full: means, intervals and probabilities of the leading pair, and what pairing saves."""

from __future__ import annotations

import math

from mlflow_l3d.analysis.comparison.results import UNDECIDED, Comparison, Difference
from mlflow_l3d.analysis.comparison.wins import Share
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.report.numbers import (
    MISSING,
    between,
    counted,
    percent,
    plain,
    points,
    probability,
    share_text,
    unit_of,
)
from mlflow_l3d.report.text import Answer, advise
from mlflow_l3d.studies.comparison.report.pairs import overall_ranks


def advice_on(one: Difference) -> Answer:
    """Return what would settle a difference: runs, test examples, or nothing more."""
    there, settled = " and ".join(f"{runs:,}" for runs in dict.fromkeys(one.runs)), one.verdict != UNDECIDED
    more_runs = one.of_runs > one.of_examples
    return advise(there, one.runs_to_settle, one.examples_needed, settled=settled, more_runs=more_runs)


def luck_details(comparison: Comparison, one: Difference | None) -> list[str]:
    """Return means, interval and p-value of a pair; of several systems or tasks the ranks."""
    if one is None or len(comparison.differences) > 1:
        return _ranked(comparison)
    unit = unit_of(comparison.metric)
    factors = ", ".join((*one.shared_factors, *one.other_factors)) or "the runs"
    examples = f" and of {counted(one.examples, 'test example')}" if one.examples else ""
    return [
        f"{one.first} scores {unit.text(one.means[0])} and {one.second} {unit.text(one.means[1])} on average over "
        f"{_runs(one)} ({comparison.metric}, {unit.name}): a difference of {unit.change(one.difference)}.",
        f"Its {percent(comparison.level)} interval is {between(one.low, one.high, unit.change)} "
        f"(p {probability(one.p)}). It counts the luck of {factors}{examples}.",
        f"{one.first} is better on average with probability {_percent(one.probability_better)}: the share of the "
        f"confidence distribution on its side, which is a posterior probability if all differences were equally "
        f"probable before.",
    ]


def _runs(one: Difference) -> str:
    first, second = one.runs
    number = counted(first, "run") if first == second else f"{first:,} and {second:,} runs"
    if not one.shared_runs:
        return f"{number}, none of them shared"
    return f"{number}, {'all' if one.shared_runs == max(first, second) else f'{one.shared_runs:,}'} of them shared"


def run_details(one: Difference) -> list[str]:
    """Return how often single runs win, and on how many test examples a system always wins."""
    sentences = [
        f"One run of {one.first} scores better than one of {one.second} with probability {_share(one.run_wins)}, "
        f"drawn independently of {one.runs[0]:,} and {one.runs[1]:,} runs, ties half."
    ]
    if not math.isnan(one.pair_wins.value):
        sentences.append(f"With the same configurations of what both share: {_share(one.pair_wins)}.")
    wins = one.example_wins
    if 0 < wins.examples < FEWEST_EXAMPLES:
        sentences.append(
            f"Ten runs of both saw only {wins.examples} test examples, too few to count those on which one always "
            "wins. test_selection=fixed keeps one test set for all runs."
        )
    elif wins.examples:
        sentences += [
            f"{one.first} always wins on {_share(wins.first)} of the {wins.examples:,} test examples that ten runs of "
            f"both saw: any ten of its runs are all right, and not all of {one.second}. {one.second} does so on "
            f"{_share(wins.second)}.",
            f"All ten right against all ten wrong: {_percent(wins.first_always)} and {_percent(wins.second_always)}.",
        ]
    return sentences


def open_details(one: Difference) -> list[str]:
    """Return what would settle a pair, what its difference varies by, and what pairing saves."""
    total = one.of_runs + one.of_examples
    parts = (
        f"Of the variance of the difference {share_text(one.of_runs / total)} comes from runs, "
        f"{share_text(one.of_examples / total)} from test examples."
    )
    return list(filter(None, (*advice_on(one).sentences, parts if one.examples else "", pairing_sentence(one))))


def pairing_sentence(one: Difference) -> str:
    """Return what pairing saves."""
    if math.isnan(one.variance_saved):
        return ""
    if not one.shared_runs and not one.shared_examples:
        return "Nothing is paired: the two share neither runs nor test examples."
    runs, rest = one.variance_saved_runs, one.variance_saved - one.variance_saved_runs
    parts = f"{points(runs, 1)} % by shared runs, {points(rest, 1)} % by shared test examples"
    text = f"Pairing takes away {points(one.variance_saved, 1)} % of the variance ({parts})"
    if 0 < one.variance_saved < 1:
        text += f": without it, {plain(1 / (1 - one.variance_saved), 1)} times as much of both would be needed"
    if not one.shared_runs:
        return f"{text}. No run of one shares configurations with a run of the other."
    apart = f", not {', '.join(one.other_factors)}" if one.other_factors else ""
    return f"{text}. Shared runs have the same {', '.join(one.shared_factors)}{apart}."


def _ranked(comparison: Comparison) -> list[str]:
    unit = unit_of(comparison.metric)
    several = f" over {len(comparison.tasks)} tasks" if len(comparison.tasks) > 1 else ""
    means = [
        f"{each.system}: {unit.text(each.mean)} on average{several}, rank {each.low}"
        + (f" to {each.high}." if each.high > each.low else ".")
        for each in overall_ranks(comparison)
    ]
    return [*means, f"All ranks{several} hold together at {percent(comparison.level)}."]


def _percent(share: float) -> str:
    """Return a probability in per cent; one that is nearly 0 or 1 without its digits."""
    if math.isnan(share):
        return MISSING
    if min(share, 1 - share) >= 0.0005:
        return f"{points(share, 1)} %"
    return "<0.1 %" if share < 0.5 else ">99.9 %"


def _share(share: Share) -> str:
    ends = between(share.low, share.high, lambda value: points(value, 1))
    return _percent(share.value) + ("" if ends == MISSING else f" ({ends})")

"""The tables of a comparison: every pair, ranks, what differences vary by, single runs, factors, and A/A."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from mlflow_l3d.analysis.comparison import SelfCheck
from mlflow_l3d.analysis.comparison.results import Comparison, Difference, TaskMean
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.report.numbers import (
    MISSING,
    between,
    interval_of,
    percent,
    points,
    probability,
    signed,
    unit_of,
    with_limits,
)
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.comparison.report.words import advice_on, change, oriented


def direction_sentence(comparison: Comparison) -> str:
    """Return which way differences point."""
    side = "above" if comparison.metric.greater_is_better else "below"
    return f"A difference {side} 0 speaks for the first of a pair."


def difference_table(comparison: Comparison) -> Table:
    """Return every pair on every task, and over tasks: means, difference, intervals, p-values, verdict."""
    unit, rows = unit_of(comparison.metric), []
    shown = change(comparison, least=2)
    pairs: list[Difference | TaskMean] = [*comparison.differences, *comparison.over_tasks]
    for pair in pairs:
        one = pair if isinstance(pair, Difference) else pair.found
        first, second, (difference, *joint), verdict = oriented(comparison, pair)
        turn = 1 if first == pair.first else -1
        low, high = sorted((turn * one.low, turn * one.high))
        row = {
            **_who(pair),
            "pair": f"{first} - {second}",
            "means": " - ".join([*map(unit.text, pair.means)][::turn]) if isinstance(pair, Difference) else MISSING,
            f"difference ({unit.short})": shown(difference),
            percent(comparison.level): between(low, high, shown),
            "p": probability(one.p),
        }
        if len(comparison.differences) > 1:
            low, high = joint if isinstance(pair, Difference) else (math.nan, math.nan)
            row |= {"all together": between(low, high, shown), "p adjusted": probability(pair.p_adjusted)}
        rows.append({**row, "verdict": verdict})
    examples = " and of the test examples" if all(each.spread.examples for each in comparison.differences) else ""
    note = f"{direction_sentence(comparison)} Intervals count the luck of every factor{examples}."
    if len(comparison.differences) > 1:
        note += (
            f" All together, and the verdict: one error rate of {percent(1 - comparison.level)} for all pairs on all "
            "tasks (max-T; p-values are step-down, and may claim a little more than intervals that hold together)."
        )
    if comparison.over_tasks:
        note += (
            " Over tasks: each with its own luck, and tasks that differ (Hartung and Knapp's interval). That is a "
            "question of its own, with an error rate of its own for all pairs (Holm)."
        )
    return _table(comparison, rows, note)


def _who(pair: Difference | TaskMean) -> dict[str, str]:
    task = pair.task if isinstance(pair, Difference) else f"over {pair.found.tasks} tasks"
    return {"pair": f"{pair.first} - {pair.second}", "task": task}


def _table(comparison: Comparison, rows: Sequence[Mapping[str, str]], note: str) -> Table:
    """Return a table without the task, if there is only one."""
    several = len(comparison.tasks) > 1
    shown = [{name: text for name, text in row.items() if several or name != "task"} for row in rows]
    words = ("pair", "task", "verdict", "configurations\nof shared runs", "of one\nsystem alone")
    texts = frozenset(at for at, name in enumerate(shown[0]) if at and name in words)
    return Table.of(shown, note, texts=texts).without_empty(set(shown[0]))


def rank_table(comparison: Comparison) -> Table | None:
    """Return the ranks of three systems or more, or over tasks."""
    if len(comparison.systems) < 3 and len(comparison.tasks) < 2:
        return None
    unit = unit_of(comparison.metric)
    rows = [
        {
            "system": each.system,
            "task": each.task or "over tasks",
            f"mean ({unit.short})": unit.text(each.mean),
            "runs": f"{each.runs:,}",
            "rank": str(each.low) if each.low == each.high else f"{each.low} to {each.high}",
            "letters": each.group,
        }
        for each in comparison.ranks
    ]
    note = (
        f"Ranks that a system may have; those of all tasks hold together at {percent(comparison.level)}. Systems that "
        "share a letter do not differ significantly."
    )
    return _table(comparison, rows, note)


def luck_table(comparison: Comparison) -> Table:
    """Return what differences vary by, what pairing saves, and what would settle them."""
    unit = unit_of(comparison.metric)
    rows = [
        {
            **_who(each),
            "runs": f"{each.runs[0]:,} / {each.runs[1]:,}",
            "shared\nruns": f"{each.shared_runs:,}",
            "test\nexamples": f"{each.spread.examples:,}",
            "shared\nexamples": f"{each.shared_examples:,}",
            f"error\n({unit.short})": unit.text(each.spread.error),
            "from\nruns %": points(each.spread.of_runs / each.spread.error**2, 0),
            "pairing\nsaves %": points(each.spread.saved, 1),
            "by shared\nruns %": points(each.spread.saved_by_runs, 1),
            "configurations\nof shared runs": ", ".join(each.shared_factors) or MISSING,
            "of one\nsystem alone": ", ".join(each.other_factors) or MISSING,
            "what would\nsettle it": advice_on(each).short,
        }
        for each in comparison.differences
    ]
    note = (
        "error: standard error of the difference. Pairing saves: variance that two systems with other runs and other "
        "test examples would have more. What would settle it: runs of each, if the true difference is the one found."
    )
    return _table(comparison, rows, note)


def wins_table(comparison: Comparison) -> Table:
    """Return how often single runs win, and on how many test examples."""
    shown = partial(points, digits=1)
    rows = []
    for each in comparison.differences:
        wins = each.example_wins
        shares = {"one run,\nindependent %": each.run_wins, "one run,\nshared %": each.pair_wins}
        shares |= {f"{one} wins\nwhatever the luck %": getattr(wins, one) for one in ("first", "second")}
        row = _who(each) | {"better on\naverage %": shown(each.probability_better)}
        row |= {head: with_limits(shown(share.value), between(*share[1:], shown)) for head, share in shares.items()}
        always = {"first all right,\nsecond all wrong %": shown(wins.first_always)}
        always |= {"second all right,\nfirst all wrong %": shown(wins.second_always)}
        rows.append(row | always)
    note = (
        "In %, for the first of a pair. Better on average: the share of the confidence distribution on its side, a "
        "posterior probability if all differences were equally probable before. One run: ties count half."
    )
    if any(0 < each.example_wins.examples < FEWEST_EXAMPLES for each in comparison.differences):
        note += (
            " Ten runs of both saw too few test examples to count those on which one always wins. "
            "test_selection=fixed keeps one test set for all runs."
        )
    if any(each.example_wins.examples >= FEWEST_EXAMPLES for each in comparison.differences):
        note += (
            " Whatever the luck: test examples that any ten runs of one have all right, and any ten of the other (with "
            "the same configurations) not all."
        )
    return _table(comparison, rows, note)


def factor_table(comparison: Comparison, importances: pd.DataFrame) -> Table | None:
    """Return how much each factor decides which system is ahead; None if no cells of a factor are shared.

    Parameters
    ----------
    comparison
        The comparison.
    importances
        One row per pair and factor: task, first, second, factor, and metrics of the importance for the difference.
    """
    if importances.empty:
        return None
    unit = unit_of(comparison.metric)
    rows = [
        {
            "factor": str(row["factor"]),
            "pair": f"{row['first']} - {row['second']}",
            "task": str(row["task"]),
            f"contributed\n({unit.short})": unit.text(row["contributed_std"]),
            f"mitigated\n({unit.short})": unit.text(row["mitigated_std"]),
            "importance": signed(row.get("importance", math.nan)),
            "corrected": signed(row.get("importance_corrected", math.nan)),
            percent(comparison.level): interval_of(row, "importance_corrected"),
        }
        for row in importances.to_dict("records")
    ]
    note = (
        "Importance of a factor for the difference of two cells with the same configurations, in place of a score: "
        "above 0 if it moves the difference more than all other factors do. Contributed, mitigated: standard "
        "deviations."
    )
    return _table(comparison, rows, note)


def check_table(checks: Sequence[SelfCheck]) -> Table | None:
    """Return false claims of comparisons without a difference."""
    if not checks:
        return None
    verdicts = ("at most nominal", "repeat more often", "TOO MANY")
    rows = [
        {
            "compared with itself": each.what,
            "comparisons": f"{each.repeats:,}",
            "claims": f"{each.claims:,}",
            "false claims %": points(each.rate, 1),
            "95 %": between(*each.interval, lambda one: points(one, 1)),
            "nominal %": points(each.nominal, 1),
            "verdict": verdicts[(each.rate > each.nominal) + (not each.holds)],
        }
        for each in checks
    ]
    note = (
        "One system: random halves of its runs. A pair: the two runs of each shared configuration, swapped or not by "
        "the toss of a coin. There is no difference, so every claim is false. Repeat more often: the excess may be by "
        "chance. Too many: do not trust the claims of this comparison."
    )
    return Table.of(rows, note, texts=frozenset({6}))

"""The tables of a comparison: every pair, ranks, what differences vary by, single runs, factors, and A/A."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mlflow_l3d.analysis.comparison.families import OverTasks
from mlflow_l3d.analysis.comparison.results import Comparison, Difference, TaskMean
from mlflow_l3d.analysis.comparison.self_check import SelfCheck
from mlflow_l3d.report.numbers import MISSING, between, interval_of, percent, points, probability, signed, unit_of
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.comparison.report.details import advice_on
from mlflow_l3d.studies.comparison.report.pairs import direction_sentence


def difference_table(comparison: Comparison) -> Table:
    """Return every pair on every task, and over tasks: difference, intervals, p-values, verdict."""
    unit, several = unit_of(comparison.metric), len(comparison.tasks) > 1
    many = len(comparison.differences) > 1

    def row(pair: Difference | TaskMean, task: str, one: Difference | OverTasks, joint: str) -> dict[str, str]:
        return {
            "pair": f"{pair.first} - {pair.second}",
            "task": task,
            f"difference ({unit.short})": unit.change(one.difference),
            percent(comparison.level): between(one.low, one.high, unit.change),
            "p": probability(one.p),
            "all together": joint,
            "p adjusted": probability(pair.p_adjusted),
            "verdict": pair.verdict,
        }

    rows = [
        row(each, each.task, each, between(each.joint_low, each.joint_high, unit.change))
        for each in comparison.differences
    ]
    rows += [row(pair, f"over {pair.found.tasks} tasks", pair.found, MISSING) for pair in comparison.over_tasks]
    if not many:
        rows = [
            {name: value for name, value in row.items() if name not in ("all together", "p adjusted")} for row in rows
        ]
    examples = " and of the test examples" if all(each.examples for each in comparison.differences) else ""
    note = f"{direction_sentence(comparison)} Intervals count the luck of every factor{examples}."
    if many:
        note += (
            f" All together, and verdict: one error rate of {percent(1 - comparison.level)} for all pairs on all tasks "
            "(max-T; p-values are step-down, and so may claim a little more than intervals that hold together)."
        )
    if several:
        note += (
            " Over tasks: each with its own luck, and tasks that differ (Hartung and Knapp's interval). That is a "
            "question of its own, with an error rate of its own for all pairs (Holm)."
        )
    return _table(comparison, rows, note, texts=frozenset({len(rows[0]) - 1 - (not several)}))


def _table(comparison: Comparison, rows: Sequence[Mapping[str, str]], note: str, **more: Any) -> Table:
    """Return a table without the task, where there is one only; what names a row stands again in each part of it."""
    several = len(comparison.tasks) > 1
    shown = [{name: text for name, text in row.items() if several or name != "task"} for row in rows]
    keys = sum(name in ("factor", "pair", "system", "task") for name in shown[0])
    texts = frozenset(range(1, keys)) | more.pop("texts", frozenset())
    return Table.of(shown, note, keys=keys, texts=texts, **more)


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
        "Ranks that a system may have; those of all tasks hold together. Systems that share a letter do not differ "
        "significantly."
    )
    return _table(comparison, rows, note)


def luck_table(comparison: Comparison) -> Table:
    """Return what differences vary by, what pairing saves, and what would settle them."""
    unit = unit_of(comparison.metric)
    rows = [
        {
            "pair": f"{each.first} - {each.second}",
            "task": each.task,
            "runs": f"{each.runs[0]:,} / {each.runs[1]:,}",
            "shared\nruns": f"{each.shared_runs:,}",
            "shared\nexamples": f"{each.shared_examples:,}",
            f"error\n({unit.short})": unit.text(each.error),
            "from\nruns %": points(each.of_runs / (each.of_runs + each.of_examples), 0),
            "pairing\nsaves %": points(each.variance_saved, 0),
            "what would\nsettle it": advice_on(each).short,
        }
        for each in comparison.differences
    ]
    note = (
        "error: standard error of the difference. Pairing saves: variance that two systems with other runs and other "
        "test examples would have more. What would settle it: runs of each, if the true difference is the one found."
    )
    return _table(comparison, rows, note)


_WHATEVER = "whatever the luck %"


def wins_table(comparison: Comparison) -> Table:
    """Return how often single runs win, and on how many test examples."""

    def share(value: float, low: float = math.nan, high: float = math.nan) -> str:
        limits = between(low, high, lambda one: points(one, 1))
        return points(value, 1) + ("" if limits == MISSING else f"\n{limits}")

    rows = [
        {
            "pair": f"{each.first} - {each.second}",
            "task": each.task,
            "better on\naverage %": share(each.probability_better),
            "one run,\nindependent %": share(*each.run_wins),
            "one run,\nshared %": share(*each.pair_wins),
            f"first wins\n{_WHATEVER}": share(*each.example_wins.first),
            f"second wins\n{_WHATEVER}": share(*each.example_wins.second),
        }
        for each in comparison.differences
    ]
    note = "In %, for the first of a pair."
    if any(share != MISSING for row in rows for name, share in row.items() if name.endswith(_WHATEVER)):
        note += (
            " Whatever the luck: test examples that any ten runs of one have all right, and any ten of the other (with "
            "the same configurations) not all."
        )
    return _table(comparison, rows, note).without_empty(set(rows[0]))


def factor_table(comparison: Comparison, importances: pd.DataFrame) -> Table | None:
    """Return how far each factor decides which system is ahead, None where no factor's cells are shared.

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
        "above 0 where it moves the difference more than all other factors do. Contributed, mitigated: standard "
        "deviations."
    )
    if len(comparison.systems) < 3:
        rows = [{name: text for name, text in row.items() if name != "pair"} for row in rows]
    return _table(comparison, rows, note).without_empty({percent(comparison.level)})


def check_table(checks: Sequence[SelfCheck]) -> Table | None:
    """Return false claims of comparisons without a difference."""
    if not checks:
        return None
    rows = [
        {
            "compared with itself": each.what,
            "comparisons": f"{each.repeats:,}",
            "claims": f"{each.claims:,}",
            "false claims %": points(each.rate, 1),
            "95 %": between(*each.interval, lambda one: points(one, 1)),
            "nominal %": points(each.nominal, 1),
            "verdict": ("at most nominal" if each.rate <= each.nominal else "repeat more often")
            if each.holds
            else "TOO MANY",
        }
        for each in checks
    ]
    note = (
        "One system: random halves of its runs. A pair: the two runs of each shared configuration, swapped or not by "
        "the toss of a coin. There is no difference, so every claim is false. Repeat more often: the excess may be by "
        "chance. Too many: do not trust the claims of this comparison."
    )
    return Table.of(rows, note, texts=frozenset({6}))

"""Checks of one factor by its table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.checks.closure import closure
from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.failures import OF_RUNS_THAT_END, counted_at_chance, failures
from mlflow_l3d.analysis.importance.checks.long_run import uneven_rows
from mlflow_l3d.analysis.importance.checks.scores import are_equal
from mlflow_l3d.analysis.importance.checks.words import counted, counted_of, in_unit, named
from mlflow_l3d.analysis.importance.models import LEVELS
from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.importance.tables import with_scores
from mlflow_l3d.analysis.importance.verdicts import Advice, Verdict
from mlflow_l3d.analysis.jackknife import unseen_share
from mlflow_l3d.cells.factors import TEST_SAMPLE

FEW_ROWS: Final = 10
"""Below this many rows with a score L3D007 speaks."""
FEW_ROWS_OF_LEVELS: Final = 40
"""The same of a complete list of levels, whose interval rests on the spread of the row means alone."""
CLOSURE_LEVEL: Final = 0.0015
"""Two-sided level of the closure check; with exponential effects it speaks up to ten times as often."""
FAILURE_LEVEL: Final = 0.01
"""Failures that crowd into rows or columns so much, or more, by chance are taken for no chance."""
UNEVEN_LEVEL: Final = 0.01
LEAST_UNEVEN: Final = 0.05
"""L3D015 speaks of rows that are spread so unevenly, or more, if chance does it at most that often."""
LEAST_EQUAL: Final = 5
"""Scores that two rows or columns must share before L3D010 takes it for more than chance."""
_AGAIN: Final = "See the errors of the failed runs, then run the same command again: only missing cells are computed."


def missing_cells(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D002: cells without a score, and what the numbers come from."""
    if not record.cells_missing:
        return
    missing = ~np.isfinite(record.table)
    rows = np.flatnonzero(missing.any(axis=1)).tolist()
    message = f"{counted_of(record.cells_missing, 'cell', record.table.size, 'has')} no score ({named('row', rows)}). "
    by_reml = record.components is not None and record.components.method == "reml"
    method = "restricted maximum likelihood" if by_reml else "an analysis of variance that allows for missing cells"
    if evidence.tables_are_golden:
        message += "What the factor contributes comes from the rows that have all their runs. "
    else:
        message += (
            "The published score takes the scores that each row has, as the authors' code does; the corrected score "
            f"and its interval come from every cell, by {method}. "
        )
    if by_reml and math.isnan(record.importance_corrected_ci_low):
        message += "It has no interval here (a component is zero, or the table is small or very large). "
    elif evidence.reml and evidence.model.shared_columns and not by_reml:
        message += "Restricted maximum likelihood gave no estimate. "
    if empty := np.flatnonzero(missing.all(axis=0)).tolist():
        message += f"No row has a score in {named('column', empty)}. "
    yield Check("L3D002", "warning", "Cells missing", message + _AGAIN, record.factor)


def missing_runs(record: Importance, _: Evidence) -> Iterator[Check]:
    """L3D002 of a baseline strategy, whose runs do not form rows and columns."""
    if record.cells_missing:
        message = (
            f"{counted_of(record.cells_missing, 'run', record.table.size, 'has')} no score; the "
            f"standard deviation is that of the others. {_AGAIN}"
        )
        yield Check("L3D002", "warning", "Cells missing", message, record.factor)


def selected_cells(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D012: the runs that have a score are those that did not fail."""
    failed = failures(record, evidence.model, chance=evidence.chance)
    if failed is None:
        return
    message = OF_RUNS_THAT_END
    crowds = ((failed.p_columns, "column", record.factor), (failed.p_rows, "row", "the other factors"))
    for p, noun, factor in crowds:
        if p <= FAILURE_LEVEL:
            message += f" Failures crowd into {noun}s (p = {p:.3g}): they go with the configurations of {factor}."
    message += counted_at_chance(failed.at_chance)
    yield Check("L3D012", "warning", "Failures are a selection", message, record.factor)


def duplicated_lines(record: Importance, _: Evidence) -> Iterator[Check]:
    """L3D010: rows or columns with equal scores everywhere, as from a seed that was used twice."""
    table = record.table[np.isfinite(record.table).all(axis=1)]
    for noun, lines in (("column", table.T), ("row", table)):
        if min(table.shape) < 2 or lines.shape[1] < LEAST_EQUAL or are_equal(table.reshape(-1)):
            continue
        varies = np.ptp(lines, axis=1) > 0  # runs that collapsed alike are no seed that was used twice
        repeated = np.flatnonzero(pd.DataFrame(lines).duplicated() & varies).tolist()
        if not (same := len(repeated)):
            continue
        alike = noun == "column" and same == len(lines) - 1
        everything = " All of them are: the factor has no effect at all, and no interval." if alike else ""
        message = (
            f"{counted_of(same, noun, len(lines), 'is')} equal to another one in every score "
            f"({named(noun, repeated)}).{everything} Either what is drawn has few values (4 examples of a "
            "prompt have 24 orders), which does no harm; or seeds were used twice, or do not reach the training, and "
            "the interval is too narrow. Compare the seed.* parameters of these cells."
        )
        yield Check("L3D010", "warning", f"Duplicated {noun}s", message, record.factor)


def uneven_spread(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D015: rows are spread unevenly, so that published and corrected importance are two different numbers."""
    unevenness, p = uneven_rows(record.table, evidence.model)
    if not (p <= UNEVEN_LEVEL and unevenness >= LEAST_UNEVEN):
        return
    message = (
        f"Unevenness {unevenness:.2f}. Standard deviations within rows differ by more than chance (unevenness: their "
        "squared coefficient of variation, 0 if all rows are spread alike). The published importance averages standard "
        "deviations, the corrected importance variances: the two stay different however many runs there are, and may "
        "have different signs. Compare published numbers with importance and its interval (importance_ci_low, "
        "importance_ci_high); the verdict is about the share of the variance."
    )
    yield Check("L3D015", "info", "Rows are unevenly spread", message, record.factor)


def no_score_changes(record: Importance, _: Evidence) -> Iterator[Check]:
    """L3D010 of pairs and of few rows: none of them varies, as where a seed does not reach the training."""
    pairs = record.table[np.isfinite(record.table).all(axis=1)]
    if len(pairs) < 2 or np.ptp(pairs, axis=1).any() or are_equal(pairs.reshape(-1)):
        return
    count = len(pairs)
    what = f"the score of none of {count} runs" if pairs.shape[1] == 2 else f"no score in any of {count} rows"
    unseen = unseen_share(count, 0.95)
    message = (
        f"Drawing {record.factor} anew changes {what}: its importance has no interval, since "
        f"up to {100 * unseen:.0f} % of runs may still change. Either the factor has almost no effect, or its "
        "seed does not reach the training: compare the predictions of two such runs, or raise mitigation_runs."
    )
    yield Check("L3D010", "warning", "No score changes", message, record.factor)


def no_score_changes_in_few_rows(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D010 of 3 or 4 rows, of which none varies: then there is no interval."""
    if 3 <= len(with_scores(record.table)) < LEAST_EQUAL and math.isnan(record.importance_corrected_ci_low):
        yield from no_score_changes(record, evidence)


def total_variances_differ(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D006: table and golden runs estimate the same total variance, and differ by more than chance."""
    # Golden runs are evaluated on all test examples.
    if evidence.mitigated or record.factor == TEST_SAMPLE:
        return
    test = closure(record.table, record.golden, evidence.model, chance=evidence.chance)
    if test is None or test.p >= CLOSURE_LEVEL:
        return
    percent = evidence.metric.percent
    odds = f"about 1 of {1 / test.p:,.0f}" if test.p > 1e-6 else "fewer than 1 of a million"
    table, golden = (in_unit(std, percent=percent) for std in (test.table_std, test.golden_std))
    of = f" ({counted(test.left_out, 'run')} below chance left out)" if test.left_out else ""
    message = (
        f"The table implies a standard deviation of {table}{' points' if percent else ''} when every factor varies, "
        f"the golden runs show {golden}{of}: chance alone does this in {odds} investigations. Either a "
        "factor is not varied in one of the two, or a seed is shared where it should not be. Compare the seed.* and "
        "factor.* parameters of golden runs and cells."
    )
    yield Check("L3D006", "warning", "Table and golden runs do not agree", message, record.factor)


def few_runs(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D007: too few rows or columns for a narrow interval, or for any at all."""
    model = evidence.model
    rows, columns = record.rows_used, with_scores(record.table).shape[1]
    needed = model.least_columns
    enough = FEW_ROWS_OF_LEVELS if model is LEVELS else FEW_ROWS
    if rows >= enough and columns >= needed:
        return
    head = f"{counted(rows, 'row')} and {counted(columns, 'column')} with a score"
    if min(rows, columns) < 2:
        interval = "for its interval" if model.shared_columns else "rows for its interval"
        text = f"{head}: at least 2 of each are needed for an importance, 3 {interval}."
    elif rows < 3 or columns < needed:
        least = f"at least 3 {'of each' if model.shared_columns else 'rows'}"
        text = f"{head}: {least} are needed for an interval, so nothing says how far the importance is luck."
    else:
        if model is LEVELS:
            text = f"{head}: so few rows seldom show whether their scores are skewed. If they are, the interval covers"
            text = f"{text} 65 to 90 % instead of 95 %."
        else:
            text = f"{head}: the interval is wide, and the corrected importance of so few rows may lie too high on"
            text = f"{text} average (by about 0.1 with 5 rows, 0.2 with 3)."
        yield Check("L3D007", "info", "Few runs", text, record.factor)
        return
    # A list that is complete, and pairs, have no more columns to ask for.
    fixed = evidence.tables_are_golden or model is LEVELS
    more = ("mitigation_runs",) if fixed else ("mitigation_runs", "investigation_runs")
    paper = "10 columns with 20 to 100 rows" if len(more) > 1 else "20 to 100 rows"
    message = f"{text} The paper uses {paper}; raise {' or '.join(more)}."
    yield Check("L3D007", "warning", "Few runs", message, record.factor)


def joint_product(evidence: Evidence) -> Iterator[Check]:
    """L3D009: columns of joint factors that share configurations."""
    if evidence.product:
        message = (
            "The columns of the joint factors are the product of their configurations, so that columns share some of "
            "them and are not independent draws: the intervals are too narrow. The published score is not concerned. "
            "Use joint=paired for intervals that hold."
        )
        yield Check("L3D009", "warning", "Joint columns share configurations", message)


def disagreement(record: Importance, verdict: Verdict, advice: Advice) -> Iterator[Check]:
    """Yield L3D001: the verdict does not bear out what the published rule says."""
    score, low, high = record.importance, record.importance_corrected_ci_low, record.importance_corrected_ci_high
    important = score > 0
    if not (math.isfinite(score) and math.isfinite(low)) or important == verdict.dominates:
        return
    numbers = (
        f"By the published rule the factor is {'' if important else 'not '}important (importance {score:+.2f}); the "
        f"corrected importance is {record.importance_corrected:+.2f} ({100 * record.level:.4g} % interval {low:+.2f} "
        f"to {high:+.2f})."
    )
    if not verdict.is_decided:
        message = f"{numbers} Undecided: {verdict.reason}. {advice.text}"
        yield Check("L3D001", "warning", "Important by the published rule alone", message, record.factor)
    else:
        message = f"{numbers} {verdict.word.capitalize()}: the whole interval lies on the other side of 0. Report both."
        yield Check("L3D001", "warning", "Published and corrected importance disagree", message, record.factor)

"""Checks of one factor by its table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.estimators import LEVELS, TableModel
from mlflow_l3d.analysis.importance.long_run import uneven_rows
from mlflow_l3d.analysis.importance.results import Check, Importance, counted, counted_of, in_unit, named
from mlflow_l3d.analysis.importance.tables import are_equal, rounding_variance, std_interval, with_scores
from mlflow_l3d.analysis.importance.verdicts import Advice, Verdict
from mlflow_l3d.analysis.intervals import FloatArray, jackknife_variance, t_p_value, unseen_share
from mlflow_l3d.cells.factors import TEST_SAMPLE

FEW_ROWS: Final = 10
"""Below this many rows with a score L3D007 speaks."""
FEW_ROWS_OF_LEVELS: Final = 40
"""The same of a complete list of levels, whose interval rests on the spread of the row means alone."""
CLOSURE_LEVEL: Final = 0.0015
"""Two-sided level of the closure check; with exponential effects it speaks up to ten times as often."""
UNEVEN_LEVEL: Final = 0.01
LEAST_UNEVEN: Final = 0.05
"""L3D015 speaks of rows that are spread so unevenly, or more, if chance does it at most that often."""
GOLDEN_LEVEL: Final = 2 / 3
"""Level of the interval of the golden standard deviation with which a verdict on levels must agree."""
LEAST_EQUAL: Final = 5
"""Scores that two rows or columns must share before L3D010 takes it for more than chance."""


def duplicated_lines(record: Importance, _: Evidence) -> Iterator[Check]:
    """L3D010: rows or columns with equal scores everywhere, as from a seed that was used twice."""
    table = record.table[np.isfinite(record.table).all(axis=1)]
    for noun, lines in (("column", table.T), ("row", table)):
        if min(table.shape) < 2 or lines.shape[1] < LEAST_EQUAL or are_equal(table.reshape(-1)):
            continue
        varies = np.ptp(lines, axis=1) > 0  # runs that collapsed alike are no seed that was used twice
        first, number = np.unique(lines, axis=0, return_index=True, return_inverse=True)[1:]
        repeated = np.flatnonzero((first[number.ravel()] < np.arange(len(lines))) & varies).tolist()
        if not (same := len(repeated)):
            continue
        alike = noun == "column" and same == len(lines) - 1
        everything = " All of them are: the factor has no effect at all, and no interval." if alike else ""
        message = (
            f"{counted_of(same, noun, len(lines), 'is')} equal to another one in every score "
            f"({named(noun, repeated)}).{everything} Either the factor has few values (4 examples of a "
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


def no_score_changes(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D010 of pairs, and of 3 or 4 rows without an interval: none varies, as if no seed reaches the training."""
    few_rows = 3 <= len(with_scores(record.table)) < LEAST_EQUAL and math.isnan(record.importance_corrected_ci_low)
    if not (evidence.tables_are_golden or few_rows):
        return
    pairs = record.table[np.isfinite(record.table).all(axis=1)]
    if len(pairs) < 2 or np.ptp(pairs, axis=1).any() or are_equal(pairs.reshape(-1)):
        return
    count = len(pairs)
    what = f"the score of none of {count} runs" if pairs.shape[1] == 2 else f"no score in any of {count} rows"
    unseen = unseen_share(count, 0.95)
    message = (
        f"Redrawing {record.factor} changes {what}: its importance has no interval, since "
        f"up to {100 * unseen:.0f} % of runs may still change. Either the factor has almost no effect, or its "
        "seed does not reach the training: compare the predictions of two such runs, or raise mitigation_runs."
    )
    yield Check("L3D010", "warning", "No score changes", message, record.factor)


def total_variances_differ(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D006: table and golden runs estimate the same total variance, and differ by more than chance."""
    # Golden runs are evaluated on all test examples; pooled cells cannot show a leak.
    if evidence.plan.mitigated or record.factor == TEST_SAMPLE or record.golden_pooled:
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


def golden_runs_vary_more(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D006 of levels: golden runs may show a long tail that the rows lack, so the factor seems to dominate.

    Pooled runs are those rows: taken for golden runs, they let 15 to 20 % of false claims pass with t3 row means.
    """
    if evidence.model is not LEVELS or evidence.plan.mitigated or record.components is None:
        return
    golden = record.golden[np.isfinite(record.golden) & (not record.golden_pooled)]
    most = std_interval(golden, level=GOLDEN_LEVEL)[1]
    more = "raise golden_runs or mitigation_runs"
    if record.importance_corrected_ci_low > 0 and not record.components.contributed >= most**2 / 2:
        deviation = f"a standard deviation of {in_unit(most, percent=evidence.metric.percent)}. If so"
        if math.isnan(most):
            deviation = f"any standard deviation ({counted(len(golden), 'score')}; five that differ bound it). If large"
        message = (
            f"The golden runs may have {deviation}, {record.factor} makes up less than half of the "
            f"variance, and the rows lack a long tail: {'use golden_runs=auto' if record.golden_pooled else more}."
        )
        yield Check("L3D006", "info", "Golden runs may vary more", message, record.factor)


def few_runs(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D007: too few rows or columns for a narrow interval, or for any at all."""
    model = evidence.model
    rows, columns = record.rows_used, with_scores(record.table).shape[1]
    needed = model.least_columns
    enough = FEW_ROWS_OF_LEVELS if model is LEVELS else FEW_ROWS
    if rows >= enough and columns >= needed:
        return
    head = f"{counted(rows, 'row')} and {counted(columns, 'column')} with a score"
    if rows >= 3 and columns >= needed:
        text = (
            "the interval is wide, and the corrected importance of so few rows may lie too high on average (by about "
            "0.1 with 5 rows, 0.2 with 3)."
        )
        if model is LEVELS:
            text = (
                "so few rows seldom show whether their scores are skewed. If they are, the interval covers 65 to 90 % "
                "instead of 95 %."
            )
        yield Check("L3D007", "info", "Few runs", f"{head}: {text}", record.factor)
        return
    if min(rows, columns) < 2:
        rows_alone = "" if model.shared_columns else "rows "
        text = f"at least 2 of each are needed for an importance, 3 {rows_alone}for its interval."
    else:
        least = "of each" if model.shared_columns else "rows"
        text = f"at least 3 {least} are needed for an interval, so the uncertainty of the importance is unknown."
    # A list that is complete, and pairs, have no more columns to ask for.
    fixed = evidence.tables_are_golden or model is LEVELS
    advice = "20 to 100 rows; raise mitigation_runs"
    if not fixed:
        advice = "10 columns with 20 to 100 rows; raise mitigation_runs or investigation_runs"
    yield Check("L3D007", "warning", "Few runs", f"{head}: {text} The paper uses {advice}.", record.factor)


def joint_product(evidence: Evidence) -> Iterator[Check]:
    """L3D009: columns of joint factors that share configurations."""
    if evidence.plan.product:
        message = (
            "The columns of the joint factors are the product of their configurations, so that columns share some of "
            "them and are not independent draws: the intervals are too narrow. The importance itself is not affected. "
            "Use joint=paired to get valid intervals."
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


class Closure(NamedTuple):
    """Two estimates of the standard deviation when every factor varies, and whether chance alone makes them differ.

    Attributes
    ----------
    table_std, golden_std
        From the table, and of the golden runs (both from variances without bias).
    p
        Two-sided p-value of "no difference".
    left_out
        Runs below chance, in table and golden runs, that were left out.
    """

    table_std: float
    golden_std: float
    p: float
    left_out: int


def closure(table: FloatArray, golden: FloatArray, model: TableModel, *, chance: float | None = None) -> Closure | None:
    """Compare the total variance of a table with that of golden runs.

    Parameters
    ----------
    table
        Shape (M, N), nan if a score is missing.
    golden
        Shape (L,), likewise.
    model
        How the columns of the table belong together.
    chance
        Score of guessing. Runs below it are left out: a few of them are most of a variance, and are easily all in the
        golden runs or all in the table.

    Returns
    -------
    Closure or None
        None if there are fewer than three golden runs, rows or (crossed) columns, or a variance is zero.

    Notes
    -----
    Welch's t test of the two log variances. Their errors come from leaving out one golden run, row or column at a time,
    so that scores need not be normal. If a table has few rows, these may all be ordinary though the scores have a
    long tail; so its error is never taken for less than the tail of the golden runs says, with the degrees of freedom
    that the table has for normal scores.
    """
    left_out = 0
    if chance is not None:
        left_out = int((table < chance).sum() + (golden < chance).sum())
        table = np.where(table < chance, np.nan, table)
        golden = golden[~(golden < chance)]
    table, golden = with_scores(table), golden[np.isfinite(golden)]
    count = len(golden)
    if count < 3 or len(table) < 3 or table.shape[1] < model.least_columns:
        return None
    estimate, variance = model.estimate(table), float(golden.var(ddof=1))
    # Of levels two rows may be complete, which cannot be left out.
    if estimate is None or not estimate.without or variance <= rounding_variance(golden):
        return None
    squares = estimate.squares
    if squares is None or not squares.total > 0:
        return None
    distances = np.square(golden - golden.mean())
    golden_error = _error((distances.sum() - count / (count - 1) * distances) / (count - 2))
    totals = [contributed + np.maximum(0.0, mitigated) for contributed, mitigated in estimate.without]
    of_the_table = sum(map(_error, totals)), min(map(len, totals)) - 1
    of_the_tail = golden_error * (count - 1) / squares.total_degrees, count - 1
    table_error, table_degrees = max(of_the_table, of_the_tail)
    error = table_error + golden_error
    if not math.isfinite(error) or error <= 0:
        return None
    degrees = error**2 / (table_error**2 / table_degrees + golden_error**2 / (count - 1))
    difference = math.log(squares.total) - math.log(variance)
    p = t_p_value(difference, math.sqrt(error), degrees)
    return Closure(math.sqrt(squares.total), math.sqrt(variance), p, left_out)


def _error(variances: FloatArray) -> float:
    """Return the jackknife variance of a log variance from the variances without each unit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return jackknife_variance(np.log(variances))

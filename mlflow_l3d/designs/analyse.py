"""From the cells of one investigation to everything that is reported about it, and what to do where it is undecided."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.difference import POWERS
from mlflow_l3d.analysis.consistency.results import Consistency
from mlflow_l3d.analysis.importance.checks import all_checks, in_order
from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.tables import disagreement
from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.multiplicity import Ranking, rank_factors
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.shape import Collapse, apart, collapsed, guessing_runs
from mlflow_l3d.analysis.importance.tables import Tables, uncollapsed, with_scores
from mlflow_l3d.analysis.importance.verdicts import (
    FEWEST_AT_BOUNDARY,
    FEWEST_ROWS,
    Advice,
    Verdict,
    fewest_rows,
    joint_level,
    verdict_of,
)
from mlflow_l3d.analysis.intervals import LEVEL, check_level
from mlflow_l3d.analysis.planning.stopping import IntervalRule
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.cells.factors import REPLICATE
from mlflow_l3d.designs import Design, Planned, design_named
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import unparsed_reasons
from mlflow_l3d.metrics.known import as_metric


def analyse(
    cells: pd.DataFrame,
    planned: Planned | None = None,
    *,
    metric: Metric | str,
    consistencies: Mapping[str, Consistency] | None = None,
    level: float = LEVEL,
) -> Analysis:
    """Return the importance of every factor, and the checks.

    Parameters
    ----------
    cells
        One row per run, see :mod:`mlflow_l3d.analysis.importance.tables`.
    planned
        The facts about the plan; by default what the cells tell.
    metric
        The metric whose spread is investigated, or its name: a column of `cells`.
    consistencies
        Factor or ``golden`` -> agreement of single predictions, from
        :class:`mlflow_l3d.analysis.consistency.Stability`.
    level
        Confidence level at which the intervals of all factors hold together.

    Returns
    -------
    Analysis
        `cells_failed` counts the cells and golden runs of the plan that have no score.

    Raises
    ------
    ParameterError
        If the frame lacks a column, a place in the plan is wrong or taken twice, or `level` is not allowed.
    """
    check_level(level)
    metric = as_metric(metric)
    plan = planned or Planned()
    design = plan.design_of(cells)
    plan = replace(plan, design=design)
    chance = metric.chance_level(plan.classes)
    scores = plan.tables(cells, metric.name)
    interval_level = _level_of_looks(scores, level) if plan.sequential else joint_level(level, len(scores.tables))
    importances = design.importances(scores, chance=chance, missing=plan.missing, level=interval_level)
    if plan.sequential:
        importances = _sequential(design, scores, importances)
    # Of few golden runs the interval has ends that no scores within the range can have.
    importances = {
        name: replace(record, golden_std_ci_high=min(record.golden_std_ci_high, metric.span / 2))
        for name, record in importances.items()
    }
    collapse = None if chance is None else _collapse(design, scores, chance, plan, interval_level)
    failing, at_chance = _failures(design, scores, chance)
    evidence = Evidence(
        importances=importances,
        golden=design.golden_scores(scores),
        golden_runs=design.words.golden,
        metric=metric,
        plan=plan,
        model=design.model,
        tables_are_golden=design.tables_are_golden,
        collapse=collapse,
        unread=unparsed_reasons(cells),
        cells=cells,
        repeated_agreement=_repeated_agreement(consistencies or {}),
        failing=failing,
        at_chance=at_chance,
    )
    checks = all_checks(evidence, design.factor_checks)
    judged_records = {} if design.baseline else importances
    verdicts = {name: verdict_of(record, checks, collapse) for name, record in judged_records.items()}
    advised = {name: advise(design, importances[name], verdict) for name, verdict in verdicts.items()}
    advice = {name: _allowed(one, plan, design.words.row) for name, one in advised.items()}
    for name, verdict in verdicts.items():
        checks = (*checks, *disagreement(importances[name], verdict, advice[name]))
    return Analysis(
        metric=metric,
        importances=importances,
        consistencies=dict(consistencies or {}),
        checks=in_order(checks),
        advice=advice,
        cells_failed=scores.missing,
        design=design.name,
        ranking=_ranking(design, importances, level),
        strategies=design.strategies(importances),
        collapse=collapse,
        guessing=guessing_runs(evidence.golden, chance),
        level=level,
    )


def _level_of_looks(scores: Tables, level: float) -> float:
    """Return the level of intervals that allow for all looks of the rule and for all factors."""
    rows = max((len(table) for table in scores.tables.values()), default=0)
    return IntervalRule(half_width=1, alpha=1 - level, factors=max(1, len(scores.tables))).level(rows)


def _sequential(design: type[Design], scores: Tables, importances: Mapping[str, Importance]) -> dict[str, Importance]:
    """Return records with the careful intervals that the rule looks at."""
    careful_records = dict(importances)
    for factor, record in importances.items():
        estimate = design.estimate(scores, factor)
        has_interval = math.isfinite(record.importance_corrected_ci_low)
        if estimate is not None and has_interval and record.components and record.components.method != "reml":
            low, high = estimate.careful_interval(record.level)
            careful_records[factor] = replace(
                record, importance_corrected_ci_low=low, importance_corrected_ci_high=high
            )
    return careful_records


def _collapse(design: type[Design], scores: Tables, chance: float, plan: Planned, level: float) -> Collapse | None:
    """Return the two parts of the score; None if no run collapsed, or low scores are the tail of all others."""
    rest = scores.changed(partial(uncollapsed, chance=chance))
    if design.baseline or rest.missing == scores.missing or not apart(design.golden_scores(rest), chance):
        return None
    runs = design.independent(scores)
    down = collapsed(runs[np.isfinite(runs)], chance)
    causes = scores.changed(partial(collapsed, chance=chance))
    parts = [design.importances(part, missing=plan.missing, level=level) for part in (causes, rest)]
    return Collapse(len(down), int(down.sum()), parts[0], parts[1], level)


def _failures(
    design: type[Design], scores: Tables, chance: float | None
) -> tuple[Mapping[str, Importance], Mapping[str, Importance]]:
    """Return the records of "the run failed", for designs without tables, and of failures counted as guessing."""
    if not scores.missing or design.baseline:
        return {}, {}
    failing, at_chance = dict[str, Importance](), dict[str, Importance]()
    if design.tables_are_golden:
        failing = design.importances(scores.changed(lambda values: np.isnan(values).astype(np.float64)))
    if chance is not None:
        at_chance = design.importances(scores.changed(lambda values: np.where(np.isnan(values), chance, values)))
    return failing, at_chance


def _repeated_agreement(consistencies: Mapping[str, Consistency]) -> float | None:
    """Return the share of equal predictions of one and the same cell; None if there are none."""
    repeated = consistencies.get(REPLICATE)
    if repeated is None or not repeated.pairs_of_predictions:
        return None
    # Answers that name no class agree with nothing, not even with themselves.
    return repeated.consistency + repeated.unparsed_share


def _ranking(design: type[Design], importances: Mapping[str, Importance], level: float) -> Ranking | None:
    """Return the ranking if there are several factors on the same rows, and one at least can be ranked."""
    records = list(importances.values())
    alike = len({len(record.table) for record in records}) == 1
    has_importance = any(np.isfinite(record.importance_corrected) for record in records)
    if len(records) < 2 or not alike or not has_importance:
        return None
    return rank_factors(importances, design.compared, level=level)


SMALLEST_DISTANCE: Final = 0.05
"""A corrected importance nearer to 0 than this is not distinguished from it by an affordable number of runs."""
MOST_TIMES: Final = 10
"""At most so many times the rows, or cells, that there are is advised."""
_MORE: Final = 1.25
_MORE_ROWS: Final = 5
"""Fewer rows than this many times those there are, or than so many more, change no verdict that luck does not."""
_HARDLY: Final = "more runs will change little of what you do."
_SETTLE: Final = f"settle it with {100 * POWERS[0]:.0f} % probability"
_RADIAL: Final = "radial"


def advise(design: type[Design], record: Importance, verdict: Verdict) -> Advice:
    """Return what settles the verdict on a factor, if it is as far from 0 as it seems; all reports use it."""
    if verdict.is_decided:
        return Advice()
    word, planned = design.words.row, len(record.table)
    if verdict.doubt in ("few_rows", "boundary"):
        rows = fewest_rows(record) if verdict.doubt == "few_rows" else FEWEST_AT_BOUNDARY
        rows = max(rows, rows + planned - record.rows_used)  # as many fail again
        return Advice("more_rows", f"Use at least {rows} {word} (mitigation_runs={rows}).", rows)
    if verdict.doubt == "L3D009":
        return Advice("other_design", "Use joint=paired.")
    if verdict.doubt == "lost_level":
        return Advice("look_at_runs", "Mend the runs of the level without a score, or leave it out of the list.")
    if verdict.doubt == "no_effect":
        return Advice("look_at_runs", "Does this seed reach the training? self_test=only shows it.")
    if verdict.doubt == "L3D010":
        text = "Compare the predictions of the equal rows or columns."
        return Advice("look_at_runs", f"{text} If they differ, there are few test examples: raise test_size.")
    if not verdict.needs_runs:
        return Advice("look_at_runs", "Look at the lowest and highest runs: more runs of the same kind do not help.")
    if verdict.doubt == "no_interval":
        columns = max(design.model.least_columns, 3) if design.has_columns and not design.lists else 2
        if record.rows_used < 3 or with_scores(record.table).shape[1] < columns:
            of = f" of {columns} columns" if design.has_columns else ""
            rows = max(planned, fewest_rows(record))
            text = f"Use at least {rows} {word}{of} with a score."
            if design.has_columns and columns > record.table.shape[1]:
                return Advice("larger_table", text, rows, columns)
            return Advice("more_rows", text, max(rows, planned + 1))
        return Advice("look_at_runs", "Compare the predictions of runs that differ in this factor only.")
    return _more_runs(design, record)


def _allowed(advice: Advice, plan: Planned, word: str) -> Advice:
    """Return the advice, or why its rows are refused under the mitigation strategies of the plan."""
    if (advice.rows or 0) > plan.distinct_rows:
        have = f"The mitigation strategies have only {plan.distinct_rows:g} different {word}"
        return Advice("look_at_runs", f"{have}: give them more configurations.")
    if advice.rows and advice.action == "other_design" and plan.mitigated:
        return Advice("unaffordable", f"More {word} under these mitigation strategies do not settle it: {_HARDLY}")
    return advice


def _more_runs(design: type[Design], record: Importance) -> Advice:
    components = record.components
    distance = abs(record.importance_corrected)
    word = design.words.row
    if components is None or design.planning is None:
        return Advice("unknown", "How many runs settle it is not known for this design.")
    low, high = record.corrected_interval
    if not distance >= SMALLEST_DISTANCE:
        return Advice("unaffordable", f"Its share is close to one half: {_HARDLY}")
    if 50 in (round(100 * total_index_of(low)), round(100 * total_index_of(high))):
        return Advice("unaffordable", f"Its interval ends close to one half: {_HARDLY}")
    rows, columns = record.table.shape
    least = max(math.ceil(_MORE * rows), rows + _MORE_ROWS, fewest_rows(record))
    if not components.mitigated > 0:
        double = max(FEWEST_AT_BOUNDARY, 2 * rows)
        text = f"The other factors show no variance in these {rows} {word}: use {double} (mitigation_runs={double})."
        return Advice("more_rows", text, double)
    half_of_interval = distance + (high if record.importance_corrected < 0 else -low)
    # This interval may be wider than one expects of as many runs; so would be those of more.
    half_width = min(distance, distance / half_of_interval * design.half_width(components, rows=rows, columns=columns))
    # With all of the distance half of the intervals contain 0, as the estimate is as often nearer to it as farther.
    quantile, luck = map(NormalDist().inv_cdf, ((1 + record.level) / 2, POWERS[0]))
    half_width *= quantile / (quantile + luck)
    of = f" of {columns} columns" if design.has_columns else ""
    right = f"If the true share is near {100 * total_index_of(record.importance_corrected):.0f} %, about"
    if (same := design.needed(half_width, components, columns).rows) is not None and same <= MOST_TIMES * rows:
        same = max(same, least)
        return Advice("more_rows", f"{right} {same} {word}{of} {_SETTLE} (mitigation_runs={same}).", same)
    needed = design.needed(half_width, components)
    if needed.rows is not None and design.has_columns and (needed.cells or 0) <= MOST_TIMES * rows * columns:
        most = max(needed.rows, fewest_rows(record), least * (needed.columns == columns))
        size = f"{most} {word} of {needed.columns} columns"
        settings = f"mitigation_runs={most}, investigation_runs={needed.columns}"
        text = f"{right} {size} {_SETTLE} ({settings}); more {word} alone do not."
        return Advice("larger_table", text, most, needed.columns)
    pairs = design_named(_RADIAL).needed(half_width, components).rows if design.name != _RADIAL else None
    if pairs is not None and pairs <= MOST_TIMES * rows * columns:
        pairs = max(pairs, FEWEST_ROWS)
        text = f"{right} {pairs} base runs of design=radial {_SETTLE} (mitigation_runs={pairs}); this design does not."
        return Advice("other_design", text, pairs)
    return Advice("unaffordable", f"Settling it takes more than {MOST_TIMES} times these {rows} {word}{of}: {_HARDLY}")

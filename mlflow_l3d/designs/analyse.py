"""From the cells of one investigation to everything that is reported about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.results import Consistency
from mlflow_l3d.analysis.importance.checks import all_checks, in_order
from mlflow_l3d.analysis.importance.checks.evidence import Evidence, PlanFacts
from mlflow_l3d.analysis.importance.checks.tables import disagreement
from mlflow_l3d.analysis.importance.multiplicity import Ranking, rank_factors
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.shape import Collapse, apart, collapsed, guessing_runs
from mlflow_l3d.analysis.importance.tables import Tables, factors_in, uncollapsed
from mlflow_l3d.analysis.importance.verdicts import joint_level, verdict_of
from mlflow_l3d.analysis.intervals import LEVEL, check_level
from mlflow_l3d.analysis.planning.stopping import IntervalRule
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.cells.factors import REPLICATE
from mlflow_l3d.designs import Design, design_of
from mlflow_l3d.designs.advice import advise
from mlflow_l3d.designs.base import Sizes
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import as_metric
from mlflow_l3d.metrics.numerical import unparsed_reasons


@dataclass(frozen=True)
class Planned(Sizes, PlanFacts):
    """The known parts of the plan behind some cells; None if only the cells tell.

    Attributes in addition to those of :class:`mlflow_l3d.designs.base.Sizes` and of
    :class:`mlflow_l3d.analysis.importance.checks.evidence.PlanFacts`:

    Attributes
    ----------
    design
        Class of the design; None means what the phases of the cells tell.
    factors
        The investigated factors in the order to report; None means all that are found.
    sequential
        Whether a rule looked at the intervals while the investigation ran (``stop=interval``).
    """

    design: type[Design] | None = None
    factors: Sequence[str] | None = None
    sequential: bool = False

    def design_of(self, cells: pd.DataFrame) -> type[Design]:
        """Return the design: that of the plan, else what the cells tell."""
        return self.design or design_of(cells)

    def select(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the cells of the plan in the order in which votes are counted.

        Cells that were under way when a stopping rule said stop lie beyond the plan.
        """
        design = self.design_of(cells)
        inside = pd.Series(True, index=cells.index)
        rows = None if design.baseline else self.rows
        for name, count in (("row", rows), ("index", None if self.pooled else self.golden_runs)):
            if count is not None and name in cells:
                inside &= ~(pd.to_numeric(cells[name]) >= count).fillna(value=False).astype(bool)
        factors = list(cells["factor"].dropna().unique()) if self.factors is None else self.factors
        return design.order(cells[inside], factors)

    def tables(self, cells: pd.DataFrame, metric: str) -> Tables:
        """Return the tables of scores; errors as :func:`analyse`."""
        design = self.design_of(cells)
        factors = factors_in(cells, design.phases) if self.factors is None else self.factors
        return design.tables(cells, metric, factors, self)


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
        :class:`mlflow_l3d.analysis.consistency.consistency.Stability`.
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
    least, most = metric.range
    # Of few golden runs the interval has ends that no scores within the range can have.
    importances = {
        name: replace(record, golden_std_ci_high=min(record.golden_std_ci_high, (most - least) / 2))
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
    advice = {name: advise(design, importances[name], verdict) for name, verdict in verdicts.items()}
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

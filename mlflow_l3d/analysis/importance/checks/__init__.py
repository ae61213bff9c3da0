"""All checks of an investigation, and which of them silence others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

from mlflow_l3d.analysis.importance.checks import runs, tables
from mlflow_l3d.analysis.importance.checks.evidence import Evidence, FactorCheck, WholeCheck
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.cells.factors import REPLICATE

WHOLE_CHECKS: Final[tuple[WholeCheck, ...]] = (
    runs.searched_split,
    runs.repeated_cells,
    runs.pooled_golden_runs,
    runs.missing_golden_runs,
    partial(runs.constant_scores, None),
    partial(runs.collapsed_runs, None),
    runs.golden_tails,
    tables.joint_product,
    runs.rare_classes,
)
"""Checks of the whole investigation."""
TABLE_CHECKS: Final[tuple[FactorCheck, ...]] = (
    runs.row_tails,
    runs.missing_cells,
    runs.constant_scores,
    runs.collapsed_runs,
    runs.selected_cells,
    tables.duplicated_lines,
    tables.uneven_spread,
    tables.no_score_changes,
    tables.total_variances_differ,
    tables.golden_runs_vary_more,
    tables.few_runs,
)
"""Checks of a factor that has a table of rows and columns."""
PAIR_CHECKS: Final[tuple[FactorCheck, ...]] = (
    runs.selected_cells,
    runs.row_tails,
    runs.missing_cells,
    runs.constant_scores,
    runs.collapsed_runs,
    tables.no_score_changes,
    tables.few_runs,
)
"""Checks of a factor that has pairs of runs, which are golden runs themselves."""
BASELINE_CHECKS: Final[tuple[FactorCheck, ...]] = (runs.missing_runs, runs.constant_scores, runs.collapsed_runs)
"""Checks of a factor under a baseline strategy."""


_OF_GOLDEN_RUNS: Final = ("L3D003", "L3D004", "L3D005")
_OF_REPEATED_CELLS: Final = ("L3D007", "L3D010")


def _is_silent(check: Check, evidence: Evidence, spoken: Collection[str]) -> bool:
    """Return whether a check is not reported, by the codes of the checks of the whole investigation that speak."""
    if check.factor is None:
        # Pooled cells are not golden runs: nothing is said of their number and shape.
        is_pooled = "L3D008" in spoken and check.code in (*_OF_GOLDEN_RUNS, "L3D013")
        # Golden runs that are in the tables are checked for each factor.
        is_in_tables = evidence.tables_are_golden and bool(evidence.importances)
        return is_pooled or (is_in_tables and check.code in _OF_GOLDEN_RUNS)
    if check.code == "L3D013":
        # The shape of all runs includes that of the rows.
        return "L3D013" in spoken and "L3D008" not in spoken
    # Repeated cells do not reuse a seed, and need no interval.
    repeats = check.factor == REPLICATE and evidence.importances[REPLICATE].contributed_std == 0
    return repeats and check.code in _OF_REPEATED_CELLS


def all_checks(evidence: Evidence, factor_checks: Sequence[FactorCheck] = TABLE_CHECKS) -> tuple[Check, ...]:
    """Return every check that fires, warnings first, then by number and factor."""
    checks = [check for find_checks in WHOLE_CHECKS for check in find_checks(evidence)]
    spoken = {check.code for check in checks if check.factor is None}
    for record in evidence.importances.values():
        checks += (check for find_checks in factor_checks for check in find_checks(record, evidence))
    return in_order(check for check in checks if not _is_silent(check, evidence, spoken))


def in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks as they are reported: warnings first, then by number."""
    return tuple(sorted(checks, key=lambda check: (check.severity != "warning", check.code)))

"""All checks of an investigation, and which of them silence others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from mlflow_l3d.analysis.importance.checks import golden, scores, searched, shape, tables
from mlflow_l3d.analysis.importance.checks.evidence import Evidence, FactorCheck, WholeCheck
from mlflow_l3d.analysis.importance.checks.failures import selected_pairs
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.plan.factors import REPLICATE

WHOLE_CHECKS: Final[tuple[WholeCheck, ...]] = (
    searched.searched_split,
    searched.repeated_cells,
    golden.pooled_golden_runs,
    golden.missing_golden_runs,
    golden.constant_golden_scores,
    golden.collapsed_golden_runs,
    shape.golden_tails,
    tables.joint_product,
)
"""Checks of the whole investigation."""
TABLE_CHECKS: Final[tuple[FactorCheck, ...]] = (
    shape.row_tails,
    tables.missing_cells,
    scores.constant_scores,
    scores.collapsed_cells,
    tables.selected_cells,
    tables.duplicated_lines,
    tables.uneven_spread,
    tables.no_score_changes_in_few_rows,
    tables.total_variances_differ,
    tables.few_runs,
)
"""Checks of a factor that has a table of rows and columns."""
PAIR_CHECKS: Final[tuple[FactorCheck, ...]] = (
    selected_pairs,
    shape.row_tails,
    tables.missing_cells,
    scores.constant_scores,
    scores.collapsed_cells,
    tables.no_score_changes,
    tables.few_runs,
)
"""Checks of a factor that has pairs of runs, which are golden runs themselves."""
BASELINE_CHECKS: Final[tuple[FactorCheck, ...]] = (
    tables.missing_runs,
    scores.constant_scores,
    scores.collapsed_cells,
)
"""Checks of a factor under a baseline strategy."""


class Silence(NamedTuple):
    """One reason for which some checks are not reported.

    Attributes
    ----------
    speaks
        Whether the reason holds, by the evidence and the checks that are not silent so far.
    codes
        The checks that it silences.
    concerns
        Whether it silences a check of a factor; None is the whole investigation.
    """

    speaks: Callable[[Evidence, Sequence[Check]], bool]
    codes: frozenset[str]
    concerns: Callable[[str | None], bool]


def _whole_check(code: str) -> Callable[[Evidence, Sequence[Check]], bool]:
    """Return whether a check of the whole investigation speaks."""
    return lambda _, checks: any(check.code == code and check.factor is None for check in checks)


def _tables_are_golden(evidence: Evidence, _: Sequence[Check]) -> bool:
    return evidence.tables_are_golden and bool(evidence.importances)


def _cells_repeat(evidence: Evidence, _: Sequence[Check]) -> bool:
    return REPLICATE in evidence.importances and evidence.importances[REPLICATE].contributed_std == 0


def _is_whole(factor: str | None) -> bool:
    return factor is None


def _is_factor(factor: str | None) -> bool:
    return factor is not None


SILENCES: Final = (
    # Pooled cells are no golden runs: nothing is said of their number and shape, and they cannot show a leak.
    Silence(_whole_check("L3D008"), frozenset({"L3D003", "L3D004", "L3D005", "L3D013"}), _is_whole),
    Silence(_whole_check("L3D008"), frozenset({"L3D006"}), _is_factor),
    # Of runs that stand in the tables the checks of each factor speak.
    Silence(_tables_are_golden, frozenset({"L3D003", "L3D004", "L3D005"}), _is_whole),
    # The shape of all runs includes that of the rows.
    Silence(_whole_check("L3D013"), frozenset({"L3D013"}), _is_factor),
    # Cells that repeat are no seed that was used twice, and need no interval.
    Silence(_cells_repeat, frozenset({"L3D007", "L3D010"}), lambda factor: factor == REPLICATE),
)
"""Which check silences which, in the order in which the reasons are looked at."""


def all_checks(evidence: Evidence, factor_checks: Sequence[FactorCheck] = TABLE_CHECKS) -> tuple[Check, ...]:
    """Return every check that fires, warnings first, then by number and factor."""
    checks = [each for check in WHOLE_CHECKS for each in check(evidence)]
    for record in evidence.importances.values():
        checks += (each for check in factor_checks for each in check(record, evidence))
    for silence in SILENCES:
        if silence.speaks(evidence, checks):
            checks = [each for each in checks if each.code not in silence.codes or not silence.concerns(each.factor)]
    return in_order(checks)


def in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks as they are reported: warnings first, then by number."""
    return tuple(sorted(checks, key=lambda check: (check.severity != "warning", check.code)))

"""All checks of an investigation, and which of them silence others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from mlflow_l3d.analysis.importance.checks import cells, scores, tables
from mlflow_l3d.analysis.importance.checks.evidence import Evidence, FactorCheck, WholeCheck
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.cells.factors import REPLICATE

WHOLE_CHECKS: Final[tuple[WholeCheck, ...]] = (
    cells.searched_split,
    cells.repeated_cells,
    scores.pooled_golden_runs,
    scores.missing_golden_runs,
    scores.constant_golden_scores,
    scores.collapsed_golden_runs,
    scores.golden_tails,
    tables.joint_product,
    scores.rare_classes,
)
"""Checks of the whole investigation."""
TABLE_CHECKS: Final[tuple[FactorCheck, ...]] = (
    scores.row_tails,
    cells.missing_cells,
    scores.constant_scores,
    scores.collapsed_cells,
    cells.selected_cells,
    tables.duplicated_lines,
    tables.uneven_spread,
    tables.no_score_changes_in_few_rows,
    tables.total_variances_differ,
    tables.golden_runs_vary_more,
    tables.few_runs,
)
"""Checks of a factor that has a table of rows and columns."""
PAIR_CHECKS: Final[tuple[FactorCheck, ...]] = (
    cells.selected_pairs,
    scores.row_tails,
    cells.missing_cells,
    scores.constant_scores,
    scores.collapsed_cells,
    tables.no_score_changes,
    tables.few_runs,
)
"""Checks of a factor that has pairs of runs, which are golden runs themselves."""
BASELINE_CHECKS: Final[tuple[FactorCheck, ...]] = (cells.missing_runs, scores.constant_scores, scores.collapsed_cells)
"""Checks of a factor under a baseline strategy."""


INVESTIGATION: Final = "the whole investigation"
FACTORS: Final = "every factor"


class Silence(NamedTuple):
    """One reason for which some checks are not reported.

    Attributes
    ----------
    reason
        The code of a check of the whole investigation that speaks, or a condition.
    codes
        The checks that are silent then.
    of
        Whose checks these are: :data:`INVESTIGATION`, :data:`FACTORS` or the name of a factor.
    """

    reason: str | Callable[[Evidence], bool]
    codes: tuple[str, ...]
    of: str

    def holds(self, evidence: Evidence, checks: Sequence[Check]) -> bool:
        """Return whether the reason holds, by the checks that are not silent so far."""
        if callable(self.reason):
            return self.reason(evidence)
        return any(check.code == self.reason and check.factor is None for check in checks)

    def silences(self, check: Check) -> bool:
        """Return whether it is about a check."""
        whose = INVESTIGATION if check.factor is None else FACTORS
        return check.code in self.codes and self.of in (whose, check.factor)


def _cells_repeat(evidence: Evidence) -> bool:
    record = evidence.importances.get(REPLICATE)
    return record is not None and record.contributed_std == 0


SILENCES: Final = (
    # Pooled cells are not golden runs: nothing is said of their number and shape.
    Silence("L3D008", ("L3D003", "L3D004", "L3D005", "L3D013"), INVESTIGATION),
    # Of golden runs that stand in the tables the checks of each factor speak.
    Silence(
        lambda each: each.tables_are_golden and bool(each.importances), ("L3D003", "L3D004", "L3D005"), INVESTIGATION
    ),
    # The shape of all runs includes that of the rows.
    Silence("L3D013", ("L3D013",), FACTORS),
    # Repeated cells do not reuse a seed, and need no interval.
    Silence(_cells_repeat, ("L3D007", "L3D010"), REPLICATE),
)
"""Which check silences which, in the order in which the reasons are looked at."""


def all_checks(evidence: Evidence, factor_checks: Sequence[FactorCheck] = TABLE_CHECKS) -> tuple[Check, ...]:
    """Return every check that fires, warnings first, then by number and factor."""
    checks = [check for find_checks in WHOLE_CHECKS for check in find_checks(evidence)]
    for record in evidence.importances.values():
        checks += (check for find_checks in factor_checks for check in find_checks(record, evidence))
    for silence in SILENCES:
        if silence.holds(evidence, checks):
            checks = [check for check in checks if not silence.silences(check)]
    return in_order(checks)


def in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks as they are reported: warnings first, then by number."""
    return tuple(sorted(checks, key=lambda check: (check.severity != "warning", check.code)))

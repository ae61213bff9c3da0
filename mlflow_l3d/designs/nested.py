"""The nested design: fresh columns for every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlflow_l3d.analysis.importance.estimators import NESTED
from mlflow_l3d.cells.factors import GOLDEN_BASE, MITIGATION_BASE, NESTED_BASE, NESTED_COLUMNS, RADIAL_BASE
from mlflow_l3d.designs import words
from mlflow_l3d.designs.crossed import TableDesign
from mlflow_l3d.designs.layout import check_number


@dataclass(frozen=True)
class NestedDesign(TableDesign):
    """N configurations of the investigated factor under each of M rows, none of them under two rows.

    Rows are then independent, so that an interval needs nothing but rows. Rows put the mitigated factors where the
    crossed design has them. N is 1,000 at most, and `golden_runs` may be 0.
    """

    name = "nested"
    words = words.NESTED
    model = planning = NESTED
    repeats = True
    stops = ("interval", "epsilon")

    def check_runs(self) -> None:
        """Raise ParameterError where configurations would repeat."""
        check_number("investigation_runs", self.investigation_runs, 1, NESTED_COLUMNS)
        check_number("mitigation_runs", self.mitigation_runs, 1, GOLDEN_BASE - MITIGATION_BASE)
        check_number("golden_runs", self.golden_runs, 0, RADIAL_BASE - GOLDEN_BASE)

    def configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:
        """Return a column of the members that is the row's own, and row `row` of all others."""
        of_members = dict.fromkeys(members, NESTED_BASE + row * NESTED_COLUMNS + column)
        return of_members | self.mitigated(members, row, MITIGATION_BASE)

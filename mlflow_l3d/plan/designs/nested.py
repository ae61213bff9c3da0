"""The nested design: fresh columns for every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlflow_l3d.plan.designs.base import TableDesign, check_number
from mlflow_l3d.plan.factors import GOLDEN_BASE, MITIGATION_BASE, NESTED_BASE, NESTED_COLUMNS, RADIAL_BASE


@dataclass(frozen=True, slots=True)
class NestedDesign(TableDesign):
    """N configurations of the investigated factor under each of M rows, none of them under two rows.

    Rows are then independent, so that an interval needs nothing but rows. Rows put the mitigated factors where the
    crossed design has them. Attributes as in :class:`mlflow_l3d.plan.designs.base.TableDesign`; N is 1,000 at most,
    and `golden_runs` may be 0.
    """

    def _check_runs(self) -> None:
        check_number("investigation_runs", self.investigation_runs, 1, NESTED_COLUMNS)
        check_number("mitigation_runs", self.mitigation_runs, 1, GOLDEN_BASE - MITIGATION_BASE)
        check_number("golden_runs", self.golden_runs, 0, RADIAL_BASE - GOLDEN_BASE)

    def _configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:
        own = dict.fromkeys(members, NESTED_BASE + row * NESTED_COLUMNS + column)
        return own | self._mitigated(members, row, MITIGATION_BASE)

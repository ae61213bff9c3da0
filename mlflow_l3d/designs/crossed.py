"""The published crossed design with its golden runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlflow_l3d.analysis.importance.models import CROSSED, TableModel
from mlflow_l3d.cells.factors import INVESTIGATION_BASE, MITIGATION_BASE
from mlflow_l3d.designs.configurations import JOINT, distinct_rows, factor_members, product_configurations
from mlflow_l3d.designs.table import TableDesign
from mlflow_l3d.errors import ParameterError


@dataclass(frozen=True)
class CrossedDesign(TableDesign):
    """The published design (Pecher et al. 2024, Algorithm 1): N columns under each of M rows, and L golden runs.

    A row puts the mitigated factors at the same configurations in every table, so that factors can be compared on
    shared rows. With `product` the columns of a joint factor are the cross product of its members' configurations (the
    paper's B.1) instead of pairs: N = b^k columns hold every combination of b configurations of k members; other N hold
    the first N of a fixed order. Columns then share configurations, so they are no longer independent draws, and an
    interval that takes them for such is too narrow.
    """

    name = "crossed"
    model = CROSSED
    planning: ClassVar[TableModel | None] = CROSSED
    products = repeats = True
    stops: ClassVar[tuple[str, ...]] = ("interval", "epsilon")

    def check_runs(self) -> None:
        """Raise ParameterError where rows would repeat."""
        for factor in self.factors:
            members = factor_members(factor, self.all_factors)
            if len(members) == 1 and not self.mitigation:
                continue
            mitigated = [name for name in self.all_factors if name not in members]
            rows = distinct_rows(self.mitigation, mitigated)
            if self.mitigation_runs > rows:
                allowed = f"the factors mitigated for {factor} have {rows:g} combination(s), so rows would repeat"
                raise ParameterError("mitigation_runs", self.mitigation_runs, allowed, f"Use {rows:g} at most.")
        if self.product and not any(JOINT in factor for factor in self.factors):
            raise ParameterError("joint", "product", "has no effect without joint factors", "Use factor=a+b.")

    def configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:
        """Return column `column` of the members, and row `row` of all others."""
        columns = product_configurations(column, len(members)) if self.product else [column] * len(members)
        of_members = {name: INVESTIGATION_BASE + number for name, number in zip(members, columns, strict=True)}
        return of_members | self.mitigated(members, row, MITIGATION_BASE)

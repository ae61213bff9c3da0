"""The conformance check of designs: ours pass, a wrong one is told what is wrong."""

from __future__ import annotations

import pytest

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.designs import all_designs
from mlflow_l3d.designs.nested import NestedDesign
from mlflow_l3d.testing import check_design


@pytest.mark.parametrize(
    "name",
    [name if name in ("crossed", "radial") else pytest.param(name, marks=pytest.mark.slow) for name in all_designs()],
)
def test_ours_pass(name: str) -> None:
    check_design(all_designs()[name])


def test_what_is_wrong_is_said() -> None:
    class Twice(NestedDesign):
        def configurations(self, members: object, row: int, column: int) -> dict[str, int]:
            return dict.fromkeys(self.all_factors, row)

    class NoSteps(NestedDesign):
        def step_of(self, cell: Cell) -> int:
            return 0 if cell.phase == "golden" else int(cell.row or 0)

    for wrong, message in ((Twice, "the same configurations"), (NoSteps, "step by step")):
        with pytest.raises(AssertionError, match=message):
            check_design(wrong)

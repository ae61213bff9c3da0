"""The baseline strategies that the published score is compared with (Pecher et al. 2024, Tables 1 and 5).

Both spend N x M runs a factor, as the crossed design does, and have one row of N x M columns; N and M say only how the
runs are cut into steps. Both share the golden runs of the other designs: they estimate the same spread for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.plan.designs.base import TableDesign, check_number
from mlflow_l3d.plan.factors import GOLDEN_BASE, INVESTIGATION_BASE, MITIGATION_BASE, RADIAL_BASE, RANDOM_BASE


@dataclass(frozen=True, slots=True)
class _Strategy(TableDesign):
    """One row of N x M columns."""

    def _check_runs(self) -> None:
        check_number("investigation_runs", self.investigation_runs, 1, MITIGATION_BASE)
        check_number("mitigation_runs", self.mitigation_runs, 1, MITIGATION_BASE)
        check_number("golden_runs", self.golden_runs, 0, RADIAL_BASE - GOLDEN_BASE)
        runs = self.investigation_runs * self.mitigation_runs
        if runs > MITIGATION_BASE:
            allowed = f"investigation_runs x mitigation_runs is {runs}, {MITIGATION_BASE} at most in a strategy"
            raise ParameterError("mitigation_runs", self.mitigation_runs, allowed, "Use fewer runs.")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table of one factor: one row."""
        return 1, self.mitigation_runs * self.investigation_runs

    def _place(self, step: int, number: int) -> tuple[int, int]:
        return 0, step * self.investigation_runs + number

    def _step_at(self, row: int, column: int) -> int:  # noqa: ARG002
        return column // self.investigation_runs


@dataclass(frozen=True, slots=True)
class RandomDesign(_Strategy):
    """Strategy `random`: every factor varies in each run. Attributes as in ``TableDesign``.

    Runs are drawn as golden runs are, yet they are never golden runs: a spread divided by itself is 1 and tells
    nothing. Run j has the configurations of its own number in the tables of all factors, so that factors are compared
    on common draws; the investigated factor's own are the columns of the other designs.
    """

    def _configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:  # noqa: ARG002
        own = dict.fromkeys(members, INVESTIGATION_BASE + column)
        return own | self._mitigated(members, column, RANDOM_BASE)


@dataclass(frozen=True, slots=True)
class FixedDesign(_Strategy):
    """Strategy `fixed`: only the investigated factor varies. Attributes as in ``TableDesign``.

    The others stay where row 0 of the crossed design has them, so that its first N cells are that row's and are not
    computed again. That is right: row 0 is as good a draw of the others as any, and neither estimate uses the other;
    they are only not independent of each other.
    """

    def _configurations(self, members: Sequence[str], row: int, column: int) -> Mapping[str, int]:  # noqa: ARG002
        own = dict.fromkeys(members, INVESTIGATION_BASE + column)
        return own | self._mitigated(members, 0, MITIGATION_BASE)

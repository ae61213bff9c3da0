"""Which runs of an investigation are compared with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from mlflow_l3d.errors import ParameterError, unknown_name

GOLDEN: Final = "golden"
BASE: Final = "base"


class Group(NamedTuple):
    """A group of runs that are compared with each other.

    Attributes
    ----------
    table
        The factor whose record it belongs to, or ``golden``.
    member
        Which group of that record: a row (0 if there is only one), or a set of independent runs.
    """

    table: str
    member: int | str


@dataclass
class Comparable:
    """Groups of the runs of one investigation, which arrive in the order of its table.

    Here the runs of one row of a factor are compared, and all golden runs.

    Attributes
    ----------
    factors
        The investigated factors.
    shared_columns
        Whether every row has the same columns.
    """

    phases: ClassVar[tuple[str, ...]] = ("investigation",)
    """Of its runs, golden ones apart."""
    measures: ClassVar[bool] = True
    """Whether the disagreement within a group is what its factor alone causes."""
    pairs: ClassVar[bool] = False
    """Whether a group is a base run and its swap, and these serve as golden runs."""

    factors: Sequence[str]
    shared_columns: bool = False
    _open: list[Group] = field(default_factory=list, init=False)

    def groups(self, phase: str, factor: str | None, row: int | None) -> list[Group]:
        """Return the groups that a run belongs to: that of its factor first, then that of golden runs.

        Raises
        ------
        ParameterError
            If the design has no such phase, the factor is not investigated, or the row is missing.
        """
        if phase == GOLDEN:
            return [Group(GOLDEN, GOLDEN)]
        if phase not in self.phases:
            raise unknown_name("phase", phase, (*self.phases, GOLDEN))
        if phase != BASE and factor not in self.factors:
            raise unknown_name("factor", str(factor), self.factors)
        return self.of_run(phase, str(factor), row)

    def of_run(self, phase: str, factor: str, row: int | None) -> list[Group]:
        """Return the groups of a run that is not a golden run; parameters and errors as :meth:`groups`."""
        return [Group(factor, known_row(phase, row))]

    def finished(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups that are finished when a run arrives that belongs to `groups`.

        Golden runs, and the sets that stand for them, are never finished.
        """
        finished = [group for group in self._open if self.is_over(group, groups)]
        new = [group for group in groups if group.table != GOLDEN and group not in self._open]
        self._open = [*(group for group in self._open if group not in finished), *new]
        return finished

    def is_over(self, group: Group, groups: Sequence[Group]) -> bool:
        """Return whether a group gets no more runs once one arrives that belongs to `groups`."""
        return group not in groups


class WholeTables(Comparable):
    """All runs of a factor are compared, and all golden runs; no factor varies alone for certain."""

    measures = False

    def of_run(self, phase: str, factor: str, row: int | None) -> list[Group]:  # noqa: ARG002
        """Return the group of the factor."""
        return [Group(factor, 0)]


class EveryLevel(Comparable):
    """The runs of one row of a factor are compared, which never have the same level, as two golden runs may."""

    measures = False


class Pairs(Comparable):
    """Base run i is compared with swap i, for each factor.

    As golden runs the sets of independent runs are compared, which are all base runs, and all swaps of each factor.
    """

    phases = (BASE, "swap")
    pairs = True

    def of_run(self, phase: str, factor: str, row: int | None) -> list[Group]:
        """Return the pairs of a run, then its set of independent runs."""
        number = known_row(phase, row)
        if phase == BASE:
            return [*(Group(name, number) for name in self.factors), Group(GOLDEN, BASE)]
        # A swap set is told from the base set by a name that no factor can have.
        return [Group(factor, number), Group(GOLDEN, f"swap {factor}")]

    def is_over(self, group: Group, groups: Sequence[Group]) -> bool:
        """Return whether the row is over: the swaps of other factors are still to come."""
        return group.member != groups[0].member


def known_row(phase: str, row: int | None) -> int:
    """Return the row of a run, which must have one."""
    if row is None:
        raise ParameterError("row", row, f"must be a whole number in a run of phase {phase}")
    return int(row)

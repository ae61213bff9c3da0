"""Which runs of an investigation are compared with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from mlflow_l3d.errors import ParameterError, check_known, unknown_name

GOLDEN: Final = "golden"
BASE: Final = "base"
Grouping: TypeAlias = Literal["rows", "levels", "tables", "pairs"]


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
    """Groups of the runs of one investigation, which arrive in the order of its table; all golden runs are one.

    Attributes
    ----------
    factors
        The investigated factors.
    grouping
        What else is compared. ``rows``: the runs of one row of a factor. ``levels``: the same, but these never have the
        same level, as two golden runs may. ``tables``: all runs of a factor, in which other factors may vary, too.
        ``pairs``: base run i with swap i, for each factor; as golden runs the sets of independent runs, which are all
        base runs, and all swaps of each factor.
    shared_columns
        Whether every row has the same columns.
    """

    factors: Sequence[str]
    grouping: Grouping = "rows"
    shared_columns: bool = False
    _open: list[Group] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        check_known("compares", [self.grouping], get_args(Grouping))

    @property
    def pairs(self) -> bool:
        """Whether a group is a base run and its swap, and these serve as golden runs."""
        return self.grouping == "pairs"

    def groups(self, phase: str, factor: str | None, row: int | None) -> list[Group]:
        """Return the groups that a run belongs to: that of its factor first, then that of golden runs.

        Raises
        ------
        ParameterError
            If the design has no such phase, the factor is not investigated, or the row is missing.
        """
        if phase == GOLDEN:
            return [Group(GOLDEN, GOLDEN)]
        phases = (BASE, "swap") if self.pairs else ("investigation",)
        if phase not in phases:
            raise unknown_name("phase", phase, (*phases, GOLDEN))
        if phase != BASE and factor not in self.factors:
            raise unknown_name("factor", str(factor), self.factors)
        if self.grouping == "tables":
            return [Group(str(factor), 0)]
        if row is None:
            raise ParameterError("row", row, f"must be a whole number in a run of phase {phase}")
        if phase == BASE:
            return [*(Group(name, int(row)) for name in self.factors), Group(GOLDEN, BASE)]
        # Its name, which no factor can have, distinguishes a swap set from the base set.
        return [Group(str(factor), int(row)), *([Group(GOLDEN, f"swap {factor}")] if self.pairs else [])]

    def finished(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups that are finished when a run arrives that belongs to `groups`.

        Golden runs, and the sets that stand for them, are never finished. A row of pairs is over with its last swap.
        """
        finished = [group for group in self._open if group not in groups]
        if self.pairs:
            finished = [group for group in finished if group.member != groups[0].member]
        new = [group for group in groups if group.table != GOLDEN and group not in self._open]
        self._open = [*(group for group in self._open if group not in finished), *new]
        return finished

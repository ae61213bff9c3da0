"""Which runs of an investigation are compared with each other, in every layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mlflow_l3d.analysis.importance.variances import Layout
from mlflow_l3d.errors import ParameterError, unknown_name

GOLDEN: Final = "golden"
BASE: Final = "base"
_STRATEGIES: Final = ("random", "fixed")


class Group(NamedTuple):
    """A group of runs that are compared with each other.

    Attributes
    ----------
    table
        The factor whose record it belongs to, or ``golden``.
    member
        Which group of that record: a row (0 where there is only one), or a set of independent runs.
    """

    table: str
    member: int | str


class Comparable:
    """Groups of the runs of one investigation, which arrive in the order of its table.

    - ``crossed``, ``nested``: the runs of one row of a factor; all golden runs.
    - ``random``, ``fixed``: all runs of a factor; all golden runs.
    - ``radial``: base run i with swap i, for each factor; as golden runs the sets of independent runs, which are all
      base runs, and all swaps of each factor.

    Parameters
    ----------
    design
        How the cells are laid out.
    factors
        The investigated factors.
    """

    def __init__(self, design: Layout, factors: Sequence[str]) -> None:
        self.design = design
        self.factors = tuple(factors)
        self._open: list[Group] = []
        self._place: tuple[str | None, int | None] | None = None

    def groups(self, phase: str, factor: str | None, row: int | None) -> list[Group]:
        """Return the groups that a run belongs to: that of its factor first, then that of golden runs.

        Raises
        ------
        ParameterError
            If the layout has no such phase, the factor is not investigated, or the row is missing.
        """
        if phase == GOLDEN:
            return [Group(GOLDEN, GOLDEN)]
        phases = ("base", "swap") if self.design == "radial" else ("investigation",)
        if phase not in phases:
            raise unknown_name("phase", phase, (*phases, GOLDEN))
        if phase != "base" and factor not in self.factors:
            raise unknown_name("factor", str(factor), self.factors)
        if self.design in _STRATEGIES:
            return [Group(str(factor), 0)]
        if row is None:
            raise ParameterError("row", row, f"must be a whole number in a run of phase {phase}")
        if phase == "base":
            return [*(Group(name, int(row)) for name in self.factors), Group(GOLDEN, BASE)]
        own = Group(str(factor), int(row))
        # A swap set is told from the base set by a name that no factor can have.
        return [own, Group(GOLDEN, f"swap {factor}")] if phase == "swap" else [own]

    def finished(self, phase: str, factor: str | None, row: int | None, groups: Sequence[Group]) -> list[Group]:
        """Return the groups that are finished when a run arrives that belongs to `groups`.

        Golden runs, and the sets that stand for them, are never finished.
        """
        place: tuple[str | None, int | None] = (factor, row)
        if phase == GOLDEN:
            place = (GOLDEN, None)
        elif self.design == "radial":
            place = (None, row)
        elif self.design in _STRATEGIES:
            place = (factor, None)
        finished: list[Group] = []
        if place != self._place:
            finished, self._open, self._place = self._open, [], place
        self._open += [group for group in groups if group.table != GOLDEN and group not in self._open]
        return finished

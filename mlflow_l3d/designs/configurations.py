"""Configurations of a cell: joint factors move together, and a mitigation strategy keeps a factor to a small set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mlflow_l3d.cells.factors import GOLDEN_BASE, MITIGATION_BASE
from mlflow_l3d.errors import ParameterError, unknown_name

JOINT: Final = "+"


def joint_name(members: Iterable[str], all_factors: Sequence[str]) -> str:
    """Return the one name of a set of known factors, its members in the order of `all_factors`.

    Raises
    ------
    ParameterError
        If a member is listed twice; the parameter is ``factor``.
    """
    listed = list(members)
    if len(set(listed)) < len(listed):
        raise ParameterError("factor", JOINT.join(listed), "joint factors must be different factors")
    return JOINT.join(name for name in all_factors if name in listed)


def factor_members(name: str, all_factors: Sequence[str]) -> tuple[str, ...]:
    """Return the factors that `name` joins, as :func:`joint_name` orders them; one for a factor alone.

    A factor of an approach may itself have ``+`` in its name; its whole name is looked for first.
    """
    return (name,) if name in all_factors else tuple(name.split(JOINT))


def product_configurations(column: int, members: int) -> tuple[int, ...]:
    """Return element `column` of the cross product of `members` sets of configurations 0, 1, 2, ...

    The order goes by the largest configuration in an element. The first ``b ** members`` elements are then the full
    product of the first b configurations of every member, for every b, and an element does not depend on how many
    columns there are.

    Parameters
    ----------
    column
        0-based number of the element.
    members
        Number of sets, at least 1.

    Returns
    -------
    tuple of int
        Length `members`.
    """
    largest = round(column ** (1 / members))
    largest -= largest**members > column
    rest = column - largest**members
    element: list[int] = []
    reached = False  # whether one of the configurations chosen so far is the largest; if none is, a later one must be
    for left in range(members - 1, -1, -1):
        each = (largest + 1) ** left
        if not reached:
            each -= largest**left
        chosen = min(rest // each, largest) if each else largest
        rest -= chosen * each
        reached = reached or chosen == largest
        element.append(chosen)
    return tuple(element)


Mitigation = Mapping[str, Sequence[int]]
"""Factor -> indices of its mitigation configurations."""


def check_mitigation(mitigation: Mitigation, all_factors: Sequence[str]) -> None:
    """Check the names and the indices.

    Raises
    ------
    ParameterError
        For a factor that the approach does not have, an empty set, an index outside [0, 1000000), or one twice.
    """
    most = GOLDEN_BASE - MITIGATION_BASE
    for name, indices in mitigation.items():
        if name not in all_factors:
            raise unknown_name("mitigation", name, all_factors)
        if not indices or len(set(indices)) < len(indices) or min(indices) < 0 or max(indices) >= most:
            text = f"{name}: {list(indices)}"
            raise ParameterError("mitigation", text, f"must be different configurations from 0 to {most - 1}")


def distinct_rows(mitigation: Mitigation, mitigated: Iterable[str]) -> float:
    """Return how many rows differ before the configurations of the `mitigated` factors repeat; inf if they never do."""
    return math.prod(len(mitigation[name]) if name in mitigation else math.inf for name in mitigated)


def mitigated_configurations(
    number: int, base: int, mitigated: Sequence[str], mitigation: Mitigation
) -> dict[str, int]:
    """Return the configuration of every mitigated factor in one row.

    Parameters
    ----------
    number
        0-based number of the row.
    base
        Where the configurations of factors without a reduced set begin.
    mitigated
        The factors, in the approach's order: the order of `mitigation` has no effect.
    mitigation
        The reduced sets.

    Notes
    -----
    Several reduced sets go through all their combinations before one repeats, and after any number of rows each set
    has been used evenly: row r takes element ``(r + r // lcm(P, k)) mod k`` of a set of k, where P counts the
    combinations of the sets before it and r is counted modulo ``P k``. Without the shift, two sets of one size would
    always move together.
    """
    configurations = {}
    before = 1
    for name in mitigated:
        if name not in mitigation:
            configurations[name] = base + number
            continue
        indices = mitigation[name]
        size = len(indices)
        turn = number % (before * size)
        configurations[name] = MITIGATION_BASE + indices[(turn + turn // math.lcm(before, size)) % size]
        before *= size
    return configurations

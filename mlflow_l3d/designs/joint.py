"""Joint factors: several factors investigated as one, their names joined with ``+`` (Pecher et al. 2024, B.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mlflow_l3d.errors import ParameterError, unknown_name

JOINT: Final = "+"


def joint_name(members: Iterable[str], all_factors: Sequence[str]) -> str:
    """Return the one name of a set of factors, its members in the order of `all_factors`.

    Raises
    ------
    ParameterError
        If there is no member, one is not in `all_factors`, or one stands there twice; the parameter is ``factor``.
    """
    listed = list(members)
    for member in listed:
        if member not in all_factors:
            raise unknown_name("factor", member, all_factors)
    if not listed or len(set(listed)) < len(listed):
        raise ParameterError("factor", JOINT.join(listed), "joint factors must be different factors, one at least")
    return JOINT.join(name for name in all_factors if name in listed)


def factor_members(name: str, all_factors: Sequence[str]) -> tuple[str, ...]:
    """Return the factors that `name` joins, as :func:`joint_name` orders them; one for a factor alone.

    A factor of an approach may itself have ``+`` in its name; its whole name is looked for first.

    Raises
    ------
    ParameterError
        As :func:`joint_name`.
    """
    if name in all_factors:
        return (name,)
    members = [member.strip() for member in name.split(JOINT)]
    joint_name(members, all_factors)
    return tuple(each for each in all_factors if each in members)


def check_factors(factors: Sequence[str], all_factors: Sequence[str]) -> None:
    """Check that every investigated factor is known, is written as :func:`joint_name` writes it, and occurs once.

    Raises
    ------
    ParameterError
        Which says what is wrong with which factor.
    """
    for position, name in enumerate(factors):
        members = factor_members(name, all_factors)
        canonical = name if name in all_factors else joint_name(members, all_factors)
        if name != canonical:
            raise ParameterError("factor", name, f"joint factors stand in the approach's order: {canonical}")
        if name in factors[:position]:
            raise ParameterError("factor", name, "is investigated twice", "Name every factor once.")


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

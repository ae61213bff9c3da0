"""Mitigation strategies: a mitigated factor keeps to a small set of configurations of its own.

Without one, row i puts every mitigated factor at mitigation configuration i. A set of one configuration fixes the
factor, a larger one is cycled over the rows. Indices count mitigation configurations from 0: index 0 is what row 0
has anyway, so that the cells of row 0 are the same with and without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from mlflow_l3d.cells.factors import GOLDEN_BASE, MITIGATION_BASE
from mlflow_l3d.errors import ParameterError, unknown_name

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

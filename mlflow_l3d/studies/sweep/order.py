"""The order of work: breadth first, so that an interrupted sweep has something for every point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

FIRST_STEPS: Final = 2
"""Steps of every point in the first round: a spread of row means needs two rows."""


def turns(steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (point, step): in each round all points in their order, up to twice as many steps as in the round before.

    The rounds end at 2, 4, 8, 16, ... steps (rows, as a rule) of every point that has so many. Wherever work ends, no
    point has more than twice the steps of another, one round's points apart.

    Parameters
    ----------
    steps
        How many steps each point has.
    """
    done, until = 0, FIRST_STEPS
    while done < max(steps, default=0):
        for point, own in enumerate(steps):
            yield from ((point, step) for step in range(min(done, own), min(until, own)))
        done, until = until, 2 * until

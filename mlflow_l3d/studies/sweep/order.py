"""The order of work: breadth first, so that an interrupted sweep has something for every point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

FIRST_STEPS: Final = 2
"""Steps of every point in the first round: a spread of row means needs two rows."""


def turns(steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (point, step): in each round all points in their order, up to twice as many steps as in the round before.

    The rounds end at 2, 4, 8, 16, ... steps (rows, as a rule). A point that would have a quarter more at most goes to
    its end at once: so are points of 5, 10 or 20 rows whole one after the other in the last round, and not all at the
    very end. Wherever work ends, no point has more than 2.5 times the steps of one that is not whole, but for the first
    round.

    Parameters
    ----------
    steps
        How many steps each point has.
    """
    done, until = [0] * len(steps), FIRST_STEPS
    while any(reached < whole for reached, whole in zip(done, steps, strict=True)):
        for point, whole in enumerate(steps):
            end = whole if whole <= 1.25 * until else until
            yield from ((point, step) for step in range(done[point], end))
            done[point] = end
        until *= 2

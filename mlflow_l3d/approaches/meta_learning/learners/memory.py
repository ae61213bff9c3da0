"""How many bytes of float32 a cell needs."""

from __future__ import annotations

from typing import Final

FLOAT: Final = 4


def layers(inputs: int, hidden: int, classes: int) -> int:
    """Return how many weights a cell has."""
    return (inputs + 1) * hidden + (hidden + 1) * classes


def bytes_of_weights(inputs: int, hidden: int, classes: int, meta_optimizer: str) -> float:
    """Return the bytes of a cell's weights, their gradient and the optimiser's state."""
    return float(FLOAT * layers(inputs, hidden, classes) * (4 if meta_optimizer == "adam" else 2))


def bytes_of_inner(inputs: int, hidden: int, classes: int, support: int, queries: int, steps: int) -> float:
    """Return the bytes of one task in a step whose inner loop is gradient descent.

    Parameters
    ----------
    inputs, hidden, classes
        Sizes D, H, C.
    support, queries
        Examples of a task; with queries there is a pass backwards, too.
    steps
        Of the inner loop.
    """
    examples, later = support + queries, int(steps > 1)
    known = examples * (inputs + 1 + hidden + classes)
    inner = support * ((steps + 2) * hidden + 3 * steps * classes) + later * support**2
    outer = queries * (2 * hidden + 3 * classes + support) + support * (1 + later) * hidden if queries else 0
    return float(FLOAT * (known + inner + outer + (steps + 2) * classes * hidden))

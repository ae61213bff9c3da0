"""Chunks: the cells that are trained together, how many they are, and what happens where one goes wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.threads import one_thread
from mlflow_l3d.plan.cells import Cell, Outcome

Drawn = TypeVar("Drawn")

CACHE: Final = 10 * 2**20
"""Bytes that the working set of a chunk may take on a CPU, in meta-learning.

Measured with 384 features, 128 units and 2 MiB of second-level cache, a meta-step of a cell: MAML takes 1.9 ms alone,
1.4 ms with three others (the number that this gives), 1.5 ms with fifteen; Prototypical Networks 1.9, 1.8 and 2.3 ms.
More cells than this cost time, and their outcomes come later.
"""
MOST_ON_CPU: Final = 64
"""For small networks, which gain from company rather than from the cache."""
MOST_ON_GPU: Final = 1024
FREE_SHARE: Final = 0.5
"""Share of the free memory of a GPU that a chunk may take: the rest is for what is not counted, and for neighbours."""


def cells_at_once(
    step_bytes: float, held_bytes: float, device: str, *, cache: float = CACHE, memory: float = math.inf
) -> int:
    """Return how many cells a chunk holds, at least 1.

    Parameters
    ----------
    step_bytes
        What one cell touches in a step.
    held_bytes
        What it holds at most, be it in training or while its test examples are evaluated.
    device
        Where they are trained.
    cache
        Bytes that the working set of a chunk may take on a CPU.
    memory
        Bytes that its cells may hold there.
    """
    if not device.startswith("cuda"):
        return _clipped(min(cache / step_bytes, memory / held_bytes), MOST_ON_CPU)
    import torch

    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return _clipped(FREE_SHARE * free / max(step_bytes, held_bytes), MOST_ON_GPU)


def in_chunks(
    cells: Iterable[Cell],
    most: int,
    draw: Callable[[Cell], Drawn],
    together: Callable[[Sequence[Drawn]], Sequence[tuple[Outcome, float]]],
) -> Iterator[Outcome]:
    """Train and evaluate cells in their order, with one thread; the outcomes of a chunk come together.

    Parameters
    ----------
    cells
        Taken a chunk at a time.
    most
        Cells of a chunk.
    draw
        Returns what the factors decide for one cell. What it raises is the outcome of that cell.
    together
        Trains and evaluates what was drawn. For each it returns, in this order, the outcome without its wall clock, and
        how much work it was, more than 0, in any unit: the wall clock of the chunk is shared out by it. Where it
        raises, the chunk is halved, down to the one cell whose outcome says why.
    """
    waiting = iter(cells)
    while chunk := list(islice(waiting, most)):
        yield from _chunk(chunk, draw, together)


def _chunk(
    cells: Sequence[Cell],
    draw: Callable[[Cell], Drawn],
    together: Callable[[Sequence[Drawn]], Sequence[tuple[Outcome, float]]],
) -> list[Outcome]:
    """Return the outcomes of one chunk."""
    started = time.perf_counter()
    chosen: list[Cell] = []
    drawn: list[Drawn] = []
    outcomes: list[Outcome] = []
    for cell in cells:
        before = time.perf_counter()
        try:
            drawn.append(draw(cell))
            chosen.append(cell)
        except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
            outcomes.append(failed(cell.key, error, time.perf_counter() - before))
    if not drawn:
        return outcomes
    found: Sequence[tuple[Outcome, float]] | None = None
    try:
        with one_thread():
            found = together(drawn)
    except Exception as error:  # noqa: BLE001
        if len(chosen) == 1:
            return [*outcomes, failed(chosen[0].key, error, time.perf_counter() - started)]
    if found is None:
        # Too little memory, or one cell is to blame: halves fit the one, and find the other. Outside of `except`, which
        # would keep the memory of the first try.
        middle = len(chosen) // 2
        del drawn
        return [
            *outcomes,
            *_chunk(chosen[:middle], draw, together),
            *_chunk(chosen[middle:], draw, together),
        ]
    each = (time.perf_counter() - started) / sum(work for _, work in found)
    return [*outcomes, *(replace(outcome, duration_seconds=work * each) for outcome, work in found)]


def _clipped(number: float, most: int) -> int:
    return max(1, min(int(number), most))

"""Chunks: the cells that are trained together, how many fit into memory, and what happens if one goes wrong."""

from __future__ import annotations

import gc
import logging
import math
import os
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, Generic, TypeVar

import torch

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.failures import check_device, failed, is_out_of_memory
from mlflow_l3d.approaches.numerics import SHARERS, one_thread
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.tasks.base import Task

Drawn = TypeVar("Drawn")

_log = logging.getLogger(__name__)

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
COPIES: Final = 16
"""So many copies of the weights must fit into the free memory of a GPU for one to stay there."""


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
    fitting, most = min(cache / step_bytes, memory / held_bytes), MOST_ON_CPU
    if device.startswith("cuda"):
        fitting = FREE_SHARE * free_memory(device) / max(step_bytes, held_bytes)
        most = MOST_ON_GPU
    return max(1, min(int(fitting), most))


class StackedSession(Session, Generic[Drawn]):
    """A session that trains a chunk of cells together; see :class:`~mlflow_l3d.approaches.base.Session`.

    A cell gives the same predictions alone and in any chunk; its scores agree within 1e-5. A subclass sets
    `cells_at_once`, the cells of a chunk.

    Parameters
    ----------
    task
        The data.
    device
        Where cells are trained.
    """

    reports_epochs = True
    most = math.inf
    """Cells of the largest chunk that may still fit into memory; what did not fit once is not tried again."""

    def __init__(self, task: Task, device: str) -> None:
        self.task, self.device = task, device

    @abstractmethod
    def draw(self, cell: Cell) -> Drawn:
        """Return what the factors decide for one cell. What it raises is the outcome of that cell."""

    @abstractmethod
    def together(self, drawn: Sequence[Drawn]) -> Sequence[tuple[Outcome, float]]:
        """Train and evaluate the drawn cells.

        For each it returns, in this order, the outcome without its wall clock, and how much work it was, more than 0,
        in any unit: the wall clock of the chunk is shared out by it. If it raises, the chunk is halved, down to the
        one cell whose outcome says why.
        """

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Train and evaluate the cells in their order, with one thread; a chunk's outcomes come together."""
        waiting = iter(cells)
        while chunk := list(islice(waiting, int(min(self.cells_at_once, self.most)))):
            yield from self._chunk(chunk)

    def _chunk(self, cells: Sequence[Cell]) -> list[Outcome]:
        """Return the outcomes of one chunk."""
        middle = len(cells) // 2
        if len(cells) > self.most:
            return [*self._chunk(cells[:middle]), *self._chunk(cells[middle:])]
        started = time.perf_counter()
        drawn: list[tuple[Cell, Drawn]] = []
        outcomes: list[Outcome] = []
        for cell in cells:
            before = time.perf_counter()
            try:
                drawn.append((cell, self.draw(cell)))
            except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
                outcomes.append(failed(cell.key, error, time.perf_counter() - before))
        if not drawn:
            return outcomes
        try:
            with one_thread():
                results = self.together([draws for _, draws in drawn])
        except Exception as error:  # noqa: BLE001
            check_device(error)
            if is_out_of_memory(error):
                self.most = min(self.most, -(-len(drawn) // 2))
            if len(drawn) == 1:
                return [*outcomes, failed(drawn[0][0].key, error, time.perf_counter() - started)]
            what = "%d cells side by side are tried again in halves: %s: %s"
            _log.warning(what, len(drawn), type(error).__name__, str(error).partition("\n")[0])
        else:
            each = (time.perf_counter() - started) / sum(work for _, work in results)
            return [*outcomes, *(replace(outcome, duration_seconds=work * each) for outcome, work in results)]
        # Too little memory, or one cell is to blame: halves fit the one, and find the other. Outside of `except`,
        # which would keep the memory of the first try.
        chosen, middle = [cell for cell, _ in drawn], len(drawn) // 2
        del drawn
        release()
        return [*outcomes, *self._chunk(chosen[:middle]), *self._chunk(chosen[middle:])]


def free_memory(device: str) -> float:
    """Return the bytes of a GPU that this process may plan with: what is free, and no more than its part of the whole.

    Workers that start together would else all plan with what none of them has taken yet.
    """
    free, total = torch.cuda.mem_get_info(torch.device(device))
    return min(free, total / int(os.environ.get(SHARERS, "1")))


def roomy(tensors: Sequence[torch.Tensor]) -> torch.device:
    """Return where copies of tensors go that are seldom used: their GPU if many would fit there, else the host."""
    device = tensors[0].device if tensors else torch.device("cpu")
    needed = sum(tensor.nbytes for tensor in tensors)
    return device if device.type == "cuda" and free_memory(str(device)) > COPIES * needed else torch.device("cpu")


def release() -> None:
    """Give unused memory back to the devices."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

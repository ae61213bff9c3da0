"""How work is cut into batches, and what happens when one does not fit into memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence

import torch

_SIGNS = ("out of memory", "not enough memory", "can't allocate memory", "alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory is spent, on any device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)


class Batches:
    """Batches of neighbours, bounded in tokens and in number; both bounds shrink when memory is spent, for good.

    Parameters
    ----------
    tokens
        Most tokens of a batch; one item alone may have more.
    size
        Most items of a batch, None for any number.
    """

    def __init__(self, tokens: int, size: int | None = None) -> None:
        if tokens < 1 or (size is not None and size < 1):
            raise ValueError(f"batch_tokens={tokens}, batch_size={size}: both must be at least 1")
        self.tokens = tokens
        self.size = size

    def run(
        self,
        order: Sequence[int],
        costs: Sequence[int],
        work: Callable[[Sequence[int]], None],
        *,
        tokens: int | None = None,
        most: int | None = None,
    ) -> None:
        """Call `work` with batches of `order` until every item had its turn.

        Parameters
        ----------
        order
            Items in the order in which they are to be batched.
        costs
            Tokens of each item, by item.
        work
            Must leave nothing behind when it fails: a batch that ran out of memory is tried again in halves.
        tokens
            Most tokens of a batch in place of the usual bound.
        most
            Most items of a batch beside the usual bound.

        Raises
        ------
        Exception
            What `work` raises, an error of memory only where a batch of one item has it.
        """
        start = 0
        while start < len(order):
            size = min((bound for bound in (self.size, most) if bound is not None), default=len(order))
            count = _fitting((costs[item] for item in order[start:]), self.tokens if tokens is None else tokens, size)
            batch = order[start : start + count]
            if self._attempt(batch, work):
                start += len(batch)

    def _attempt(self, batch: Sequence[int], work: Callable[[Sequence[int]], None]) -> bool:
        try:
            work(batch)
        except Exception as error:
            if len(batch) == 1 or not is_out_of_memory(error):
                raise
            self.size = len(batch) // 2
        else:
            return True
        # Only here is the error gone, and with it the tensors that its traceback held.
        release()
        return False


def _fitting(costs: Iterator[int], tokens: int, size: int) -> int:
    """Return how many of the next items make a batch, at least one."""
    count, total = 1, next(costs)
    for cost in costs:
        total += cost
        if total > tokens or count >= size:
            break
        count += 1
    return count


def release() -> None:
    """Give unused memory back to the devices."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

"""How work is cut into batches, and what happens when one does not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from mlflow_l3d.approaches.failures import is_out_of_memory
from mlflow_l3d.approaches.models.memory import release
from mlflow_l3d.errors import L3DError

Result = TypeVar("Result")


class Batches:
    """Batches of neighbours, bounded in tokens and in number; both bounds may shrink when memory is spent, for good.

    Parameters
    ----------
    tokens
        Most tokens of a batch; one item alone may have more.
    size
        Most items of a batch, None for any number.
    fixed
        Says whether both bounds stay, None if they need not.
    """

    def __init__(self, tokens: int, size: int | None = None, *, fixed: Callable[[], bool] | None = None) -> None:
        self._fixed = fixed
        self.tokens = tokens
        self.size = size

    @property
    def fixed(self) -> bool:
        """Whether both bounds stay."""
        return self._fixed is not None and self._fixed()

    def run(
        self,
        order: Sequence[int],
        costs: Sequence[int],
        work: Callable[[Sequence[int]], Iterable[Result]],
        *,
        tokens: int | None = None,
        most: int | None = None,
        padded: bool = False,
    ) -> list[Result]:
        """Call `work` with batches of `order` until every item had its turn; return the results by number of the item.

        Parameters
        ----------
        order
            Items in the order in which they are to be batched.
        costs
            Tokens of each item, by item.
        work
            Returns a result for each item of a batch. It must leave nothing behind when it fails: a batch that ran out
            of memory is tried again in halves.
        tokens
            Most tokens of a batch in place of the usual bound.
        most
            Most items of a batch beside the usual bound.
        padded
            Whether every item of a batch costs what the most costly does.

        Raises
        ------
        Exception
            What `work` raises, an error of memory only if a batch of one item has it.
        L3DError
            If memory is spent and the bounds are fixed.
        """
        results: dict[int, Result] = {}
        while len(results) < len(order):
            rest = order[len(results) :]
            size = min((bound for bound in (self.size, most) if bound is not None), default=len(order))
            count = _fitting((costs[item] for item in rest), self.tokens if tokens is None else tokens, size, padded)
            results |= self._attempt(rest[:count], work)
        return [results[item] for item in sorted(results)]

    def _attempt(self, batch: Sequence[int], work: Callable[[Sequence[int]], Iterable[Result]]) -> dict[int, Result]:
        """Return the results of a batch; none if the memory was spent."""
        try:
            return dict(zip(batch, work(batch), strict=True))
        except Exception as error:
            if len(batch) == 1 or not is_out_of_memory(error):
                raise
            if self.fixed:
                what = f"memory is spent by {len(batch)} prompts at once, and others at once may round otherwise"
                raise L3DError(f"{what}. Use batch_size={len(batch) // 2}, or fewer workers.") from error
            self.size = len(batch) // 2
        # Only here is the error gone, and with it the tensors that its traceback held.
        release()
        return {}


def _fitting(costs: Iterator[int], tokens: int, size: int, padded: bool) -> int:
    """Return how many of the next items make a batch, at least one."""
    count = 1
    total = most = next(costs)
    for cost in costs:
        total, most = total + cost, max(most, cost)
        if count >= size or (most * (count + 1) if padded else total) > tokens:
            break
        count += 1
    return count

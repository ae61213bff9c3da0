"""What benchmarks on a GPU share: clocks that wait for it, and the memory that it has lent to others."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


def synchronise(device: str) -> None:
    """Wait until the device has done what it was asked."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], object], device: str) -> float:
    """Return the CPU seconds of some work on the host, and its wall clock on a GPU."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    synchronise(device)
    start = clock()
    work()
    synchronise(device)
    return clock() - start


class Memory:
    """Memory of the device while the block runs, of all processes but this one, their contexts included."""

    def __init__(self, device: str) -> None:
        self._watched, self._over, self._seen = device == "cuda", threading.Event(), []
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Memory:
        if self._watched:
            self._before = self._used()
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        if self._watched:
            self._thread.join()

    def _used(self) -> float:
        import torch

        free, total = torch.cuda.mem_get_info()
        return float(total - free)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self._seen.append((time.perf_counter(), self._used() - self._before))

    def peak(self, start: float = 0.0, end: float = math.inf) -> float:
        """Return the most bytes between two times; 0 if nobody looked."""
        return max((used for at, used in self._seen if start <= at <= end), default=0.0)

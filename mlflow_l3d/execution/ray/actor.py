"""What runs in an actor of Ray: one worker, whose messages are a stream."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.environment import forget_project_run, share_device
from mlflow_l3d.execution.worker import checked, serve_calls, unpickled
from mlflow_l3d.execution.workers import Message
from mlflow_l3d.paths import cache_folder

BATCH: Final = 16
"""Messages that are sent at once, at most."""
BATCH_SECONDS: Final = 0.02
"""How long a message may wait for others."""


@dataclass(frozen=True, slots=True)
class Here:
    """Where an actor is: the first thing that it says."""

    node: str
    process: int


class CellActor:
    """A worker on a node of the cluster.

    Parameters
    ----------
    pickled
        The job.
    home
        Node of the dispatcher: elsewhere, models and features are kept in the cache folder of that machine.
    sharers
        How many workers share a GPU.
    """

    def __init__(self, pickled: bytes, home: str, sharers: int) -> None:
        self._pickled, self._home, self._sharers = pickled, home, sharers
        self._calls: queue.SimpleQueue[list[Cell] | None] = queue.SimpleQueue()
        self._early: dict[int, list[list[Cell] | None]] = {}
        self._next, self._lock = 0, threading.Lock()
        self._said: queue.SimpleQueue[Message | Here | None] = queue.SimpleQueue()

    def serve(self) -> Iterator[list[Message | Here]]:
        """Yield what the dispatcher is to know, several messages at once if they come quickly."""
        import ray

        forget_project_run()
        self._node = ray.get_runtime_context().get_node_id()
        self._said.put(Here(self._node, os.getpid()))
        threading.Thread(target=self._serve, name="l3d-serve", daemon=True).start()
        while True:
            messages: list[Any] = [self._said.get()]
            end = time.monotonic() + BATCH_SECONDS
            with suppress(queue.Empty):
                while len(messages) < BATCH:
                    # A worker that has no further call must be given one.
                    left = 0.0 if self._calls.empty() else max(0.0, end - time.monotonic())
                    messages.append(self._said.get(timeout=left) if left else self._said.get_nowait())
            last = messages[-1] is None
            yield [message for message in messages if message is not None]
            if last:
                return

    def give(self, number: int, calls: list[list[Cell] | None]) -> None:
        """Take some calls, None in the place of one: there are no more. They may come in another order."""
        with self._lock:
            self._early[number] = calls
            while self._next in self._early:
                for call in self._early.pop(self._next):
                    self._calls.put(call)
                self._next += 1

    def _serve(self) -> None:
        try:
            serve_calls(self._load, self._calls.get, self._said.put)
        finally:
            self._said.put(None)

    def _load(self) -> Job:
        job = unpickled(self._pickled)
        share_device(self._sharers)
        return checked(job if self._node == self._home else replace(job, cache=cache_folder()))

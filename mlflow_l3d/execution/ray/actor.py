"""What runs in an actor of Ray: one worker, whose messages are a stream."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.environment import forget_project_run, share_device
from mlflow_l3d.execution.worker import checked, serve_calls, unpickled
from mlflow_l3d.execution.workers import Message
from mlflow_l3d.paths import cache_folder


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
        self._said: queue.SimpleQueue[Message | Here | None] = queue.SimpleQueue()

    def serve(self) -> Iterator[list[Message | Here]]:
        """Yield what the dispatcher is to know, all that was said since the last time at once."""
        import ray

        forget_project_run()
        self._node = ray.get_runtime_context().get_node_id()
        self._said.put(Here(self._node, os.getpid()))
        threading.Thread(target=self._serve, name="l3d-serve", daemon=True).start()
        while True:
            messages: list[Any] = [self._said.get()]
            with suppress(queue.Empty):
                while True:
                    messages.append(self._said.get_nowait())
            last = messages[-1] is None
            yield [message for message in messages if message is not None]
            if last:
                return

    def give(self, cells: list[Cell] | None) -> None:
        """Take a call; None: there are no more."""
        self._calls.put(cells)

    def answer(self) -> None:
        """Do nothing: an answer shows that the actor is still there."""

    def _serve(self) -> None:
        try:
            serve_calls(self._load, self._calls.get, self._said.put)
        finally:
            self._said.put(None)

    def _load(self) -> Job:
        job = unpickled(self._pickled)
        share_device(self._sharers)
        return checked(job if self._node == self._home else replace(job, cache=cache_folder()))

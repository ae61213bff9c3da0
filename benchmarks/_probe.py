"""Clocks around the parts of an investigation, from outside: nothing in the package knows of them."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Clock:
    """Wall and CPU seconds of all calls of one part, from any thread."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0
        self.calls = 0
        self._lock = threading.Lock()

    def add(self, wall: float, cpu: float) -> None:
        """Add one call."""
        with self._lock:
            self.wall += wall
            self.cpu += cpu
            self.calls += 1

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` with this clock around it."""

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self.add(time.perf_counter() - wall, time.thread_time() - cpu)

        return timed

    def around_each(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield `items` with this clock around taking each."""
        waiting = iter(items)
        end = object()
        while True:
            wall, cpu = time.perf_counter(), time.thread_time()
            item = next(waiting, end)
            self.add(time.perf_counter() - wall, time.thread_time() - cpu)
            if item is end:
                return
            yield item


class Probe:
    """Clocks and marks of one investigation in this process; install it before the investigation.

    Attributes
    ----------
    marks
        Name -> (perf_counter, CPU seconds of this process).
    arrivals
        (when it arrived, how long it trained) of every outcome.
    all_ready
        When the last of the workers was given its first cell.
    active
        Whether executors are looked at; set to False after the investigation.
    """

    def __init__(self) -> None:
        self.marks: dict[str, tuple[float, float]] = {}
        self.arrivals: list[tuple[float, float]] = []
        self.clocks = {name: Clock() for name in ("plan", "dispatch", "spool", "parent metrics", "monitor", "upload")}
        self.all_ready = 0.0
        self.most_pending = 0
        self.active = True
        self._workers: set[int] = set()

    def mark(self, name: str) -> None:
        """Note the time, once."""
        self.marks.setdefault(name, (time.perf_counter(), time.process_time()))

    def install(self) -> None:
        """Put the clocks around the parts."""
        from mlflow_l3d.execution.inline import InlineExecutor
        from mlflow_l3d.execution.processes import ProcessExecutor
        from mlflow_l3d.execution.workers import Worker
        from mlflow_l3d.studies import cells
        from mlflow_l3d.studies.investigation.run import InvestigationStudy, Monitor
        from mlflow_l3d.tracking.children import ChildWriter
        from mlflow_l3d.tracking.recorder import RunRecorder

        study: Any = InvestigationStudy
        study.specify = staticmethod(self._marked("specified", InvestigationStudy.specify))
        study.conclude = self._marked("concluded", InvestigationStudy.conclude, before="logged")
        studies: Any = cells
        studies.open_recorder = self._marked("opened", cells.open_recorder)
        RunRecorder.add = self._record(RunRecorder.add)  # type: ignore[method-assign]
        RunRecorder.log_metrics = self.clocks["parent metrics"].around(RunRecorder.log_metrics)  # type: ignore[method-assign]
        Monitor.add = self.clocks["monitor"].around(Monitor.add)  # type: ignore[method-assign]
        Monitor.new_steps = self.clocks["monitor"].around(Monitor.new_steps)  # type: ignore[method-assign]
        ChildWriter.write = self.clocks["upload"].around(ChildWriter.write)  # type: ignore[method-assign]
        Worker.send = self._send(Worker.send)  # type: ignore[method-assign]
        ProcessExecutor.run = self._outcomes(ProcessExecutor.run)  # type: ignore[method-assign]
        InlineExecutor.run = self._outcomes(InlineExecutor.run)  # type: ignore[method-assign]

    def _marked(self, after: str, function: Callable[..., Any], before: str = "") -> Callable[..., Any]:
        def marked(*arguments: Any, **named: Any) -> Any:
            if before:
                self.mark(before)
            value = function(*arguments, **named)
            self.mark(after)
            return value

        return marked

    def _record(self, function: Callable[..., Any]) -> Callable[..., Any]:
        timed = self.clocks["spool"].around(function)

        def record(recorder: Any, *arguments: Any) -> Any:
            value = timed(recorder, *arguments)
            self.most_pending = max(self.most_pending, recorder.uploader.pending)
            return value

        return record

    def _send(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def send(worker: Any, assignment: Any) -> Any:
            if self.active and id(worker) not in self._workers:
                self._workers.add(id(worker))
                self.all_ready = time.perf_counter()
            return function(worker, assignment)

        return send

    def _outcomes(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(executor: Any, cells: Iterable[Any]) -> Iterator[Any]:
            if not self.active:
                yield from function(executor, cells)
                return
            outcomes = function(executor, self.clocks["plan"].around_each(cells))
            try:
                for outcome in self.clocks["dispatch"].around_each(outcomes):
                    self.mark("first outcome")
                    self.arrivals.append((time.perf_counter(), outcome.duration_seconds))
                    yield outcome
                self.mark("trained")
            finally:
                outcomes.close()

        return run

    def window(self) -> float:
        """Return when all workers were at work: from here on there is nothing but the steady state."""
        return max(self.all_ready, self.arrivals[0][0] - self.arrivals[0][1])

    def steady(self, pure: float, workers: int) -> dict[str, float]:
        """Return the steady state: from when all workers are at work until the store holds every cell.

        Parameters
        ----------
        pure
            Seconds that a cell trains when nothing is logged.
        workers
            How many trained side by side.

        Returns
        -------
        dict
            Seconds: ``wall`` and ``ideal``, and their difference by cause; ``cells``, of which some had begun before.
        """
        start, end = self.window(), self.marks["logged"][0]
        last = self.arrivals[-1][0]
        inside = [(when, took) for when, took in self.arrivals if when > start]
        shares = [min(1.0, (when - start) / took) for when, took in inside]
        trained = sum(took * share for (_, took), share in zip(inside, shares, strict=True))
        ideal = pure * sum(shares) / workers
        return {
            "cells": len(inside),
            "wall": end - start,
            "ideal": ideal,
            "slower training": trained / workers - ideal,
            "idle workers": last - start - trained / workers,
            "last uploads": end - last,
        }

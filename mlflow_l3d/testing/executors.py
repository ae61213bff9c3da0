"""Checks of the contract of :mod:`mlflow_l3d.execution.base`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.synthetic import FACTORS, fails, score
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Executor, Job
from mlflow_l3d.execution.environment import alive
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing.cells import Trouble, design_cells, one_cell, require, worker_processes

STOP_SECONDS: Final = 3.0
"""Seconds that an executor may take to stop its workers, on a busy machine."""
AT_ONCE: Final = 4
"""Cells that a session runs in one call in the checks of calls."""
HANG_SECONDS: Final = 1.0
"""``cell_timeout`` for a cell that hangs."""


def check_executor(
    executor_class: Callable[..., Executor],
    *,
    cache: Path,
    workers: int | None = None,
    separate_processes: bool = True,
    prefetch: int = 2,
    local: bool = True,
    stop_seconds: float = STOP_SECONDS,
) -> None:
    """Check that an executor keeps its contract, with approaches that need no model.

    Checked are that every cell gives exactly one outcome, the right one; that cells are taken from an infinite iterator
    only as they are needed; that a cell that fails, is not valid or ends its worker harms no other; that an error of
    the preparation arrives unchanged; that no cells need no worker; that sessions which run many cells at once get no
    more than their number, and that a failing cell then harms no other cell of its call; that a cell that hangs is
    stopped, if the class has ``stops_cells``; and that an iterator that ends, is closed, or is interrupted does so
    soon, and leaves no process on this machine.

    Parameters
    ----------
    executor_class
        The class that the entry point names.
    cache
        An empty folder.
    workers
        Number of workers; None for the executor's own choice.
    separate_processes
        Whether workers are processes other than this one.
    prefetch
        Cells that a worker may have at the same time.
    local
        Whether workers run on this machine and share the cache folder, so that their remains can be seen.
    stop_seconds
        Seconds that it may take to stop the workers.

    Raises
    ------
    AssertionError
        With one sentence that names the broken rule.
    """
    steps = [_check_results, _check_no_cells, _check_laziness, _check_preparation, _check_calls]
    if separate_processes:
        steps += [_check_lost_workers, _check_lost_calls, _check_interruption]
    if getattr(executor_class, "stops_cells", False):
        steps.append(_check_hanging)
    for step in steps:
        folder = cache / step.__name__.strip("_")
        folder.mkdir()
        step(_Bench(executor_class, folder, workers, prefetch, stop_seconds))
        if not local:
            continue
        left = [process for process in worker_processes(folder) if process != os.getpid() and alive(process)]
        require(not left, f"{step.__name__.strip('_')}: worker process(es) {left} are left behind")
        inside = os.getpid() in worker_processes(folder)
        require(inside != separate_processes or not worker_processes(folder), "separate_processes is not as declared")


@dataclass(frozen=True, slots=True)
class _Bench:
    """One executor class, and how to run it."""

    executor_class: Callable[..., Executor]
    cache: Path
    workers: int | None
    prefetch: int
    stop_seconds: float

    @property
    def most(self) -> int:
        return self.workers or os.cpu_count() or 1

    def executor(self, approach: Trouble, **hyperparameters: Value) -> Executor:
        return self.executor_of(bench_job(approach, self.cache, **hyperparameters))

    def executor_of(self, job: Job) -> Executor:
        return self.executor_class(job=job, workers=self.workers)

    def timed(self, action: Callable[[], object], what: str) -> None:
        started = time.monotonic()
        action()
        took = time.monotonic() - started
        allowed = f"{self.stop_seconds:g} s are allowed"
        require(took < self.stop_seconds, f"{what} takes {took:.1f} s to stop the workers, {allowed}")


def bench_job(approach: Trouble, cache: Path, **hyperparameters: Value) -> Job:
    """Return a job on a small generated task."""
    task = replace(generate(60, 3), settings=SplitSettings(num_labelled=12, test_size=9))
    return Job(approach, task, resolve_hyperparameters(approach, hyperparameters), "", "cpu", cache)


def _check_results(bench: _Bench) -> None:
    settings = resolve_hyperparameters(Trouble(), {"fail_every": 4})
    cells = list(design_cells(FACTORS, 24))
    spoilt = {cells[5].key: "raise", cells[6].key: "short", cells[17].key: "sys.exit"}
    executor = bench.executor(Trouble(spoilt), fail_every=4)
    outcomes = _collect(executor.run(iter(cells)), cells)
    for cell in cells:
        outcome = outcomes[cell.key]
        if fails(cell.key, 4) or cell.key in spoilt:
            require(bool(outcome.error), f"{cell.name} went wrong, and its outcome has no error")
            require("\n" not in str(outcome.error), f"the error of {cell.name} has more than one line")
            require(bool(outcome.traceback), f"the outcome of {cell.name} has an error and no traceback")
        else:
            require(outcome.error is None, f"{cell.name} failed, because another did: {outcome.error}")
            value = outcome.metrics["synthetic_score"]
            require(value == score(cell.seeds, settings), f"{cell.name} has the score of another cell")
            require("f1_macro" in outcome.metrics, f"{cell.name} lacks the metrics of its predictions (f1_macro)")
    require(len(_collect(executor.run(cells[:1]), cells[:1])) == 1, "an executor must run a second time")


def _check_no_cells(bench: _Bench) -> None:
    require(not list(bench.executor(Trouble()).run(iter(()))), "no cells must give no outcome")
    require(not worker_processes(bench.cache), "no cells must need no worker")


def _check_laziness(bench: _Bench) -> None:
    _require_laziness(bench, Trouble(), bench.most * bench.prefetch)
    # Of calls: the cells of workers, those that have arrived, and those that were looked at to distribute them.
    _require_laziness(bench, Trouble(at_once=AT_ONCE), 4 * bench.most * AT_ONCE)


def _require_laziness(bench: _Bench, approach: Trouble, allowed: int) -> None:
    taken: list[str] = []

    def endless() -> Iterator[Cell]:
        for index in count():
            cell = one_cell(FACTORS, index)
            taken.append(cell.key)
            yield cell

    outcomes: Any = bench.executor(approach).run(endless())
    require(not taken, "cells are taken before the first outcome is asked for")
    seen: set[str] = set()
    for done in range(1, 41):
        outcome = next(outcomes)
        seen.add(outcome.key)
        ahead = len(taken) - done
        require(ahead <= allowed, f"{ahead} cells are taken ahead, {allowed} may be")
        require(outcome.key in taken, "an outcome belongs to no cell")
    require(len(seen) == 40, "a cell gave two outcomes")
    bench.timed(outcomes.close, "close()")


def _check_preparation(bench: _Bench) -> None:
    try:
        outcomes = list(bench.executor(Trouble(prepare="parameter")).run(list(design_cells(FACTORS, 4))))
    except ParameterError as error:
        require(error.name == "model" and "Name another one." in str(error), f"the error of prepare became: {error}")
    else:
        require(False, f"prepare raised, and the executor gave {len(outcomes)} outcomes instead of that error")


def _check_calls(bench: _Bench) -> None:
    kinds = ["raise", "short", "none", "nan", "wrong key", "sys.exit"]
    _require_only(bench, dict(zip(range(2, 24, 4), kinds, strict=True)), cells=24, at_once=AT_ONCE)


def _check_lost_calls(bench: _Bench) -> None:
    _require_only(bench, {1: "exit", 8: "kill"}, cells=12, at_once=AT_ONCE, together=True)


def _check_lost_workers(bench: _Bench) -> None:
    _require_only(bench, {3: "exit", 7: "kill"}, cells=10, says="worker ended")


def _require_only(bench: _Bench, troubles: Mapping[int, str], *, cells: int, says: str = "", **calls: Any) -> None:
    """Require that only the cells in trouble, named by their place, fail."""
    every = list(design_cells(FACTORS, cells))
    spoilt = {every[place].key: kind for place, kind in troubles.items()}
    outcomes = _collect(bench.executor(Trouble(spoilt, **calls)).run(iter(every)), every)
    for cell in every:
        error = outcomes[cell.key].error
        if cell.key in spoilt:
            wrong = f"{cell.name} went wrong, alone or in a call of many, or ended its worker; its error is {error}"
            require(error is not None and says in error, wrong)
        else:
            require(error is None, f"{cell.name} was lost with another cell of its call, or its worker: {error}")


def _check_hanging(bench: _Bench) -> None:
    cells = list(design_cells(FACTORS, 6))
    job = replace(bench_job(Trouble({cells[2].key: "hang"}), bench.cache), cell_timeout=HANG_SECONDS)
    outcomes = _collect(bench.executor_of(job).run(iter(cells)), cells)
    for cell in cells:
        error, hangs = outcomes[cell.key].error, cell is cells[2]
        require(
            ("cell_timeout" in str(error)) == hangs, f"{cell.name} hangs: {hangs}; the error of its outcome: {error}"
        )


def _check_interruption(bench: _Bench) -> None:
    cells = list(design_cells(FACTORS, 20))
    # The first cell comes back from any worker; the next ones would take an hour.
    outcomes: Any = bench.executor(Trouble(dict.fromkeys((cell.key for cell in cells[1:]), "hang"))).run(iter(cells))
    next(outcomes)

    def interrupt() -> None:
        try:
            outcomes.throw(KeyboardInterrupt())
        except KeyboardInterrupt:
            return
        require(False, "an interrupt that is thrown into the iterator is swallowed")

    bench.timed(interrupt, "an interrupt")


def _collect(outcomes: Iterable[Outcome], cells: Sequence[Cell]) -> dict[str, Outcome]:
    by_key: dict[str, Outcome] = {}
    for outcome in outcomes:
        require(outcome.key not in by_key, "a cell gave two outcomes")
        by_key[outcome.key] = outcome
    require(set(by_key) == {cell.key for cell in cells}, f"{len(cells)} cells gave {len(by_key)} outcomes of their own")
    return by_key

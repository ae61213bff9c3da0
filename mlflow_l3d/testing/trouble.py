"""An approach that misbehaves on demand, to test an executor."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.progress import report_progress
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.tasks.base import Task


def _raise(error: BaseException) -> NoReturn:
    raise error


_ENDS: Final[Mapping[str, Callable[[], object]]] = {
    "raise": lambda: _raise(RuntimeError("this cell goes wrong")),
    "lost device": lambda: _raise(RuntimeError("CUDA error: an illegal memory access was encountered")),
    "sys.exit": lambda: sys.exit("this cell gives up"),
    "exit": lambda: os._exit(7),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),  # as for lack of memory
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda: time.sleep(3600),
    "stuck": lambda: pow(3, 200_000_000),  # holds the interpreter lock for many minutes
}
_SPOILS: Final[Mapping[str, Callable[[Any], list[Outcome]]]] = {
    "short": lambda given: [replace(given, predictions=given.predictions[:-1])],
    "float": lambda given: [replace(given, predictions=given.predictions.astype(np.float64))],
    "nan": lambda given: [replace(given, metrics={"synthetic_score": float("nan")})],
    "same ids": lambda given: [replace(given, example_ids=np.full_like(given.example_ids, given.example_ids[0]))],
    "wrong key": lambda given: [replace(given, key="another")],
    "none": lambda _: [],
    "twice": lambda given: [given, given],
}
TROUBLES: Final = (*_ENDS, *_SPOILS)
"""Troubles of a cell: before its outcome, and in place of its outcome."""
PREPARATIONS: Final = ("", "parameter", "raise", "exit", "exit later")


class Trouble(Synthetic):
    """The synthetic approach with cells, or a preparation, that go wrong.

    Every session leaves a file ``worker-PID.json`` with the variables of its environment in the cache folder, and
    reports 0 % of its preparation before.

    Parameters
    ----------
    cells
        Key of a cell -> one of :data:`TROUBLES`.
    once
        Whether only the first attempt at a cell goes wrong.
    prepare
        ``parameter`` raises a ParameterError, ``raise`` a RuntimeError, ``exit`` ends the process with code 3,
        ``exit later`` does so in every process but the first.
    at_once
        How many cells a session takes in one call; those of a larger one fail. Each call leaves a line with its keys
        in the file ``calls-PID`` of the cache folder.
    together
        Whether a session trains all cells of a call before it gives the first outcome.
    """

    name = "trouble"

    def __init__(
        self,
        cells: Mapping[str, str] | None = None,
        *,
        once: bool = False,
        prepare: str = "",
        at_once: int = 1,
        together: bool = False,
    ) -> None:
        self.cells, self.once, self.preparation = dict(cells or {}), once, prepare
        self.at_once, self.together = at_once, together
        for kind in self.cells.values():
            if kind not in TROUBLES:
                raise unknown_name("cells", kind, TROUBLES)
        if prepare not in PREPARATIONS:
            raise unknown_name("prepare", prepare, PREPARATIONS)

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Return a session, or cause the trouble."""
        list(report_progress("preparing", range(4), int, 6))
        cache.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**os.environ, "device": device})
        (cache / f"worker-{os.getpid()}.json").write_text(text, encoding="utf-8")
        if self.preparation == "parameter":
            raise ParameterError("model", model, "must be another one", "Name another one.")
        if self.preparation == "raise":
            raise RuntimeError("no luck\ntoday")
        if self.preparation == "exit" or (self.preparation == "exit later" and not _first(cache / "first-worker")):
            os._exit(3)
        inner = super().prepare(task, hyperparameters, model=model, device=device, cache=cache)
        return TroubleSession(self, inner, cache)


@dataclass
class TroubleSession(Session):
    """Runs cells until one goes wrong."""

    approach: Trouble
    inner: Session
    cache: Path

    def __post_init__(self) -> None:
        self.cells_at_once = self.approach.at_once

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Run the cells."""
        call = list(cells)
        if self.approach.at_once > 1 or self.approach.together:
            with (self.cache / f"calls-{os.getpid()}").open("a", encoding="utf-8") as file:
                file.write(" ".join(cell.key for cell in call) + "\n")
        if len(call) > self.approach.at_once:
            error = f"a call had {len(call)} cells, cells_at_once is {self.approach.at_once}"
            yield from (Outcome(cell.key, error=error) for cell in call)
            return
        yield from list(self._run(call)) if self.approach.together else self._run(call)

    def _run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        for cell in cells:
            kind = self.approach.cells.get(cell.key, "")
            if kind and not _first(self.cache / f"attempt-{cell.key}") and self.approach.once:
                kind = ""
            if kind in _ENDS:
                _ENDS[kind]()
            for outcome in self.inner.run([cell]):
                yield from _SPOILS[kind](outcome) if kind in _SPOILS else [outcome]

    def close(self) -> None:
        """Leave a file that shows the end of the session."""
        (self.cache / f"closed-{os.getpid()}").touch()


def worker_processes(cache: Path) -> set[int]:
    """Return the ids of the processes in which sessions of :class:`Trouble` were prepared with this cache folder."""
    return {int(path.stem.removeprefix("worker-")) for path in cache.glob("worker-*.json")}


def _first(marker: Path) -> bool:
    """Return whether this is the first call with `marker`."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

"""What is trained in the benchmarks: the synthetic approach, busy for a time, or with a fixed amount of work.

`spin` looks at the clock: a core that logging takes away meanwhile is not missed. `work` counts: where no core is free,
logging makes it longer, as it would a real training.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.tasks.base import Task


def burn(iterations: int) -> int:
    """Keep a core busy, a number of times."""
    state = 1
    for _ in range(iterations):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return state


def calibrate(milliseconds: float) -> int:
    """Return the iterations that take `milliseconds` on a core of one's own: the quickest of several tries."""
    tries = []
    for _ in range(10):
        started = time.perf_counter()
        burn(200_000)
        tries.append(time.perf_counter() - started)
    return round(200_000 * milliseconds / 1000.0 / min(tries))


class FixedWork(Synthetic):
    """The synthetic approach with a fixed amount of work a cell."""

    name: str = "fixed_work"
    hyperparameters: Mapping[str, Hyperparameter] = {
        **Synthetic.hyperparameters,
        "iterations": Hyperparameter(0, "rounds of work a cell", low=0),
    }

    def prepare(  # type: ignore[override]
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Return a session; there is nothing to load."""
        own = {name: value for name, value in hyperparameters.items() if name != "iterations"}
        inner = super().prepare(task, own, model=model, device=device, cache=cache)
        return _FixedWorkSession(inner, int(hyperparameters["iterations"]))


class _FixedWorkSession(Session):
    def __init__(self, inner: Session, iterations: int) -> None:
        self._inner = inner
        self._iterations = iterations

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        for cell in cells:
            started = time.perf_counter()
            burn(self._iterations)
            for outcome in self._inner.run([cell]):
                yield replace(outcome, duration_seconds=time.perf_counter() - started)

    def close(self) -> None:
        self._inner.close()


def investigation(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `mlflow_l3d.investigate` that a benchmark's settings mean.

    Parameters
    ----------
    settings
        ``parameters``, as on the command line; ``training``: ``spin`` or ``work``; ``milliseconds``, ``iterations``;
        ``examples``: size of a generated task. Without ``training`` the parameters say it all.
    """
    arguments: dict[str, Any] = dict(settings["parameters"])
    if "training" not in settings:
        return arguments
    from mlflow_l3d.tasks.sources.packaged import generate

    arguments["task"] = generate(settings["examples"])
    if settings["training"] == "spin":
        arguments |= {"approach": Synthetic(), "hyperparameters": {"spin": settings["milliseconds"]}}
    else:
        arguments |= {"approach": FixedWork(), "hyperparameters": {"iterations": settings["iterations"]}}
    return arguments

"""Cells for tests: their outcomes, the comparison of two, and an approach in which cells go wrong on demand."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.progress import report_progress
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import Cell, Outcome, cell_key
from mlflow_l3d.cells.factors import configuration_seed
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import finished
from mlflow_l3d.tasks.base import Task

Part = npt.NDArray[np.generic] | None

_EXACT: Final = ("example_ids", "labels", "predictions")


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with `message` unless `condition` holds, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def differences(left: Outcome, right: Outcome, tolerance: float = 0.0) -> list[str]:
    """Return the names of the parts in which two outcomes differ by a single bit; times are ignored.

    Metrics are called ``metric NAME``; those whose name ends with ``_seconds`` are times. Scores, metrics and predicted
    numbers (of a regression) a and b may differ by up to ``tolerance * (1 + |b|)``.
    """
    one, other = _parts(left), _parts(right)
    has_numbers = right.predictions is not None and right.predictions.dtype.kind == "f"
    exact = {name for name in _EXACT if name != "predictions" or not has_numbers}
    allowed = {name: 0.0 if name in exact else tolerance for name in {**one, **other}}
    changes = [name for name in allowed if not _close(one.get(name), other.get(name), allowed[name])]
    return changes if left.error == right.error else [*changes, "error"]


def _parts(outcome: Outcome) -> dict[str, Part]:
    metrics = {name: value for name, value in sorted(outcome.metrics.items()) if not name.endswith("_seconds")}
    return {
        **{name: getattr(outcome, name) for name in (*_EXACT, "scores")},
        **{f"metric {name}": np.array(value) for name, value in metrics.items()},
    }


def _close(one: Part, other: Part, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype == object:  # texts, whose bytes are addresses
        return bool(np.array_equal(one, other))
    if tolerance == 0.0:
        return one.tobytes() == other.tobytes()
    return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance))


def one_cell(factors: Sequence[str], configuration: int = 0, root_seed: int = 0) -> Cell:
    """Return the golden cell that puts every factor at `configuration`."""
    return _cell(dict.fromkeys(factors, configuration), root_seed)


def changed(cell: Cell, factor: str, configuration: int, root_seed: int = 0) -> Cell:
    """Return `cell` with only `factor`, which it may lack, at another configuration."""
    return _cell({**cell.configurations, factor: configuration}, root_seed)


def design_cells(factors: Sequence[str], count: int, root_seed: int = 0) -> Iterator[Cell]:
    """Return the first `count` cells of a crossed design that investigates the last factor in 5 columns."""
    from mlflow_l3d.designs.crossed import CrossedDesign  # pandas comes with it, and workers need one cell

    return islice(CrossedDesign(factors[-1:], factors, 5, -(-count // 5), 0, root_seed, "testing").cells(), count)


def run_cells(session: Session, cells: Sequence[Cell], job: Job) -> dict[str, Outcome]:
    """Return the outcomes of one call of a session by the key of the cell; a failed cell breaks the contract."""
    by_key = {cell.key: cell for cell in cells}
    outcomes: dict[str, Outcome] = {}
    for outcome in session.run(cells):
        require(isinstance(outcome, Outcome), f"a session must yield outcomes, not {type(outcome).__name__}")
        require(outcome.key in by_key, f"an outcome has the key {outcome.key!r}, which no cell of the call has")
        require(outcome.key not in outcomes, "a session yields two outcomes for one cell")
        require(outcome.error is None, f"a cell failed: {outcome.error}\n{outcome.traceback}")
        outcomes[outcome.key] = finished(outcome, by_key[outcome.key], job)
    require(len(outcomes) == len(by_key), f"{len(by_key)} cells gave {len(outcomes)} outcomes")
    return outcomes


def _cell(configurations: dict[str, int], root_seed: int) -> Cell:
    seeds = {name: configuration_seed(root_seed, name, index) for name, index in configurations.items()}
    return Cell("golden", None, None, None, 0, configurations, seeds, cell_key("testing", seeds))


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

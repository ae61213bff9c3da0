"""One investigation with the executor `inline`, and the memory of its process; started by memory.py."""

from __future__ import annotations

import resource
import sys
import tracemalloc
from pathlib import Path
from typing import Any

from _common import answer, settings_of_child


def main() -> None:
    """Carry out the investigation, and note its memory at three moments."""
    settings = settings_of_child()
    import mlflow_l3d
    from mlflow_l3d.studies import cells
    from mlflow_l3d.studies.investigation import run
    from mlflow_l3d.tracking.recorder import RunRecorder

    seen: dict[str, Any] = {}
    if not settings["upload"]:
        _discard_uploads()
    opened, conclude, finish = cells.open_recorder, run.InvestigationStudy.conclude, RunRecorder.finish

    def open_recorder(*arguments: Any, **named: Any) -> Any:
        recorder = opened(*arguments, **named)
        seen["opened"] = resident()
        if settings["trace"]:
            tracemalloc.start(1)
        return recorder

    def concluding(*arguments: Any) -> Any:
        seen["trained"] = resident()
        seen["held after training"] = _held()
        return conclude(*arguments)

    def finishing(*arguments: Any, **named: Any) -> Any:
        seen["held in the conclusion"] = _held()
        return finish(*arguments, **named)

    cells.open_recorder = open_recorder
    run.InvestigationStudy.conclude = concluding  # type: ignore[method-assign]
    RunRecorder.finish = finishing  # type: ignore[method-assign]
    steps: dict[str, int] = {}
    if settings["trace"]:
        for owner, name in ((RunRecorder, "run_ids"), *((run, name) for name in _STEPS)):
            setattr(owner, name, _with_peak(getattr(owner, name), name, steps))
    result = mlflow_l3d.investigate(
        approach="synthetic",
        executor="inline",
        factor="data_order",
        test_size=settings["test_size"],
        investigation_runs=10,
        mitigation_runs=settings["cells"] // 20,
    )
    seen["peak"] = peak()
    answer(settings, {**seen, "steps": steps, "cells": result.computed, "seconds": result.seconds})


_STEPS = ("cells_frame", "score", "write_artifacts")


def _with_peak(function: Any, name: str, peaks: dict[str, int]) -> Any:
    """Return `function`, noting in `peaks` the most bytes it had at once above what there was before."""

    def measured(*arguments: Any, **named: Any) -> Any:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        value = function(*arguments, **named)
        peaks[name] = tracemalloc.get_traced_memory()[1] - before
        return value

    return measured


def resident() -> int:
    """Return the bytes that this process holds now; 0 where the system does not say."""
    return _status("VmRSS")


def peak() -> int:
    """Return the most bytes that this process held."""
    # Not ru_maxrss where it can be avoided: on Linux it also covers the process that started this one.
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmHWM") or kilobytes * (1 if sys.platform == "darwin" else 1024)


def _status(name: str) -> int:
    path = Path("/proc/self/status")
    if not path.exists():
        return 0
    line = next(line for line in path.read_text(encoding="ascii").splitlines() if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])


def _held() -> dict[str, int]:
    """Return file:line -> bytes allocated there and not freed."""
    if not tracemalloc.is_tracing():
        return {}
    found = tracemalloc.take_snapshot().statistics("lineno")
    held: dict[str, int] = {}
    for statistic in found:
        frame = statistic.traceback[0]
        name = f"{_short(frame.filename)}:{frame.lineno}"
        held[name] = held.get(name, 0) + statistic.size
    return held


def _short(name: str) -> str:
    """Return a path without what is above the installed packages, or above our own."""
    for marker in ("/site-packages/", "/mlflow_l3d/"):
        if marker in name:
            return name.rpartition(marker)[2] if marker == "/site-packages/" else "mlflow_l3d/" + name.split(marker)[-1]
    return "/".join(Path(name).parts[-2:])


def _discard_uploads() -> None:
    """Write no child: what is left is the platform's own memory, and thousands of cells take seconds."""
    from mlflow_l3d.tracking.children import ChildWriter

    def write(_writer: ChildWriter, spool: Any, key: str, *, repeated: bool) -> str:
        del repeated
        spool.set_run_id(key, key)
        return key

    ChildWriter.write = write  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    main()

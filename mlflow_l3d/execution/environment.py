"""What a worker process finds around it: environment variables, a place to run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import ModuleType
from typing import Any, Final

from mlflow_l3d.approaches.numerics import SHARERS, cores, equal_cards

_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
WORKER_ENVIRONMENT: Final = {
    # One thread a worker: several of them side by side beat one that uses all cores, and sums keep their order.
    **dict.fromkeys(_THREADS, "1"),
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Set before the worker's interpreter starts: some libraries look at it only when they are loaded."""

ATTACH_VARIABLES: Final = (
    "MLFLOW_RUN_ID",
    "MLFLOW_RUN_CONTEXT",
    "MLFLOW_ACTIVE_MODEL_ID",
    "_MLFLOW_ACTIVE_MODEL_ID",
)
"""Would attach a run that a worker starts to the parent's; it stays in the parent's experiment."""

INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Ctrl-C, what schedulers send, and the end of the terminal, which `nohup` ignores and Windows lacks."""

_LOCK = threading.Lock()


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block, and put each of them back."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def worker_environment() -> Iterator[None]:
    """Set the variables of a worker for what is started in the block, one thread at a time."""
    with _LOCK, variables(WORKER_ENVIRONMENT):
        yield


@contextmanager
def starting_worker() -> Iterator[None]:
    """Lend a new process its environment, and keep Ctrl-C from it until it can refuse the signal by itself.

    A process inherits both from the thread that starts it. The variables are put back at once; a signal that this
    process gets meanwhile is handled afterwards, since a start that is cut short leaves half a process. Variables are
    only set here: to remove some would race with other threads that read them, so the worker does that, see
    :func:`forget_project_run`.
    """
    with worker_environment():
        was_open = False
        if hasattr(signal, "pthread_sigmask"):
            # It is started with the first process otherwise, and unblocks the signal on the way.
            resource_tracker.ensure_running()
            was_open = signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        main = sys.modules["__main__"]
        # The new process would run the user's script, which has no guard around what it starts; what it needs of the
        # script comes with the job.
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            with deferred_interrupts():
                yield
        finally:
            sys.modules["__main__"] = main
            if was_open:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Let the first of :data:`INTERRUPTS` wait for the end of the block; a second Ctrl-C does not wait.

    An exception in the middle of a database transaction leaves it open, and the database locked for whoever has to
    write that the run was interrupted. A mask alone would not do: other threads take the signal. Does nothing outside
    the main thread, where no signal arrives.
    """
    numbers = INTERRUPTS if threading.current_thread() is threading.main_thread() else ()
    noted: list[int] = []

    def note(number: int, _frame: Any) -> None:
        if noted and number == signal.SIGINT:
            raise KeyboardInterrupt
        noted.append(number)

    previous = {number: signal.signal(number, note) for number in numbers if callable(signal.getsignal(number))}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        # Here, since an exception that ends the block may be caught, and the interrupt would be lost.
        if noted and callable(first := previous[signal.Signals(noted[0])]):
            first(noted[0], None)


def refuse_interrupts() -> None:
    """Ignore what the terminal sends to all: Ctrl-C, and that it is closed; the parent decides."""
    for number in {*INTERRUPTS} - {signal.SIGTERM}:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def alive(process: int) -> bool:
    """Return whether a process of ours lives; what is not ours got its number after its end."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def forget_project_run() -> None:
    """Remove what ties this process to a run of MLflow.

    Of two variables that name an experiment the id counts, as for the parent: MLflow refuses two that differ.
    """
    named_twice = ("MLFLOW_EXPERIMENT_NAME",) if os.environ.get("MLFLOW_EXPERIMENT_ID") else ()
    for name in (*ATTACH_VARIABLES, *named_twice):
        os.environ.pop(name, None)


def share_device(workers: int) -> None:
    """Note for sessions of this process that so many workers compute on its GPU: each plans with its part of it."""
    os.environ[SHARERS] = str(workers)


def places(device: str) -> list[str]:
    """Return the devices that workers share, in turn: every GPU of one kind for ``cuda``, else `device` itself."""
    cards = equal_cards() if device == "cuda" else []
    return [f"cuda:{number}" for number in cards] or [device]


def default_workers(device: str) -> int:
    """Return how many workers there are if the user does not say: one per core on the CPU, else one per device."""
    return cores() if device == "cpu" else len(places(device))

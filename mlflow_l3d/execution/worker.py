"""What runs in a worker, a process or an actor of Ray: prepare once, then one call after the other."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from mlflow_l3d.approaches.failures import LostDeviceError, one_line
from mlflow_l3d.approaches.progress import heard_by
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.environment import forget_project_run, refuse_interrupts, share_device
from mlflow_l3d.execution.outcomes import run_cells
from mlflow_l3d.execution.sessions import JointApproach, cells_at_once, session_of
from mlflow_l3d.execution.workers import Busy, Ended, Message, Ready
from mlflow_l3d.paths import cache_folder

LOST_DEVICE: Final = 74
"""Exit code of a worker whose device takes no more work."""


class RefusedError(Exception):
    """What is here does not compute what the keys say."""


def serve(connection: Connection, device: str, sharers: int, parent: int, parent_is_main_thread: bool) -> None:
    """Run a worker: receive the job, then calls; send an outcome for each of their cells, as it comes.

    Parameters
    ----------
    connection
        Pipe to the parent: the pickled job comes first, then lists of cells, in the end None. What goes back first is
        that the session is ready, or the error that kept it from being so.
    device
        Device of this worker.
    sharers
        How many workers share it.
    parent
        Process id of the parent.
    parent_is_main_thread
        Whether the main thread of the parent started this process.
    """
    refuse_interrupts()
    _die_with_parent(parent, parent_is_main_thread)
    forget_project_run()
    share_device(sharers)

    def load() -> Job:
        return replace(unpickled(connection.recv_bytes()), device=device)

    # The parent is gone, or wants no more; KeyboardInterrupt: of a session that closes if it is terminated.
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        if not serve_calls(load, connection.recv, connection.send):
            # At once: what libraries do at the end of a process may wait for the device for ever.
            os._exit(LOST_DEVICE)


def serve_calls(
    load: Callable[[], Job], receive: Callable[[], list[Cell] | None], send: Callable[[Message], None]
) -> bool:
    """Be a worker: prepare the session, then run one call after the other.

    Parameters
    ----------
    load
        Returns the job; what it raises is sent as an error of the preparation is.
    receive
        Waits for the next call and returns its cells, None if there are no more.
    send
        Takes what the dispatcher is to know.

    Returns
    -------
    Whether the accelerator takes more work from this process, which must end otherwise.
    """
    try:
        job = load()
        with heard_by(lambda state: send(Busy(state))), session_of(job) as session:
            send(Ready(cells_at_once(session, job)))
            while (cells := receive()) is not None:
                for outcome in run_cells(session, cells, job):
                    send(outcome)
    except L3DError as error:
        send(_sendable(error))
    except RefusedError as refused:
        send(Ended(f"worker on {os.uname().nodename} refused: {refused}", refused=True))
    except LostDeviceError as error:
        send(Ended(f"worker lost its device ({error})"))
        return False
    return True


def unpickled(pickled: bytes) -> Job:
    """Return the job that :func:`mlflow_l3d.execution.processes.pickled` made bytes of.

    Raises
    ------
    L3DError
        If it cannot be loaded here.
    """
    try:
        job: Job = pickle.loads(pickled)  # noqa: S301 - our parent's, through our own pipe
    except Exception as error:
        raise L3DError(
            f"a worker process cannot load the approach or the task ({one_line(error)}). "
            "Install the package that it comes from, or use executor=inline."
        ) from error
    return job


def _sendable(error: L3DError) -> L3DError:
    """Return the error itself if it survives the pipe, else its text and notes."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own, a moment ago
    except Exception:  # noqa: BLE001 - whatever a stranger's class raises
        plain = L3DError(str(error))
        for note in getattr(error, "__notes__", ()):
            plain.add_note(note)
        return plain
    return error


def _die_with_parent(parent: int, parent_is_main_thread: bool) -> None:
    """End this process when its parent ends, also in the middle of a long cell.

    A thread waits for the end of the pipe that only the living parent holds. It needs the interpreter for that, so on
    Linux the kernel is asked as well. The kernel looks at the *thread* that started us, so that is only right for the
    parent's main thread.
    """
    process = parent_process()
    if process is not None:
        threading.Thread(target=_watch, args=(process.sentinel,), name="l3d-watchdog", daemon=True).start()
    if sys.platform == "linux":
        if parent_is_main_thread:
            import ctypes

            pr_set_pdeathsig = 1
            ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def checked(job: Job) -> Job:
    """Return a job on the device of this worker, which sees no GPUs but its own.

    Raises
    ------
    RefusedError
        See :func:`refusal`.
    """
    here = replace(job, device="cuda:0") if job.device.startswith("cuda") else job
    if why := refusal(here):
        raise RefusedError(why)
    return here


def refusal(job: Job) -> str:
    """Return why cells of `job` must not be computed here, else the empty text.

    Their keys name the device, its card, versions of libraries and the revision of the model (`job.numerics`,
    `job.model_revision`), found on another machine.
    """
    joint = job.approach
    jobs = [replace(each, device=job.device) for each in joint.jobs] if isinstance(joint, JointApproach) else [job]
    try:
        return "; ".join(dict.fromkeys(filter(None, map(_difference, jobs))))
    except L3DError as error:
        return str(error)


def _difference(job: Job) -> str:
    here = {**job.approach.numerics(job.device), **job.approach.dependencies(job.hyperparameters, job.model)}
    expected = dict(job.numerics)
    if job.model_revision:
        here["model"] = job.approach.model_revision(job.model)
        expected["model"] = job.model_revision
    differing = {name: value for name, value in here.items() if expected.get(name, value) != value}
    differ = ", ".join(f"{name} is {value}, not {expected[name]}" for name, value in differing.items())
    why = "it differs from the machine that planned the study, or a file has changed since"
    return f"{why}: {differ}; make them equal" if differ else ""


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

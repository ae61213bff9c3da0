"""Cells in actors of a Ray cluster: an actor is a worker that stays, on a GPU or a share of one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.approaches.failures import LAST_SECONDS, one_line
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Value
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.errors import L3DError, imported, logger
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.environment import WORKER_ENVIRONMENT, alive
from mlflow_l3d.execution.processes import PoolExecutor, complete, pickled
from mlflow_l3d.execution.worker import CellActor, Here
from mlflow_l3d.execution.workers import Ended, Message, Pool, Worker

if TYPE_CHECKING:
    from ray import ObjectRef, ObjectRefGenerator

OPTIONS: Final[Mapping[str, Hyperparameter]] = {
    "address": Hyperparameter("", "of the cluster; empty: RAY_ADDRESS, else a cluster of this machine alone"),
    "num_gpus": Hyperparameter(
        AUTO, "GPUs of a worker; auto is 1 with device=cuda, else 0; 0.5: two workers share one", low=0.01, auto=float
    ),
    "num_cpus": Hyperparameter(1.0, "cores of a worker", low=0.0),
    "memory_gb": Hyperparameter(0.0, "memory that a worker reserves, GB; 0 for none", low=0.0),
    "accelerator_type": Hyperparameter("", "card that a worker must have, as Ray calls it, such as H100"),
}
RESOURCES_SECONDS: Final = 5.0
"""Between two looks at what the cluster has."""
UNAVAILABLE_SECONDS: Final = 60.0
"""How long Ray may take to find out what became of an actor."""
WAITING_SECONDS: Final = 60.0
"""So long without a worker, and a line says what they wait for."""


class ActorWorker(Worker):
    """An actor; `stream` is what it says."""

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self.actor = actor
        self.stream: ObjectRefGenerator = actor.serve.options(num_returns="streaming").remote()
        self.here: Here | None = None
        self.question: ObjectRef[None] | None = None
        self.unavailable_since = 0.0

    def give(self, cells: list[Cell] | None) -> None:
        """Send a call; that the actor is gone shows in its stream."""
        self.actor.give.options(num_returns=0).remote(cells)


class ActorPool(Pool[ActorWorker]):
    """The actors of one job.

    Parameters
    ----------
    job
        What the cells share; it lies in the object store, so that a node gets it once.
    workers
        How many there may be; None: as many as the cluster has room for, also while it grows.
    options
        Of :data:`OPTIONS`, complete.
    """

    lets_wait = False

    def __init__(self, job: Job, workers: int | None, options: Mapping[str, Any]) -> None:
        super().__init__(workers or 0)
        ray = connected(options)
        self._ray = ray
        self._home = ray.get_runtime_context().get_node_id()
        self._asks = asked(options, gpu=job.device.startswith("cuda"))
        sharers = max(1, int(1 / self._asks["num_gpus"])) if self._asks["num_gpus"] else 1
        self._arguments = (ray.put(pickled(job, "ray")), self._home, sharers)
        self._class = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=2)(CellActor)
        self._room, self._looked = 0, 0.0
        self._began: float | None = time.monotonic()

    @property
    def most(self) -> int:
        """As many as were asked for, or as the cluster has room for now."""
        if self._most:
            return self._most
        if not self._room or time.monotonic() - self._looked > RESOURCES_SECONDS:
            self._looked = time.monotonic()
            has = self._ray.cluster_resources()
            rooms = [has.get(kind, 0) / self._asks[name] for name, kind in _KINDS.items() if self._asks[name]]
            self._room = max(1, int(min(rooms, default=1)))
        return self._room

    def start(self) -> ActorWorker:
        """Ask for an actor; it comes when there is a place, and an autoscaler sees that it waits."""
        return ActorWorker(self._class.options(**self._asks, runtime_env=_ENVIRONMENT).remote(*self._arguments))

    def events(self, seconds: float) -> Iterator[tuple[ActorWorker, Message]]:
        """Wait for the streams."""
        streams = {worker.question or worker.stream: worker for worker in self.workers}
        if not streams:
            return
        ready, _ = self._ray.wait(list(streams), timeout=seconds, fetch_local=False)
        if ready and len(streams) > 1:  # whoever else has said something
            ready, _ = self._ray.wait(list(streams), num_returns=len(streams), timeout=0, fetch_local=False)
        self._say_what_is_waited_for(bool(ready))
        for stream in ready:
            worker = streams[stream]
            if worker not in self.workers:
                continue
            for message in self._read(worker):
                if isinstance(message, Here):
                    worker.here = message
                else:
                    yield worker, message

    def _read(self, worker: ActorWorker) -> Sequence[Message | Here]:
        errors = self._ray.exceptions
        try:
            if worker.question is not None:
                self._ray.get(worker.question)
                return [Ended("worker lost its connection", blameless=True)]
            messages: list[Message | Here] = self._ray.get(next(worker.stream))
        except StopIteration:
            return [Ended("worker ended")]
        except errors.ActorUnavailableError as error:
            # Ray does not know yet whether the actor, its node or the network has failed: what is asked now it answers
            # when it does.
            worker.unavailable_since = worker.unavailable_since or time.monotonic()
            if time.monotonic() - worker.unavailable_since > UNAVAILABLE_SECONDS:
                return [Ended(f"worker cannot be reached ({_why(error)})", blameless=True)]
            worker.question = worker.actor.answer.remote()
            return []
        except errors.RayError as error:
            gone = self._machine_gone(worker, error)
            return [Ended(f"worker {'lost its machine' if gone else 'ended'} ({_why(error)})", gone)]
        return messages

    def _machine_gone(self, worker: ActorWorker, error: Exception) -> bool:
        """Return whether Ray says that the node is gone, or was taken away."""
        if getattr(error, "preempted", False) or "node has died" in str(error):
            return True
        nodes = {node["NodeID"]: node["Alive"] for node in self._ray.nodes()}
        return worker.here is not None and not nodes.get(worker.here.node, False)

    def _say_what_is_waited_for(self, heard: bool) -> None:
        if heard or self._began is None:
            self._began = None
        elif time.monotonic() - self._began > WAITING_SECONDS:
            self._began = None
            logger.warning(
                "Ray has no place for a worker so far: %s; it has %s", self._asks, self._ray.cluster_resources()
            )

    def end(self, workers: Sequence[ActorWorker], *, at_once: bool) -> None:
        """Kill actors, or let those that are ready close their sessions first."""
        if not at_once:
            closing = [worker for worker in workers if worker.ready]
            for worker in closing:
                worker.give(None)
            deadline = time.monotonic() + LAST_SECONDS
            for worker in closing:
                self._until_over(worker, deadline)
        for worker in workers:
            self._ray.kill(worker.actor)
        own = [worker.here.process for worker in workers if worker.here and worker.here.node == self._home]
        deadline = time.monotonic() + LAST_SECONDS
        while any(map(alive, own)) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _until_over(self, worker: ActorWorker, deadline: float) -> None:
        with suppress(StopIteration, self._ray.exceptions.RayError):
            while self._ray.wait([worker.stream], timeout=max(0.0, deadline - time.monotonic()))[0]:
                self._ray.get(next(worker.stream))


_KINDS: Final = {"num_gpus": "GPU", "num_cpus": "CPU"}
_ENVIRONMENT: Final = {"env_vars": dict(WORKER_ENVIRONMENT)}


def asked(options: Mapping[str, Any], *, gpu: bool) -> dict[str, Any]:
    """Return what an actor asks of Ray."""
    gpus = options["num_gpus"]
    asks = {"num_cpus": options["num_cpus"], "num_gpus": float(gpu) if gpus == AUTO else gpus}
    if options["memory_gb"]:
        asks["memory"] = int(options["memory_gb"] * 1e9)
    if options["accelerator_type"]:
        asks["accelerator_type"] = options["accelerator_type"]
    return asks


def connected(options: Mapping[str, Any]) -> Any:
    """Return the module of Ray, connected to a cluster: the one of this process, the named one, or one of this machine.

    Raises
    ------
    L3DError
        If Ray is not installed, or there is no such cluster.
    """
    # Nothing is to be sent to anybody, and 0 GPUs hide none.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = imported("ray", "executor=ray", "ray")
    if ray.is_initialized():
        return ray
    address = options["address"] or os.environ.get("RAY_ADDRESS", "")
    try:
        if address:
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(address="local", include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = f"at {address}" if address else "on this machine"
        unset = bool(address) and "RAY_AUTH_MODE" not in os.environ
        fix = ". If it asks for a token, export RAY_AUTH_MODE=token" if unset else ""
        raise L3DError(f"executor=ray finds no cluster {where} ({one_line(error)}){fix}") from error
    return ray


class RayExecutor(PoolExecutor):
    """Runs cells in actors of a Ray cluster, usually as many as it has room for, also while it grows."""

    pool, options = ActorPool, OPTIONS
    gpu_options = ("num_gpus",)

    @staticmethod
    def on_worker(function: Callable[..., Any], *arguments: object, options: Mapping[str, Value]) -> Any:
        """Return what a task of Ray gets when it calls `function` with the GPUs of a worker."""
        all_options = complete(OPTIONS, options)
        ray = connected(all_options)
        task = ray.remote(max_retries=0)(function).options(**asked(all_options, gpu=True), runtime_env=_ENVIRONMENT)
        try:
            return ray.get(task.remote(*arguments))
        except ray.exceptions.RayError as error:
            raise L3DError(f"executor=ray: no worker says what it computes with ({_why(error)})") from error


def _why(error: Exception) -> str:
    """Return what Ray says of an end, without where its logs are."""
    text = " ".join(str(error).split())
    for begin in ("Worker exit detail: ", "The actor is dead because ", "The actor died because "):
        text = text.partition(begin)[2] or text
    return text.partition(". ")[0][:200]

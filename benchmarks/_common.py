"""What the benchmarks share: a place to work, stores and servers, child processes, tables."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MPLBACKEND": "Agg",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",
}


def machine() -> str:
    """Return what the numbers depend on, as Markdown; call it first, for the load that others make."""
    import platform
    from importlib.metadata import version

    load = " ".join(f"{value:.2f}" for value in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"Machine: {cores} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"mlflow {version('mlflow')}, load average at start {load}."
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; numbers with a decimal point have one decimal."""

    def text(value: object) -> str:
        return f"{value:.1f}" if isinstance(value, float) else str(value)

    lines = ["| " + " | ".join(headers) + " |", "|" + " --- |" * len(headers)]
    return "\n".join([*lines, *("| " + " | ".join(map(text, row)) + " |" for row in rows)])


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Return median and range of the repeats."""
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


@dataclass(frozen=True)
class Workplace:
    """A temporary folder, and the environment of child processes that touch nothing outside it."""

    folder: Path
    environment: Mapping[str, str]

    def new_folder(self, name: str) -> Path:
        """Create a folder; its name must be new."""
        path = self.folder / name
        path.mkdir()
        return path

    def start(self, script: str, settings: Mapping[str, Any], folder: Path, **environment: str) -> Child:
        """Start one of our scripts in `folder` with `settings` as its JSON argument."""
        result = folder / f"{Path(script).stem}-{settings.get('share', 0)}.json"
        content = {**settings, "result": str(result), "spawned": time.perf_counter()}
        process = subprocess.Popen(
            [sys.executable, str(FOLDER / script), json.dumps(content)],
            cwd=folder,
            env={**self.environment, "L3D_CACHE": str(folder / "cache"), **environment},
        )
        return Child(process, result)


@dataclass(frozen=True)
class Child:
    """A started script."""

    process: subprocess.Popen[bytes]
    result: Path

    def wait(self) -> dict[str, Any]:
        """Return what the script wrote with :func:`answer`."""
        try:
            code = self.process.wait()
        except BaseException:
            self.process.terminate()
            self.process.wait()
            raise
        if code:
            msg = f"a benchmark process ended with exit code {code}; its output above says why"
            raise SystemExit(msg)
        content: dict[str, Any] = json.loads(self.result.read_text(encoding="utf-8"))
        return content


def settings_of_child() -> dict[str, Any]:
    """Return the settings that :meth:`Workplace.start` gave this process."""
    content: dict[str, Any] = json.loads(sys.argv[1])
    return content


def answer(settings: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Hand the result of a child process to its parent."""
    Path(settings["result"]).write_text(json.dumps(content), encoding="utf-8")


@contextmanager
def workplace() -> Iterator[Workplace]:
    """Make a temporary folder and remove it in the end; no run, experiment or store of the user's is inherited."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "L3D_"))}
    with tempfile.TemporaryDirectory(prefix="l3d-benchmark-") as name:
        yield Workplace(Path(name), {**inherited, **ENVIRONMENT})


_MIGRATE = """
import sys, time
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
started = time.perf_counter()
SqlAlchemyStore("sqlite:///" + sys.argv[1], sys.argv[2]).engine.dispose()
print(time.perf_counter() - started)
"""


def empty_store(place: Workplace) -> tuple[Path, float]:
    """Create and migrate an SQLite store, once for all runs; return it and the seconds that took."""
    path = place.folder / "empty.db"
    command = [sys.executable, "-W", "ignore", "-c", _MIGRATE, str(path), str(place.folder / "unused")]
    done = subprocess.run(command, cwd=place.folder, env=place.environment, check=True, capture_output=True)
    return path, float(done.stdout.split()[-1])


@contextmanager
def tracking_server(place: Workplace, template: Path) -> Iterator[tuple[str, int]]:
    """Run `mlflow server` with its default number of workers on loopback; give its URI and process id."""
    folder = place.new_folder("server")
    shutil.copyfile(template, folder / "mlflow.db")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    # Consumers of jobs are several more processes that load the machine while they start, and serve no request.
    environment = {**place.environment, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        uri = f"http://127.0.0.1:{port}"
        wait_until_healthy(uri, process, folder / "server.log")
        yield uri, process.pid
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)


def wait_until_healthy(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers; show the end of its log if it does not."""
    deadline = time.monotonic() + 120
    while True:
        with suppress(OSError), urllib.request.urlopen(f"{uri}/health", timeout=5) as reply:
            if reply.status == 200:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            msg = "the server did not start:\n" + log.read_text(errors="replace")[-2000:]
            raise SystemExit(msg)
        time.sleep(0.2)


def tree_cpu_seconds(pid: int | None) -> float:
    """Return the CPU seconds of a process and its living descendants; 0 for None."""
    if pid is None:
        return 0.0
    import psutil

    seconds = 0.0
    parent = psutil.Process(pid)
    for process in (parent, *parent.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds

"""Processes that begin with MLflow imported: forks of one that has imported it, which takes seconds each time."""

import atexit
import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import mkdtemp

multiprocessing.get_context("forkserver").set_forkserver_preload(
    [
        "uvicorn",  # MLflow's server looks whether it is there
        "mlflow.cli",
        "mlflow.server.fastapi_app",
        "mlflow.store.tracking.sqlalchemy_store",
        "known_schema",
        "mlflow_l3d.cli",
        "mlflow_l3d.studies.ablation.report",
        "mlflow_l3d.studies.investigation.report",
        "mlflow_l3d.studies.gate.run",
        "mlflow_l3d.studies.investigation.run",
        "mlflow_l3d.studies.search.run",
        "mlflow_l3d.studies.sweep.run",
        # What these import later
        "IPython",
        "git",
        "optuna",
        "mlflow.store.tracking.sqlalchemy_workspace_store",
        "pyarrow.dataset",
        "pyarrow.parquet",
        "scipy.stats",
        "sqlalchemy.dialects.sqlite",
        "warm_caches",
    ]
)


_SHARED = "L3D_TEST_FORKS"
"""Where workers of pytest-xdist find the process that others are forks of: to import all of it takes 4 s of a core."""


def share_server() -> None:
    """Start that process for all workers that this process starts; from Python 3.14 each of them has its own."""
    if sys.version_info < (3, 14):
        start_server()
        os.environ[_SHARED] = str(forkserver._forkserver._forkserver_address).replace("\0", "@")


def start_server() -> None:
    """Start the process that others are forks of, if it does not run."""
    server, address = forkserver._forkserver, os.environ.get(_SHARED)
    if address and server._forkserver_address is None:
        server._forkserver_address = address.replace("@", "\0")
        server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
        server.ensure_running = resource_tracker.ensure_running
    if address:
        return
    before = os.environ.get("PYTHONPATH")
    # It begins without our folder, and leaves out what it cannot import.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parent), before)))
    try:
        forkserver.ensure_running()
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


class WarmStart(ForkServerProcess):
    """``python ARGUMENTS``, started in a session of its own.

    It has what tests use of :class:`subprocess.Popen`.
    """

    def __init__(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        super().__init__()
        self._arguments, self._cwd, self._env = list(arguments), cwd, dict(env)
        self._texts = Path(mkdtemp(prefix="output-", dir=cwd))
        start_server()
        self.start()

    def run(self) -> None:
        """Become that process."""
        gc.freeze()  # all that is imported stays
        os.setsid()
        for number in (1, 2):
            os.dup2(os.open(self._texts / str(number), os.O_WRONLY | os.O_CREAT), number)
        os.chdir(self._cwd)
        os.environ.clear()
        os.environ.update(self._env)
        sys.path[:0] = filter(None, self._env.get("PYTHONPATH", "").split(os.pathsep))
        of_a_module = self._arguments[0] == "-m"
        sys.argv = self._arguments[int(of_a_module) :]
        try:
            if of_a_module:
                runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            atexit._run_exitfuncs()

    def poll(self) -> int | None:
        """Return its exit status, or the negative number of the signal that ended it; None while it runs."""
        return self.exitcode

    returncode = property(poll)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and return what it wrote to stdout and stderr."""
        self.join(timeout)
        if self.is_alive():
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0)
        stdout, stderr = ((self._texts / name).read_text() for name in ("1", "2"))
        return stdout, stderr

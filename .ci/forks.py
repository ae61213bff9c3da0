"""Run tests in forks of one process that has collected them, since each process would import the same for ten seconds.

``forks.py serve SOCKET COMMAND...`` collects the tests, then runs a command and returns its status. While that runs, a
call of ``forks.py ask SOCKET`` with the arguments of ``python -c TEXT`` lets a fork run that text in its own place.
Give such a call to pytest-xdist as the Python of its workers. If it cannot fork here, it ends with status 75 before it
has run the command.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
from pathlib import Path

CANNOT = 75


def ask_for_a_fork(path: str, arguments: list[str]) -> None:
    """Let a fork have this process's files, folder, environment and arguments, and wait for its end."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [b"-"], [0, 1, 2])
        server.sendall(json.dumps([str(Path.cwd()), dict(os.environ), arguments]).encode() + b"\n")
        server.recv(1)


def collect() -> None:
    """Import the tests and all that they import, and start the server that they fork from in their turn."""
    import threading
    from contextlib import redirect_stdout

    import pytest

    with redirect_stdout(io.StringIO()) as said:
        status = pytest.main(["--collect-only", "-q"])
    lines = said.getvalue().rstrip()
    if status or threading.active_count() > 1:  # a fork has one thread, and locks of others stay locked in it
        print(f"{lines}\nforks.py: status {status}, threads {threading.enumerate()}", flush=True)
        os._exit(CANNOT)
    print(lines.rpartition("\n")[2], flush=True)
    from warm_start import start_server  # of the tests

    start_server()


def serve(path: str, command: list[str]) -> None:
    """Run a command, and fork when somebody asks for it; a fork returns when its work is done."""
    import subprocess

    environment = dict(os.environ)
    collect()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(0.5)
        process = subprocess.Popen(command, env=environment)
        while process.poll() is None:
            try:
                asked, _ = listener.accept()
            except TimeoutError:
                continue
            with asked:
                if os.fork() == 0:
                    listener.close()
                    process.returncode = 0  # it is no child of this one
                    work_for(asked)
                    return
    sys.exit(process.returncode)


def work_for(asked: socket.socket) -> None:
    """Run ``python -c TEXT`` with the files, folder, environment and arguments of who asks."""
    import tempfile
    import types
    from multiprocessing import forkserver, resource_tracker

    _, files, _, _ = socket.recv_fds(asked, 1, 3)
    with asked.makefile() as lines:
        folder, environment, arguments = json.loads(lines.readline())
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115 - it stays open
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.argv = ["-c"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")  # what tests start imports what it finds there
    # Of the first process: one that lives on, and cannot be waited for, and one that each has for itself.
    sys.modules["warm_start"].start_server = forkserver._forkserver.ensure_running = lambda: None
    resource_tracker._resource_tracker._fd = resource_tracker._resource_tracker._pid = None
    exec(arguments[-1], vars(main))


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask_for_a_fork(sys.argv[2], sys.argv[3:])
    else:
        serve(sys.argv[2], sys.argv[3:])

"""A program of its own: it runs commands for the process at its pipes, and ends all that they started.

A request is a line of JSON on stdin, its answer one on stdout. Whoever asks may be killed: stdin ends then, and what
still runs is killed. Imports nothing of ours, since it must start at once.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_TAIL_BYTES: Final = 1 << 20
_library: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def main() -> None:
    """Answer requests until stdin ends."""
    for number in (signal.SIGINT, signal.SIGHUP):  # workers leave these to who started them, and commands must not
        signal.signal(number, signal.SIG_DFL)
    if _library:
        # What loses its parent becomes a child of ours, be it in a session of its own.
        _library.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        print(json.dumps(_run(**requests.get())), flush=True)  # noqa: T201


def _listen(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    _end_all()
    os.killpg(0, signal.SIGKILL)


def _run(arguments: list[str], folder: str, environment: dict[str, str]) -> dict[str, Any]:
    """Return status and last words of a command, or why it cannot be started."""
    dies_with_us = (lambda: _library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)) if _library else None
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user typed, without a shell
            arguments, cwd=folder, env=environment, preexec_fn=dies_with_us, **pipes
        )
    except (OSError, ValueError) as error:
        return {"refused": getattr(error, "strerror", None) or str(error)}
    tails = {name: bytearray() for name in ("stdout", "stderr")}
    readers = [
        threading.Thread(target=_read, args=(getattr(process, name), tails[name]), daemon=True) for name in tails
    ]
    for reader in readers:
        reader.start()
    status = process.wait()
    _end_all()
    for reader in readers:
        reader.join(None if _library else 1.0)  # elsewhere than on Linux, what runs on may hold the stream open
    return {"status": status, **{name: tail.decode("utf-8", "replace") for name, tail in tails.items()}}


def _read(stream: Any, tail: bytearray) -> None:
    """Keep the end of a stream, so that its writer never waits."""
    with stream:
        while chunk := stream.read1(_TAIL_BYTES):
            tail += chunk
            del tail[:-_TAIL_BYTES]


def _end_all() -> None:
    """Kill all that was started here and still runs, on Linux; elsewhere it ends with this process."""
    with suppress(ChildProcessError):
        while _library:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                for status in Path("/proc").glob("[0-9]*/stat"):
                    with suppress(OSError):
                        if int(status.read_bytes().rpartition(b")")[2].split()[1]) == os.getpid():
                            os.kill(int(status.parent.name), signal.SIGKILL)
                os.waitpid(-1, 0)


if __name__ == "__main__":
    main()

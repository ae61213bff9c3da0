"""A program of its own: it runs commands for the process at its pipes, and ends all that they started.

A request is a line of JSON on stdin, and its answer one on stdout. Whoever asks may be killed: stdin ends then, and what
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
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LINUX: Final = sys.platform.startswith("linux")
_TAIL_BYTES: Final = 1 << 16
_groups: list[int] = []


def main() -> None:
    """Answer requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # workers leave Ctrl-C to who started them, and commands must not
    if _LINUX:
        # What loses its parent becomes a child of ours, be it in a session of its own.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        print(json.dumps(_run(**requests.get())), flush=True)  # noqa: T201


def _listen(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    _end_all()
    os._exit(0)


def _run(arguments: Sequence[str], folder: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return status and last words of a command, or why it cannot be started."""
    library = ctypes.CDLL(None) if _LINUX else None  # loaded before the fork: afterwards little is safe
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603 - what the user typed, without a shell
                arguments,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                process_group=0,
                preexec_fn=(lambda: library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)) if library else None,
            )
        except (OSError, ValueError) as error:
            return {"refused": getattr(error, "strerror", None) or str(error)}
        _groups[:] = [process.pid]
        status = process.wait()
        _end_all()
        said.seek(max(0, said.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return {"status": status, "said": said.read().decode("utf-8", "replace")}


def _end_all() -> None:
    """Kill all that was started here and still runs."""
    with suppress(ChildProcessError, ProcessLookupError):
        while _LINUX:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                for process in _children():
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(process, signal.SIGKILL)
                os.waitpid(-1, 0)
        for group in _groups:
            os.killpg(group, signal.SIGKILL)


def _children() -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[1]
            if int(parent) == os.getpid():
                yield int(folder.name)


if __name__ == "__main__":
    main()

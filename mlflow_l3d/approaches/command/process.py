"""One run of a command: no shell, its own folder, and no longer than the process that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from mlflow_l3d.errors import L3DError

_PR_SET_PDEATHSIG: Final = 1
_TAIL_BYTES: Final = 4096
_LONGEST_LINE: Final = 200


def run_line(line: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Run a line for a shell as :func:`run` does; what it starts ends with it, however that is."""
    # The shell is told when we are gone, and takes its group, all that it started, with it.
    run(["bash", "-c", f"trap 'kill -KILL 0' TERM; ({line}\n) & wait $!"], folder, environment, group=True)


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], *, group: bool = False) -> str:
    """Run a command in a folder until it ends.

    Where this process is killed the command is, too. With `group` it has a process group of its own, and is sent
    SIGTERM; without, it is in ours, so that Ctrl-C reaches all that it started.

    Returns
    -------
    The last line that it wrote to stderr, if any.

    Raises
    ------
    L3DError
        If it cannot be started, or ends with another status than 0; with the last line that it wrote to stderr.
    """
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603 - what the user typed, without a shell
                list(arguments),
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                preexec_fn=_ends_with_us(signal.SIGTERM if group else signal.SIGKILL),
                process_group=0 if group else None,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise L3DError(f"{Path(arguments[0]).name} cannot be started ({reason})") from None
        try:
            status = process.wait()
        except BaseException:
            if group:
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
            raise
        said.seek(0, os.SEEK_END)
        said.seek(max(0, said.tell() - _TAIL_BYTES))
        lines = said.read().decode("utf-8", "replace").split("\n")
    last = next((line.strip()[-_LONGEST_LINE:] for line in reversed(lines) if line.strip()), "")
    if status:
        how = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
        raise L3DError(f"the command ended with {how}: {last or 'it said nothing'}")
    return last


def _ends_with_us(how: signal.Signals) -> Callable[[], None] | None:
    """Return what sends a child a signal when its parent dies, be that killed: Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)  # loaded before the fork: afterwards little is safe

    def ends() -> None:
        library.prctl(_PR_SET_PDEATHSIG, how)
        library.signal(int(signal.SIGINT), 0)  # workers leave Ctrl-C to who started them, and commands must not

    return ends

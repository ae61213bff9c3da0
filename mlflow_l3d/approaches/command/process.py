"""One run of a command: no shell, its own folder, and no longer than the process that started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.errors import L3DError
from mlflow_l3d.privacy import public_text

_LONGEST_LINE: Final = 200
_idle: dict[int, list[subprocess.Popen[bytes]]] = {}
"""Process -> supervisors that it has started and that run nothing; a fork must not use those of its parent."""


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command in a folder until it ends; all that it started ends with it.

    So it does when this process ends, be it killed. Elsewhere than on Linux, what runs on after the command ends only
    with this process, and not at all if it left the session.

    Returns
    -------
    The last line that it wrote to stderr, if any.

    Raises
    ------
    L3DError
        If it cannot be started, or ends with another status than 0; with the last line that it wrote to stderr.
    """
    request = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
    supervisor = _supervisor()
    try:
        answer = _answer(supervisor, request)
    except BaseException:
        supervisor.communicate()  # its stdin ends, so it ends all
        raise
    _idle[os.getpid()].append(supervisor)
    if reason := answer.get("refused"):
        raise L3DError(f"{Path(arguments[0]).name} cannot be started ({reason})")
    lines, status = answer["said"].split("\n"), answer["status"]
    last = next((public_text(line.strip())[-_LONGEST_LINE:] for line in reversed(lines) if line.strip()), "")
    if status:
        how = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
        raise L3DError(f"the command ended with {how}: {last or 'it said nothing'}")
    return str(last)


def _answer(supervisor: subprocess.Popen[bytes], request: Mapping[str, Any]) -> dict[str, Any]:
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    try:
        supervisor.stdin.write(json.dumps(request).encode() + b"\n")
        supervisor.stdin.flush()
        answer: dict[str, Any] = json.loads(supervisor.stdout.readline())
    except (OSError, ValueError) as error:
        raise L3DError(f"the process that runs the command was ended ({type(error).__name__})") from None
    return answer


def _supervisor() -> subprocess.Popen[bytes]:
    """Return a supervisor that runs nothing; one is started if there is none."""
    idle = _idle.setdefault(os.getpid(), [])
    while idle:
        if (supervisor := idle.pop()).poll() is None:
            return supervisor
        supervisor.communicate()
    program = [sys.executable, "-IS", str(Path(__file__).with_name("supervisor.py"))]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    # In a session of its own: a signal to ours must not end it before what it runs.
    return subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=nothing, start_new_session=True)  # noqa: S603

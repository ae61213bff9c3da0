"""``mlflow server`` in one process: the program would start another interpreter, which imports MLflow again."""

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mlflow import server
from mlflow.cli import cli


def become(command: Sequence[str], *, extra_env: Mapping[str, str], **_: Any) -> None:
    """Run ``python -m MODULE ARGUMENTS`` here."""
    os.environ.update(extra_env)
    sys.argv = list(command[2:])
    runpy.run_module(command[2], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    server._exec_cmd = become
    cli(["server", *sys.argv[1:]])

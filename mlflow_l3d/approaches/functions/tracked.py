"""What a function finds in MLflow, and leaves behind there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_SET_BY_MLFLOW: Final = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID")


@contextmanager
def own_mlflow() -> Iterator[None]:
    """Hide open runs from the block, end those that it leaves open, and put MLflow's server and experiment back.

    Otherwise a study is recorded where its function logs, and the next call finds a run open.
    """
    variables = {name: os.environ[name] for name in _SET_BY_MLFLOW if name in os.environ}
    chosen, hidden = _chosen(), [*_open_runs()]
    _open_runs().clear()
    try:
        yield
    finally:
        while _open_runs():
            sys.modules["mlflow"].end_run()
        _open_runs().extend(hidden)
        if chosen != _chosen():
            sys.modules["mlflow"].set_tracking_uri(chosen[0])
            vars(sys.modules["mlflow.tracking.fluent"])["_active_experiment_id"] = chosen[1]
            for name in _SET_BY_MLFLOW:
                os.environ.pop(name, None)
            os.environ.update(variables)


def _open_runs() -> list[Any]:
    """Return MLflow's own list of the open runs of this thread; another one if nothing imported it."""
    stack = getattr(sys.modules.get("mlflow.tracking.fluent"), "_active_run_stack", None)
    return [] if stack is None else stack.get()


def _chosen() -> tuple[Any, Any]:
    """Return the server and the experiment that were set; None for what was not."""
    loaded = [sys.modules.get(f"mlflow.tracking.{name}") for name in ("_tracking_service.utils", "fluent")]
    names = ("_tracking_uri", "_active_experiment_id")
    server, experiment = (getattr(module, name, None) for module, name in zip(loaded, names, strict=True))
    return server, experiment

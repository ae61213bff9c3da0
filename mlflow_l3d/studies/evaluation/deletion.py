"""`delete` deletes a parent run and all runs below it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mlflow_l3d.errors import L3DError, ParameterError, logger
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import children_of
from mlflow_l3d.tracking.connection import Client, Run, connect, own_settings
from mlflow_l3d.tracking.earlier.past import cells_in_other_studies
from mlflow_l3d.tracking.earlier.reader import parent_run

_PARENTS: Final = ("investigation", "sweep", "gate", "golden_runs")


@dataclass(frozen=True)
class Deletion:
    """The result of :func:`delete`.

    Attributes
    ----------
    runs
        Number of deleted runs, the parent run included.
    """

    runs: int

    def summary(self) -> str:
        """Return the text that the command line prints."""
        if not self.runs:
            return "nothing was deleted"
        return (
            f"{self.runs} runs deleted. Until `mlflow gc` they can be restored: in MLflow's list of runs under State: "
            "Deleted, or one by one with mlflow.MlflowClient().restore_run(RUN_ID)."
        )


def delete(parent_run_id: str, *, ask: bool = False) -> Deletion:
    """Delete a parent run, sweep or gate, and all runs below it; MLflow keeps deleted runs until its own `mlflow gc`.

    Parameters
    ----------
    parent_run_id
        The parent run.
    ask
        Whether to ask on the terminal first.

    Raises
    ------
    ParameterError
        If there is no such run, or nobody can be asked.
    L3DError
        If it is neither a parent run of cells nor a sweep or gate.

    Examples
    --------
    >>> import mlflow_l3d
    >>> run = mlflow_l3d.seeds("synthetic", approach="synthetic", seeds=[4, 5, 6], executor="inline")
    >>> mlflow_l3d.delete(run.run_id)
    Deletion(runs=4)
    """
    if not isinstance(parent_run_id, str):
        raise ParameterError("parent_run_id", type(parent_run_id).__name__, "must be the id of a run")
    with own_settings():
        client = connect()
        parent = parent_run(client, parent_run_id)
        if parent.data.tags.get(names.ROLE) not in _PARENTS:
            raise L3DError(
                f"parent_run_id={parent_run_id}: is not the parent of an investigation; nothing was deleted."
            )
        runs = [*_below(client, parent), parent]
        shared = _shared_words(client, runs)
        if ask and not _agreed(f"{len(runs):,} runs: {parent.info.run_name}, and all below it{shared}"):
            return Deletion(0)
        if shared and not ask:
            logger.warning("Deleting %s%s.", parent.info.run_name, shared)
        for run in runs:
            client.delete_run(run.info.run_id)
    return Deletion(len(runs))


def _agreed(what: str) -> bool:
    """Return whether the user agrees; raise a ParameterError without a terminal."""
    if not sys.stdin.isatty():
        raise ParameterError("yes", "false", f"would delete {what}; nobody can be asked here", "Add --yes.")
    return input(f"Delete {what}? [y/N] ").strip().lower() in ("y", "yes")


def _shared_words(client: Client, runs: Sequence[Run]) -> str:
    """Return how many cells of other finished studies are among some runs; empty if there are none."""
    parents = [str(run.info.run_id) for run in runs if run.data.tags.get(names.ROLE) in _PARENTS]
    others = cells_in_other_studies(client, {str(run.info.run_id) for run in runs}, parents)
    cells = counted(len(set().union(*others.values())), "cell")
    return f"; other finished studies lose {cells} (run {', '.join(others)})" if others else ""


def _below(client: Client, parent: Run) -> Iterator[Run]:
    """Yield the child runs of a run, each after its own child runs."""
    for child in list(children_of(client, str(parent.info.experiment_id), str(parent.info.run_id))):
        if child.data.tags.get(names.ROLE) in _PARENTS:
            yield from _below(client, child)
        yield child

"""Cells with several members: those that are not stored are trained together, and the remedy combines them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Protocol

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.cure.ensembles import combine
from mlflow_l3d.analysis.cure.remedy import Remedy
from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.cells.cell import Cell, Outcome, content_key
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.known import named, of_kind, registered
from mlflow_l3d.tasks.base import Task


class HasMembers(Protocol):
    """The part of a cured approach that its sessions use; see :class:`mlflow_l3d.approaches.cured.approach.Cured`."""

    approach: Approach
    remedy: Remedy
    members: Path | None
    context: str

    def member_seeds(self, seeds: Mapping[str, int]) -> list[dict[str, int]]:
        """Return the seeds of each member of a cell."""
        ...

    def member_keys(self, context: str, seeds: Mapping[str, int]) -> list[str]:
        """Return the key of each member as a cell without the remedy."""
        ...


class CuredSession(Session):
    """Runs the members of its cells in a session of the approach that is cured.

    Parameters
    ----------
    cured
        The approach with its remedy.
    session
        A session of the approach without it.
    task
        The data.
    active
        Factors that have an effect: those whose seeds are in keys.
    """

    def __init__(self, cured: HasMembers, session: Session, task: Task, active: Sequence[str]) -> None:
        self.cured, self.session, self.task, self.active = cured, session, task, active
        self.cells_at_once = max(1, session.cells_at_once // cured.remedy.members)

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Train the members of all cells that are not stored, as many in a call as the inner session takes."""
        members: dict[str, dict[int, Outcome]] = {}
        owners: dict[str, tuple[Cell, int]] = {}
        waiting: list[Cell] = []
        for cell in cells:
            members[cell.key] = stored = self._stored(cell)
            for number, seeds in enumerate(self.cured.member_seeds(cell.seeds)):
                if number not in stored:
                    key = content_key({"cell": cell.key, "member": number})
                    owners[key] = cell, number
                    waiting.append(replace(cell, seeds=seeds, key=key))
            if len(stored) == self.cured.remedy.members:
                yield self._outcome(cell, members.pop(cell.key))
        most = self.session.cells_at_once
        for start in range(0, len(waiting), most):
            for outcome in self.session.run(waiting[start : start + most]):
                cell, number = owners[outcome.key]
                members[cell.key][number] = outcome
                if len(members[cell.key]) == self.cured.remedy.members:
                    yield self._outcome(cell, members.pop(cell.key))

    def close(self) -> None:
        """Close the inner session."""
        self.session.close()

    def _stored(self, cell: Cell) -> dict[int, Outcome]:
        """Return the members of a cell that are finished: number -> outcome."""
        folder = self.cured.members
        if folder is None:
            return {}
        keys = self.cured.member_keys(self.cured.context, {name: cell.seeds[name] for name in self.active})
        needs_scores = self.cured.remedy.kind == "mean" and self.task.form.has_classes
        read = {number: _read(folder, key) for number, key in enumerate(keys) if (folder / f"{key}.parquet").is_file()}
        return {number: outcome for number, outcome in read.items() if outcome.scores is not None or not needs_scores}

    def _outcome(self, cell: Cell, members: Mapping[int, Outcome]) -> Outcome:
        """Return what the remedy makes of all members of a cell."""
        outcomes = [members[number] for number in sorted(members)]
        seconds = math.fsum(outcome.duration_seconds for outcome in outcomes)
        for number, outcome in enumerate(outcomes, 1):
            if outcome.error is not None:
                why = f"member {number} of {len(outcomes)} failed: {outcome.error}"
                return Outcome(cell.key, duration_seconds=seconds, error=why, traceback=outcome.traceback)
        try:
            outcome = self._chosen(outcomes) if self.cured.remedy.kind == "choose" else self._combined(outcomes)
        except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
            return failed(cell.key, error, seconds)
        return replace(outcome, key=cell.key, duration_seconds=seconds, curves={}, logged=None)

    def _chosen(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the member with the best validation score; of equals the first."""
        for metric in of_kind(self.task.kind, secondary=False):
            name = f"validation_{metric.name}"
            if all(name in outcome.metrics for outcome in outcomes):
                return max(outcomes, key=lambda outcome: metric.sign * outcome.metrics[name])
        raise L3DError(f"cure.kind=choose: {self.cured.approach.name} reports no validation score. Use vote.")

    def _combined(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the members' predictions together, and the means of their own metrics."""
        kind, first = self.cured.remedy.kind, outcomes[0]
        scored = all(outcome.scores is not None for outcome in outcomes)
        for number, outcome in enumerate(outcomes, 1):
            if outcome.predictions is None:
                raise L3DError(f"cure.kind={kind}: member {number} has no predictions.")
            if not np.array_equal(outcome.example_ids, first.example_ids):  # type: ignore[arg-type]
                raise L3DError(f"cure.kind={kind}: members 1 and {number} were evaluated on different examples.")
        if kind == "mean" and self.task.form.has_classes and not scored:
            raise L3DError(f"cure.kind=mean: {self.cured.approach.name} returns no class scores. Use vote.")
        predictions, scores = combine(
            kind,
            np.stack([each.predictions for each in outcomes if each.predictions is not None]),
            np.stack([each.scores for each in outcomes if each.scores is not None]) if scored else None,
            classes=len(self.task.class_names),
            agreement=named(self.task.metric).agreement,
        )
        computed = {*registered(), "duration_seconds"} - set(self.cured.approach.metrics)
        shared = [
            name for name in first.metrics if name not in computed and all(name in each.metrics for each in outcomes)
        ]
        means = {name: fmean(each.metrics[name] for each in outcomes) for name in shared}
        return replace(first, predictions=predictions, scores=scores, metrics=means)


def _read(folder: Path, key: str) -> Outcome:
    """Return the outcome of a finished member."""
    frame = pd.read_parquet(folder / f"{key}.parquet")
    path = folder / f"{key}.json"
    metrics = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    ids = frame["example_id"].to_numpy()
    columns = [f"score_{number}" for number in range(len(frame.filter(regex=r"^score_\d+$").columns))]
    return Outcome(
        key,
        ids.astype(np.str_) if ids.dtype.kind == "O" else ids,
        frame["label"].to_numpy(),
        frame["prediction"].to_numpy(),
        frame[columns].to_numpy(np.float32) if columns else None,
        metrics,
        duration_seconds=metrics.get("duration_seconds", 0.0),
    )

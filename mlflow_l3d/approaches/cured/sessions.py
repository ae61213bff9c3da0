"""Sessions of cured approaches: several members for each cell, or a training that chooses labels for another one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.analysis.cure.ensembles import combine
from mlflow_l3d.approaches.base import CellwiseSession, Session
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.cells.cell import Cell, Outcome, content_key
from mlflow_l3d.cells.factors import TASK_FACTORS, stream, stream_seed
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.known import named, of_kind, registered
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, Split
from mlflow_l3d.tasks.splits import by_class, divide, merge

MOST_ASKED: Final = 1_000
"""Unlabelled examples that the first training predicts at most."""


class CuredSession(Session):
    """Runs the members of its cells in a session of the approach that is cured.

    Parameters
    ----------
    session
        A session of the approach without the remedy.
    task
        The data.
    remedy, own_metrics
        As for :func:`joined`.
    member_seeds
        Returns the seeds of each member of a cell with some seeds.
    finished
        Returns the outcomes of the members of a cell, by number, that need not be trained.
    """

    def __init__(
        self,
        session: Session,
        task: Task,
        remedy: Remedy,
        own_metrics: Sequence[str],
        member_seeds: Callable[[Mapping[str, int]], list[dict[str, int]]],
        finished: Callable[[Cell], dict[int, Outcome]],
    ) -> None:
        self.session, self.task, self.remedy, self.own_metrics = session, task, remedy, own_metrics
        self.member_seeds, self.finished = member_seeds, finished
        self.cells_at_once = max(1, session.cells_at_once // remedy.members)

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Train the members of all cells that are not finished, as many in a call as the inner session takes."""
        count = self.remedy.members
        members: dict[str, dict[int, Outcome]] = {}
        owners: dict[str, tuple[str, int]] = {}
        waiting: list[Cell] = []
        for cell in cells:
            members[cell.key] = finished = self.finished(cell)
            for number, seeds in enumerate(self.member_seeds(cell.seeds)):
                if number not in finished:
                    key = content_key({"cell": cell.key, "member": number})
                    owners[key] = cell.key, number
                    waiting.append(replace(cell, seeds=seeds, key=key))
            if len(finished) == count:
                yield self._outcome(cell.key, finished)
        most = self.session.cells_at_once
        for start in range(0, len(waiting), most):
            for outcome in self.session.run(waiting[start : start + most]):
                key, number = owners[outcome.key]
                members[key][number] = outcome
                if len(members[key]) == count:
                    yield self._outcome(key, members.pop(key))

    def close(self) -> None:
        """Close the inner session."""
        self.session.close()

    def _outcome(self, key: str, members: Mapping[int, Outcome]) -> Outcome:
        in_order = [members[number] for number in sorted(members)]
        return joined(key, self.remedy, in_order, self.task, self.own_metrics)


def read_member(folder: Path, key: str) -> Outcome | None:
    """Return a finished member, of ``KEY.parquet`` and ``KEY.json``; None if it is not there."""
    path = folder / f"{key}.parquet"
    if not path.is_file():
        return None
    frame, of_metrics = pd.read_parquet(path), path.with_suffix(".json")
    metrics = json.loads(of_metrics.read_text(encoding="utf-8")) if of_metrics.is_file() else {}
    ids = frame["example_id"].to_numpy()
    ids = ids.astype(np.str_) if ids.dtype.kind == "O" else ids
    scores = frame.filter(regex=r"^score_\d+$").to_numpy(np.float32)
    answers = frame["label"].to_numpy(), frame["prediction"].to_numpy(), scores if scores.shape[1] else None
    return Outcome(key, ids, *answers, metrics, duration_seconds=metrics.get("duration_seconds", 0.0))


def joined(key: str, remedy: Remedy, members: Sequence[Outcome], task: Task, own_metrics: Sequence[str]) -> Outcome:
    """Return the outcome of a cell: what a remedy makes of its members.

    Parameters
    ----------
    key, remedy, task
        Of the cell, with the data.
    members
        The outcomes of its members, in their order.
    own_metrics
        Names of metrics that only the approach has.
    """
    seconds = math.fsum(member.duration_seconds for member in members)
    for number, member in enumerate(members, 1):
        if member.error is not None:
            why = f"member {number} of {len(members)} failed: {member.error}"
            return Outcome(key, duration_seconds=seconds, error=why, traceback=member.traceback)
    try:
        if remedy.kind == "choose":
            outcome = _best(members, task)
        else:
            outcome = _together(remedy.kind, members, task, own_metrics)
    except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
        return failed(key, error, seconds)
    return replace(outcome, key=key, duration_seconds=seconds, curves={}, logged=None)


def _best(members: Sequence[Outcome], task: Task) -> Outcome:
    """Return the member with the best validation score; of equals the first."""
    for metric in of_kind(task.kind, secondary=False):
        name = f"validation_{metric.name}"
        if all(name in member.metrics for member in members):
            return max(members, key=lambda member: metric.sign * member.metrics[name])
    raise L3DError("cure.kind=choose: the approach reports no validation score. Use vote.")


def _together(kind: str, members: Sequence[Outcome], task: Task, own_metrics: Sequence[str]) -> Outcome:
    """Return the members' predictions together, and the means of their own metrics."""
    first = members[0]
    predictions = [member.predictions for member in members if member.predictions is not None]
    scores = [member.scores for member in members if member.scores is not None]
    if len(predictions) < len(members):
        raise L3DError(f"cure.kind={kind}: the approach returns no predictions, only metrics. Let it return them.")
    if not all(np.array_equal(member.example_ids, first.example_ids) for member in members):  # type: ignore[arg-type]
        raise L3DError(f"cure.kind={kind}: the members predict different examples. Let all predict the same.")
    if kind == "mean" and task.form.has_classes and len(scores) < len(members):
        raise L3DError("cure.kind=mean: the approach returns no class scores. Use vote.")
    together, shares = combine(
        kind,
        np.stack(predictions),
        np.stack(scores) if len(scores) == len(members) else None,
        classes=len(task.class_names),
        agreement=named(task.metric).agreement,
    )
    # What the platform computes of the predictions is on the run of a stored member, too.
    computed = {*registered(), "duration_seconds"} - set(own_metrics)
    shared = set.intersection(*(set(member.metrics) for member in members)) - computed
    means = {name: fmean(member.metrics[name] for member in members) for name in sorted(shared)}
    return replace(first, predictions=together, scores=shares, metrics=means)


@dataclass(frozen=True)
class ChosenTask(Task):
    """A task of which a session decides on some splits: seeds of the task's factors -> split."""

    drawn: Task = field(kw_only=True, repr=False, compare=False)
    chosen: dict[tuple[int, ...], Split] = field(default_factory=dict, compare=False)

    def split(self, seeds: Mapping[str, int]) -> Split:
        """Return the chosen split, or else the drawn one."""
        return self.chosen.get(tuple(seeds[name] for name in TASK_FACTORS)) or self.drawn.split(seeds)


class ActiveSession(CellwiseSession):
    """Trains twice in a session of an approach: with half of the training examples of a cell, and with chosen others.

    The first half is drawn by the seed of ``label_selection``, as many of each class. Trained on it, the approach
    predicts unlabelled examples of the training part, at most :data:`MOST_ASKED`, which the same seed draws. Those of
    :func:`smallest_margins` are labelled in place of the second half; validation and test examples stay. Both trainings
    have the other seeds of the cell and are alone in their call: class scores that differ with the company of a cell
    would choose other examples.

    Parameters
    ----------
    session
        A session of the approach, prepared with `task`.
    task
        The data.
    """

    def __init__(self, session: Session, task: ChosenTask) -> None:
        self.session, self.task = session, task

    def run_cell(self, cell: Cell) -> Outcome:
        """Train with half of the examples, choose the others, and train with both."""
        task, seed = self.task, cell.seeds["label_selection"]
        split = task.split(cell.seeds)
        each = by_class(task.strata[split.train], len(task.strata_names))
        half = np.array([-(-len(places) // 2) for places in each])
        first = split.train[merge(divide(each, half, stream(seed, "active", "first half"))[0])]
        pool = task.unlabelled(cell.seeds)
        count = len(split.train) - len(first)
        if len(pool) > MOST_ASKED:
            pool = np.sort(stream(seed, "active", "pool").choice(pool, MOST_ASKED, replace=False))
        begun = self._trained(
            replace(cell, seeds={**cell.seeds, "label_selection": stream_seed(seed, "active")}),
            Split(first, split.validation, pool),
        )
        if begun.error is not None:
            return replace(begun, error=f"the training that chooses examples failed: {begun.error}")
        if begun.scores is None:
            raise L3DError("cure.kind=active: the approach returns no class scores. Use vote.")
        assert begun.example_ids is not None
        asked = pool[np.isin(task.example_ids[pool], begun.example_ids)]
        train = np.sort(np.concatenate([first, asked[smallest_margins(begun.scores, count)]]))
        return self._trained(cell, replace(split, train=train))

    def close(self) -> None:
        """Close the inner session."""
        self.session.close()

    def _trained(self, cell: Cell, split: Split) -> Outcome:
        place = tuple(cell.seeds[name] for name in TASK_FACTORS)
        self.task.chosen[place] = split
        try:
            (outcome,) = self.session.run([cell])
        finally:
            del self.task.chosen[place]
        return outcome


def smallest_margins(scores: npt.NDArray[np.float32], count: int) -> IntArray:
    """Return the places of `count` examples whose best two class scores are closest, in turn of each predicted class.

    Parameters
    ----------
    scores
        Shape (n, classes).
    count
        How many, at most n.

    Notes
    -----
    The smallest margin, or "breaking ties", is among the strategies that Schröder et al. (2022, "Revisiting
    uncertainty-based query strategies for active learning with transformers") find to beat the entropy of predictions.
    The turns are the guard for diversity: else a whole batch may lie on one boundary, and random labels, which are
    drawn for each class alike, would have the advantage of their balance.

    Examples
    --------
    >>> import numpy as np
    >>> from mlflow_l3d.approaches.cured.sessions import smallest_margins
    >>> smallest_margins(np.array([[0.5, 0.5], [0.6, 0.4], [0.9, 0.1], [0.1, 0.9]], dtype=np.float32), 2).tolist()
    [0, 3]
    """
    best = np.sort(scores.astype(np.float64), axis=1)
    margins, predicted = best[:, -1] - best[:, -2], scores.argmax(axis=1)
    order = np.argsort(margins, kind="stable")
    turns = np.zeros(len(scores), dtype=np.int64)
    for number in np.unique(predicted):
        closest = order[predicted[order] == number]
        turns[closest] = np.arange(len(closest))
    return np.sort(np.lexsort((margins, turns))[:count])

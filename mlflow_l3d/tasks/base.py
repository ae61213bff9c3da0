"""A task: labelled texts, their identity, and the split that two randomness factors decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.metrics.forms import Form, form_of
from mlflow_l3d.tasks.predefined_split import predefined_split
from mlflow_l3d.tasks.settings import IntArray, Split, SplitSettings
from mlflow_l3d.tasks.splits import draw_split, train_part

if TYPE_CHECKING:
    import pandas as pd

TaskKind: TypeAlias = Literal["classification", "regression", "multiple_choice", "generation", "tagging", "ranking"]

KINDS: Final[tuple[TaskKind, ...]] = get_args(TaskKind)
"""The label is the class of a text, a score, the number of the right one of several texts, a text, the tags of the
tokens of a text, or the ids that belong to it."""

TaskLike: TypeAlias = "Task | str | pd.DataFrame | Any | None"
"""A task, its name, a data frame of pandas, or a data set of the library `datasets`."""


@dataclass(frozen=True)
class Task:
    """A labelled data set.

    Attributes
    ----------
    name
        Name that the user typed, without private parts of a path.
    texts
        Text columns, one or more (sentence pairs have two); each holds n texts.
    labels
        Shape (n,). Classification: int64 in ``[0, len(class_names))``. Multiple choice: int64, the position of the
        right choice. Regression: float64, finite. Generation, tagging and ranking: texts (dtype object), as
        :mod:`mlflow_l3d.metrics.forms` holds them; white space separates the tokens of a tagged text.
    class_names
        Name of each class, in label order; of each choice (``choice1``, ...); else empty.
    example_ids
        Shape (n,), int64 or str: unique, and stable over splits, runs and machines.
    settings
        How many examples a split draws.
    fingerprint
        Hash of the content (texts, labels, class names, ids, and later fields that are not at their default); not of
        the settings, nor of the metric.
    notes
        One-line remarks for the user, e.g. that fewer than 1,000 examples could be labelled.
    kind
        Kind of the labels, one of :data:`KINDS`.
    choices
        Multiple choice only: one column per choice, each of n texts. `texts` are then the part that all choices share.
    parts
        Shape (n,), int64: the published part of each example, a position in `PARTS`; needed for ``source=own``, and
        None if the split is drawn.
    metric
        The metric that the task is judged by.
    features
        Shape (n, columns), float64, finite: numbers in place of texts, which then spell them; None for a task of texts.
    label_column, are_numbered
        Of a table: the column that the labels come from, and whether ids are places of its rows, from 0.
    """

    name: str
    texts: tuple[tuple[str, ...], ...]
    labels: npt.NDArray[Any]
    class_names: tuple[str, ...]
    example_ids: npt.NDArray[Any]
    settings: SplitSettings = field(default_factory=SplitSettings)
    fingerprint: str = ""
    notes: tuple[str, ...] = ()
    kind: TaskKind = "classification"
    choices: tuple[tuple[str, ...], ...] = ()
    parts: IntArray | None = None
    metric: str = "accuracy"
    features: npt.NDArray[np.float64] | None = None
    label_column: str = ""
    are_numbered: bool = False

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.labels)

    @property
    def form(self) -> Form:
        """The form of labels and predictions."""
        return form_of(self.kind)

    def texts_by_id(self) -> dict[object, str]:
        """Return example id -> text, with a slash between the texts of a pair; empty if the data are not here."""
        texts = map(" / ".join, zip(*self.texts, strict=True))
        return dict(zip(self.example_ids.tolist(), texts, strict=True)) if len(self) else {}

    @property
    def strata(self) -> IntArray:
        """The strata of draws, shape (n,): the labels if they are classes, else zeros."""
        return self.labels if self.form.has_classes else np.zeros(len(self), dtype=np.int64)

    @property
    def strata_names(self) -> tuple[str, ...]:
        """Name of each stratum: the classes, or one for all examples."""
        return self.class_names if self.form.has_classes else ("all",)

    def split(self, seeds: Mapping[str, int]) -> Split:
        """Return the split that the settings ask for.

        Parameters
        ----------
        seeds
            Factor -> seed; only ``data_split`` and ``label_selection`` are used, and none with ``source=own``.

        Raises
        ------
        ParameterError
            If the task has no split of its own and the settings ask for it, or it is too small for them.
        """
        if self.settings.source == "own":
            return predefined_split(self)
        return draw_split(self.strata, len(self.strata_names), seeds, self.settings)

    def unlabelled(self, seeds: Mapping[str, int]) -> IntArray:
        """Return the training part of a drawn split without what a cell trains on or predicts."""
        part, split = train_part(self.strata, len(self.strata_names), seeds, self.settings), self.split(seeds)
        return np.setdiff1d(part, np.concatenate([split.train, split.validation, split.test]))

    @cached_property
    def reference_ids(self) -> npt.NDArray[Any]:
        """Ids of the reference set, the same for every cell; empty if there is none."""
        if not self.settings.reference_size:
            return self.example_ids[:0]
        return self.example_ids[self.split(dict.fromkeys(TASK_FACTORS, 0)).reference]


def may_lack_a_class(task: Task) -> bool:
    """Return whether a class may have no test example; seeds decide which examples are tested, not how many."""
    if type(task).split is not Task.split:  # it divides in its own way
        return True
    evaluated = task.split(dict.fromkeys(TASK_FACTORS, 0)).scored
    return len(np.unique(task.strata[evaluated])) < len(task.strata_names)


TaskLoader: TypeAlias = Callable[[Mapping[str, str]], Task]
"""A loader of a task; the entry-point group ``mlflow_l3d.tasks`` names them.

It gets the task's options (``text_column``, ``label_column``, ...), an empty mapping without options, and returns the
task with default settings. The option ``split`` is ``own`` if the published parts are to be used: the task then has
`parts`, and every published example of them.
"""

"""A task: labelled texts, their identity, and the split that two randomness factors decide, or its own one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from mlflow_l3d.cells.factors import TASK_FACTORS, stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.forms import Form, form_of
from mlflow_l3d.tasks.settings import PARTS, IntArray, Split, SplitSettings
from mlflow_l3d.tasks.splits import by_class, check_settings, divide, draw_split, merge, train_part

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

    @property
    def first_split(self) -> Split:
        """The split of the seeds 0; those of other seeds are as large, unless a task divides in its own way."""
        return self.split(dict.fromkeys(TASK_FACTORS, 0))

    def unlabelled(self, seeds: Mapping[str, int]) -> IntArray:
        """Return the training part of a drawn split without what a cell trains on or predicts."""
        part = train_part(self.strata, len(self.strata_names), seeds, self.settings)
        split = self.split(seeds)
        return np.setdiff1d(part, np.concatenate([split.train, split.validation, split.test]))

    @cached_property
    def reference_ids(self) -> npt.NDArray[Any]:
        """Ids of the reference set, the same for every cell; empty if there is none."""
        if not self.settings.reference_size:
            return self.example_ids[:0]
        return self.example_ids[self.first_split.reference]


def may_lack_a_class(task: Task) -> bool:
    """Return whether a class may have no test example; seeds decide which examples are tested, not how many."""
    if type(task).split is not Task.split:  # it divides in its own way
        return True
    return len(np.unique(task.strata[task.first_split.scored])) < len(task.strata_names)


TaskLoader: TypeAlias = Callable[[Mapping[str, str]], Task]
"""A loader of a task; the entry-point group ``mlflow_l3d.tasks`` names them.

It gets the task's options (``text_column``, ``label_column``, ...), an empty mapping without options, and returns the
task with default settings. The option ``split`` is ``own`` if the published parts are to be used: the task then has
`parts`, and every published example of them.
"""


def predefined_split(task: Task) -> Split:
    """Return the split of ``source=own``: the same for every seed.

    Parameters
    ----------
    task
        With `parts`. `Split.test` is its published validation part, on which Zhou et al. (2025, appendix A.2)
        evaluate, because the labels of the test parts of GLUE and SuperGLUE are not public; the test part of a task
        that has no validation part. If the settings give numbers or a share for validation, these are drawn once from
        ``fixed_seed``. A reference set is drawn out of the evaluated part first.

    Returns
    -------
    Split
        Sorted positions of each part.

    Raises
    ------
    ParameterError
        If the task has no such parts, a class has no train example, or a setting is not allowed.
    """
    settings, parts = task.settings, task.parts
    if parts is None:
        raise no_predefined_split(task.name, "it has no parts of its own")
    _check_own_parts(task, parts, evaluated_part(parts))
    train = _drawn(task, np.flatnonzero(parts == 0), settings.num_labelled, "own_train", least=1)
    pool = np.flatnonzero(parts == evaluated_part(parts))
    reference = np.zeros(0, dtype=np.int64)
    if settings.reference_size:
        reference = _drawn(task, pool, settings.reference_size, "own_reference", least=0)
        pool = np.setdiff1d(pool, reference, assume_unique=True)
    test = _drawn(task, pool, settings.test_size, "own_test", least=0)
    validation = np.zeros(0, dtype=np.int64)
    if settings.validation_fraction:
        train, validation = _held_out(task, train)
    if settings.evaluated == "validation":
        return Split(train, validation, validation)
    return Split(train, validation, np.concatenate([test, reference]), reference)


def _check_own_parts(task: Task, parts: IntArray, evaluated: int) -> None:
    """Raise the errors of :func:`predefined_split` about the parts and the numbers of the settings."""
    for position in (0, evaluated):
        if not (parts == position).any():
            raise no_predefined_split(task.name, f"the {PARTS[position]} part has no example", ParameterError)
    counts = np.bincount(task.strata[parts == 0], minlength=len(task.strata_names))
    if not counts.all():
        missing = task.strata_names[int(counts.argmin())]
        raise no_predefined_split(task.name, f"the train part has no example of class {missing!r}", ParameterError)
    settings = task.settings
    check_settings(settings)
    labelled, most = settings.num_labelled, int(counts.sum())
    if labelled is not None and not len(counts) <= labelled <= most:
        raise ParameterError("num_labelled", labelled, f"must lie between {len(counts)} and the {most} train examples")
    there = int((parts == evaluated).sum())
    reference = settings.reference_size
    test = settings.test_size
    if reference + (test or 1) > there:
        allowed = f"there are {there} examples in the {PARTS[evaluated]} part, with those of the reference set"
        name, asked = ("test_size", test) if test else ("reference_size", reference)
        raise ParameterError(name, asked, allowed, "Ask for fewer.")
    if settings.evaluated == "validation" and not settings.validation_fraction:
        allowed = "leaves no validation example to be scored on"
        raise ParameterError("validation_fraction", settings.validation_fraction, allowed, "Use 0.1, for instance.")


def evaluated_part(parts: IntArray) -> int:
    """Return the position in `PARTS` of the evaluated part: validation, or test if only that has examples."""
    return 2 if (parts == 2).any() and not (parts == 1).any() else 1


class NoParts(ParameterError):
    """The study uses the own split of a task, and the data does not name the parts of its examples."""


def no_predefined_split(task: str, why: str, kind: type[ParameterError] = NoParts) -> ParameterError:
    """Return the error for a study that uses the own split of a task without parts, or without a needed part."""
    allowed = f"is to be used with its own train and validation parts, and {why}"
    fix = "Name one with both; in a file of your own, a column `split` says train, validation or test."
    return kind("task", task, allowed, fix)


def _drawn(task: Task, positions: IntArray, asked: int | None, purpose: str, *, least: int) -> IntArray:
    """Return `asked` of the sorted `positions` in the shares that the classes have there, or all of them."""
    if asked is None or asked == len(positions):
        return positions
    members = by_class(task.strata[positions], len(task.strata_names))
    sizes = _allotted(np.array([*map(len, members)]), asked, least)
    drawn, _ = divide(members, sizes, stream(task.settings.fixed_seed, purpose))
    return positions[merge(drawn)]


def _allotted(counts: IntArray, total: int, least: int) -> IntArray:
    """Return shares of `total` by the method of largest remainders, each at least `least` or the whole class."""
    floor = np.minimum(counts, least)
    exact = (counts - floor) * ((total - int(floor.sum())) / max(int((counts - floor).sum()), 1))
    sizes: IntArray = np.floor(exact + 1e-9).astype(np.int64)
    left = total - int(floor.sum()) - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
    return floor + sizes


def _held_out(task: Task, train: IntArray) -> tuple[IntArray, IntArray]:
    """Return the train examples, divided into those for training and those for validation, stratified by class."""
    fraction = task.settings.validation_fraction
    members = by_class(task.strata[train], len(task.strata_names))
    # A class keeps one example to be trained on.
    spare = np.array([max(len(positions) - 1, 0) for positions in members])
    total = max(1, int(len(train) * fraction + 0.5))
    if total > spare.sum():
        allowed = f"would hold out {total} of {len(train)} train examples, and every class needs one to be trained on"
        raise ParameterError("validation_fraction", fraction, allowed, "Lower it, or train on more.")
    held, kept = divide(members, _allotted(spare, total, 0), stream(task.settings.fixed_seed, "own_validation"))
    return train[merge(kept)], train[merge(held)]

"""What a task is: labelled texts, their identity, and the split that two randomness factors decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
TaskKind: TypeAlias = Literal["classification", "regression", "multiple_choice"]

KINDS: Final[tuple[TaskKind, ...]] = ("classification", "regression", "multiple_choice")
"""What a label can be: the class of a text, a score, or the number of the right one of several texts."""
PARTS: Final = ("train", "validation", "test")
"""Names of the published parts; their positions here are their numbers in `Task.parts`."""

SPLITS_VERSION: Final = 1
"""Part of every cell's key; changed whenever the same seeds would draw another split."""


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """Systematic choices that decide how many examples are drawn.

    Attributes
    ----------
    num_labelled
        Training examples that count as labelled, divided evenly over the classes (rounded up); None means up to 1,000,
        fewer where a class is small. With ``source=own`` None means all, and a number means so many of them, drawn
        once from `fixed_seed` in the shares that the classes have there.
    test_size
        Test examples that are evaluated, likewise.
    test_selection
        ``label_selection``: the factor also draws the test examples, as the papers do; ``fixed``: one outer test set
        for every cell, drawn once from `fixed_seed`.
    fixed_seed
        Seed of that fixed test set, and of what is drawn once with ``source=own``.
    train_fraction
        Share of the training part, in the outer (train/test) and in the inner (train/validation) split.
    evaluated
        The part that a cell is evaluated on. With ``validation``, `Split.test` is the validation part, so that any
        approach can be scored without a look at a test example: what a search of hyperparameters needs.
    source
        ``drawn``: two factors draw the split from all examples, as Pecher et al. (2024) do. ``own``: the task's own
        train examples are trained on and its own validation examples are evaluated, as Zhou et al. (2025, appendix
        A.2) do; nothing is left for ``data_split`` and ``label_selection`` to decide.
    validation_fraction
        With ``source=own``: share of the train examples that is held out for validation (early stopping, choice of
        the best epoch), drawn once from `fixed_seed`, stratified by class. 0 leaves the validation part empty.
    """

    num_labelled: int | None = None
    test_size: int | None = None
    test_selection: str = "label_selection"
    fixed_seed: int = 0
    train_fraction: float = 0.8
    evaluated: Literal["test", "validation"] = "test"
    source: Literal["drawn", "own"] = "drawn"
    validation_fraction: float = 0.0

    def identity(self) -> dict[str, Any]:
        """Return what belongs into the key of a cell, as JSON types; later settings only where not at their default."""
        found = asdict(self)
        for name, default in (("evaluated", "test"), ("source", "drawn"), ("validation_fraction", 0.0)):
            if found[name] == default:
                # Keys that were computed before there was a choice stay as they are.
                del found[name]
        return found


@dataclass(frozen=True, slots=True)
class Split:
    """Positions (into the task's arrays, int64) of the examples that one cell uses.

    The three parts are disjoint; but where the settings evaluate on the validation part, `test` is that very part.
    `validation` may be empty.
    """

    train: IntArray
    validation: IntArray
    test: IntArray


@dataclass(frozen=True)
class Task:
    """A labelled data set.

    Attributes
    ----------
    name
        What the user typed, without private parts of a path.
    texts
        Text columns, one or more (sentence pairs have two); each holds n texts.
    labels
        Shape (n,). Classification: int64 in ``[0, len(class_names))``. Multiple choice: int64, the position of the
        right choice. Regression: float64, finite.
    class_names
        Name of each class, in label order; of each choice (``choice1``, ...); empty for regression.
    example_ids
        Shape (n,), int64 or str: unique, and stable over splits, runs and machines.
    settings
        How many examples a split draws.
    fingerprint
        Hash of the content (texts, labels, class names, ids, and what of the following is not at its default); not of
        the settings, nor of the metric.
    notes
        One-line remarks for the user, e.g. that fewer than 1,000 examples could be labelled.
    kind
        What the labels are.
    choices
        Multiple choice only: one column a choice, each of n texts. `texts` are then what the choices have in common.
    parts
        Shape (n,), int64: the published part of each example, a position in `PARTS`; needed for ``source=own``, and
        None where the split is drawn.
    metric
        The metric that the task is judged by.
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

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.labels)

    @property
    def strata(self) -> IntArray:
        """What draws are stratified by, shape (n,): the labels, or zeros where they are scores."""
        return np.zeros(len(self), dtype=np.int64) if self.kind == "regression" else self.labels

    @property
    def strata_names(self) -> tuple[str, ...]:
        """Name of each stratum: the classes, or one for all examples."""
        return ("all",) if self.kind == "regression" else self.class_names

    def split(self, seeds: Mapping[str, int]) -> Split:
        """Return the split that the settings ask for.

        Parameters
        ----------
        seeds
            Factor -> seed; only ``data_split`` and ``label_selection`` are looked at, and with ``source=own`` none.

        Raises
        ------
        ParameterError
            If the task has no split of its own and the settings ask for it, or it is too small for them.
        """
        if self.settings.source == "own":
            from mlflow_l3d.tasks.predefined_split import predefined_split

            return predefined_split(self)
        from mlflow_l3d.tasks.splits import draw_split

        return draw_split(self.strata, len(self.strata_names), seeds, self.settings)


class TaskLoader(Protocol):
    """How a task is found by name: entry-point group ``mlflow_l3d.tasks``.

    A loader is a callable. It is given the task's options (``text_column``, ``label_column``, ...), the empty mapping
    where there are none, and returns the task with default settings. The option ``split`` is ``own`` where the
    published parts are to be used: the task then has `parts`, and every published example of them.
    """

    def __call__(self, options: Mapping[str, str]) -> Task:
        """Load the data."""
        ...

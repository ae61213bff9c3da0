"""What a task is: labelled texts, their identity, and the split that two randomness factors decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]

SPLITS_VERSION: Final = 1
"""Part of every cell's key; changed whenever the same seeds would draw another split."""


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """Systematic choices that decide how many examples are drawn.

    Attributes
    ----------
    num_labelled
        Training examples that count as labelled, divided evenly over the classes (rounded up); None means up to 1,000,
        fewer where a class is small.
    test_size
        Test examples that are evaluated, likewise; None means up to 1,000.
    test_selection
        ``label_selection``: the factor also draws the test examples, as the papers do; ``fixed``: one outer test set
        for every cell, drawn once from `fixed_seed`.
    fixed_seed
        Seed of that fixed test set.
    train_fraction
        Share of the training part, in the outer (train/test) and in the inner (train/validation) split.
    evaluated
        The part that a cell is evaluated on. With ``validation``, `Split.test` is the validation part, so that any
        approach can be scored without a look at a test example: what a search of hyperparameters needs.
    """

    num_labelled: int | None = None
    test_size: int | None = None
    test_selection: str = "label_selection"
    fixed_seed: int = 0
    train_fraction: float = 0.8
    evaluated: Literal["test", "validation"] = "test"

    def identity(self) -> dict[str, Any]:
        """Return what belongs into the key of a cell, as JSON types; `evaluated` only where it is not the default."""
        found = asdict(self)
        if self.evaluated == "test":
            # Keys that were computed before there was a choice stay as they are.
            del found["evaluated"]
        return found


@dataclass(frozen=True, slots=True)
class Split:
    """Positions (into the task's arrays, int64) of the examples that one cell uses.

    The three parts are disjoint; but where the settings evaluate on the validation part, `test` is that very part.
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
        Shape (n,), int64, in ``[0, len(class_names))``.
    class_names
        Name of each class, in label order.
    example_ids
        Shape (n,), int64 or str: unique, and stable over splits, runs and machines.
    settings
        How many examples a split draws.
    fingerprint
        Hash of the content (texts, labels, class names, ids); not of the settings.
    notes
        One-line remarks for the user, e.g. that fewer than 1,000 examples could be labelled.
    """

    name: str
    texts: tuple[tuple[str, ...], ...]
    labels: IntArray
    class_names: tuple[str, ...]
    example_ids: npt.NDArray[Any]
    settings: SplitSettings = field(default_factory=SplitSettings)
    fingerprint: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.labels)

    def split(self, seeds: Mapping[str, int]) -> Split:
        """Draw the split that the factors ``data_split`` and ``label_selection`` decide.

        Parameters
        ----------
        seeds
            Factor -> seed; only the two factors of the task are looked at.
        """
        from mlflow_l3d.tasks.splits import draw_split

        return draw_split(self.labels, len(self.class_names), seeds, self.settings)


class TaskLoader(Protocol):
    """How a task is found by name: entry-point group ``mlflow_l3d.tasks``.

    A loader is a callable. It is given the task's options (``text_column``, ``label_column``, ...), the empty mapping
    where there are none, and returns the task with default settings.
    """

    def __call__(self, options: Mapping[str, str]) -> Task:
        """Load the data."""
        ...

"""The settings of a split, and the split itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]

PARTS: Final = ("train", "validation", "test")
"""Names of the published parts; their positions here are their numbers in `Task.parts`."""

SPLITS_VERSION: Final = 1
"""Part of every cell's key; changed whenever the same seeds would draw another split."""


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """Settings that decide how many examples a split draws.

    Attributes
    ----------
    num_labelled
        Training examples that count as labelled, divided evenly over the classes (rounded up); None means up to 1,000,
        fewer if a class is small. With ``source=own`` None means all, and a number means so many of them, drawn
        once from `fixed_seed` in the shares that the classes have there.
    test_size
        Test examples, likewise.
    test_selection
        ``label_selection``: the factor also draws the test examples, as the papers do; ``fixed``: one outer test set
        for every cell, drawn once from `fixed_seed`.
    fixed_seed
        Seed of the fixed test set, of the reference set, and of all draws with ``source=own``.
    train_fraction
        Share of the training part, in the outer (train/test) and in the inner (train/validation) split.
    evaluated
        The part that a cell is evaluated on. With ``validation``, `Split.test` is the validation part, so that any
        approach can be scored without a look at a test example, as a search of hyperparameters needs it.
    source
        ``drawn``: two factors draw the split from all examples, as Pecher et al. (2024) do. ``own``: the task's own
        train examples are for training and its own validation examples for the test, as Zhou et al. (2025, appendix
        A.2) do; nothing is left for ``data_split`` and ``label_selection`` to decide.
    validation_fraction
        With ``source=own``: share of the train examples that is held out for validation (early stopping, choice of
        the best epoch), drawn once from `fixed_seed`, stratified by class. 0 leaves the validation part empty.
    reference_size
        Examples on which no cell trains and which every cell predicts in addition to its test examples, divided over
        the classes as these are. They are drawn once from `fixed_seed` and taken out of the pool before everything
        else; with ``source=own`` out of the evaluated part. No score is computed from them. 0 is none.
    """

    num_labelled: int | None = None
    test_size: int | None = None
    test_selection: str = "label_selection"
    fixed_seed: int = 0
    train_fraction: float = 0.8
    evaluated: Literal["test", "validation"] = "test"
    source: Literal["drawn", "own"] = "drawn"
    validation_fraction: float = 0.0
    reference_size: int = 0

    def identity(self) -> dict[str, Any]:
        """Return the settings in the key of a cell, as JSON types; later ones only if not at their default."""
        # Keys that were computed before these settings existed stay valid.
        later = {"evaluated": "test", "source": "drawn", "validation_fraction": 0.0, "reference_size": 0}
        return {name: value for name, value in asdict(self).items() if name not in later or value != later[name]}


@dataclass(frozen=True, slots=True)
class Split:
    """Positions (into the task's arrays, int64) of the examples that one cell uses.

    The three parts are disjoint; but if the settings evaluate on the validation part, `test` is that part.
    `validation` may be empty.

    Attributes
    ----------
    train, validation
        What a cell is trained on, and what may decide when its training ends.
    test
        What it predicts: its test examples, then the reference set if there is one.
    reference
        The reference set, the end of `test`; from its predictions no score is computed.
    """

    train: IntArray
    validation: IntArray
    test: IntArray
    reference: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def scored(self) -> IntArray:
        """The test examples, from which scores are computed: the beginning of `test`."""
        return self.test[: len(self.test) - len(self.reference)]

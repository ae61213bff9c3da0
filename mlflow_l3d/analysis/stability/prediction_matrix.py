"""Predictions of several runs as one array: runs are rows, examples are columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import UNPARSED, class_numbers

IntArray = npt.NDArray[np.int64]

ABSENT: Final = -2
"""Stands where a run did not see an example."""


@dataclass(frozen=True, slots=True)
class PredictionMatrix:
    """Predicted classes of S runs for n examples.

    Attributes
    ----------
    run_names, example_ids
        S names, and shape (n,).
    labels
        Shape (n,): true class numbers.
    predictions
        Shape (S, n): class numbers; -1 is an answer that names no class, -2 an example that the run did not see.
    """

    run_names: tuple[Any, ...]
    example_ids: npt.NDArray[Any]
    labels: IntArray
    predictions: IntArray

    @classmethod
    def from_arrays(
        cls, predictions: npt.ArrayLike, labels: npt.ArrayLike, example_ids: npt.ArrayLike | None = None
    ) -> PredictionMatrix:
        """Take runs that all saw the same examples.

        Parameters
        ----------
        predictions
            Shape (S, n): class numbers, or -1.
        labels
            Shape (n,): class numbers, 0 or above.
        example_ids
            Shape (n,); 0, 1, 2, ... by default.

        Raises
        ------
        ValueError
            If shapes do not fit, or something is not a whole number.
        ParameterError
            If an example id occurs twice.
        """
        given: npt.NDArray[Any] = np.asarray(predictions)
        truth = class_numbers(labels, "labels", 0)
        if given.ndim != 2 or given.shape[1] != len(truth):
            msg = f"predictions must have one row a run and one column for each of {len(truth)} labels: {given.shape}"
            raise ValueError(msg)
        guess = class_numbers(given.reshape(-1), "predictions", UNPARSED).reshape(given.shape)
        ids = np.arange(len(truth)) if example_ids is None else np.asarray(example_ids)
        if ids.shape != truth.shape:
            msg = f"example_ids and labels differ in shape: {ids.shape} and {truth.shape}"
            raise ValueError(msg)
        if len(pd.unique(ids)) < len(ids):
            twice = ids[pd.Series(ids).duplicated().to_numpy()][0]
            raise ParameterError("example_id", twice, "must occur once")
        return cls(tuple(range(len(given))), ids, truth, guess)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, run: str | Sequence[str] = "run") -> PredictionMatrix:
        """Take a long frame, in which runs may have different test sets.

        Parameters
        ----------
        frame
            One row a prediction: ``example_id``, ``label``, ``prediction`` and what tells runs apart.
        run
            The column, or columns, that tell runs apart.

        Raises
        ------
        ParameterError
            If a column is missing, a run holds an example twice, or an example has two labels.
        ValueError
            If labels or predictions are not class numbers.
        """
        keys = [run] if isinstance(run, str) else list(run)
        for name in (*keys, "example_id", "label", "prediction"):
            if name not in frame:
                raise ParameterError("column", name, f"must be in the frame, which has {', '.join(map(str, frame))}")
        groups = frame.groupby(keys if len(keys) > 1 else keys[0], sort=False, dropna=False)
        rows = groups.ngroup().to_numpy()
        columns, ids = pd.factorize(frame["example_id"])
        truth = class_numbers(frame["label"].to_numpy(), "labels", 0)
        guess = class_numbers(frame["prediction"].to_numpy(), "predictions", UNPARSED)
        labels = np.zeros(len(ids), dtype=np.int64)
        labels[columns] = truth
        if len(different := np.flatnonzero(labels[columns] != truth)):
            example = ids[columns[different[0]]]
            raise ParameterError("label", truth[different[0]], f"example_id {example} must have one true class")
        names = tuple(groups.size().index.tolist())
        cells = pd.Series(rows * max(1, len(ids)) + columns)
        if (twice := cells.duplicated()).any():
            example = ids[columns[int(np.flatnonzero(twice)[0])]]
            fix = f"Is {' and '.join(keys)} all that tells runs apart?"
            raise ParameterError("example_id", example, "must occur once in the predictions of a run", fix)
        matrix = np.full((len(names), len(ids)), ABSENT, dtype=np.int64)
        matrix[rows, columns] = guess
        return cls(names, np.asarray(ids), labels, matrix)

    @property
    def held(self) -> npt.NDArray[np.bool_]:
        """Shape (S, n): which run saw which example."""
        seen: npt.NDArray[np.bool_] = self.predictions != ABSENT
        return seen

    @property
    def unparsed_share(self) -> float:
        """Share of predictions that name no class; nan where there are none."""
        count = int(self.held.sum())
        return int((self.predictions == UNPARSED).sum()) / count if count else float("nan")

    def dense(self) -> PredictionMatrix:
        """Return the same with class numbers 0, 1, 2, ... without gaps, in their order."""
        known = np.unique(np.concatenate((self.labels, self.predictions[self.predictions >= 0])))
        if not len(known) or int(known[-1]) == len(known) - 1:
            return self
        place = np.where(self.predictions >= 0, np.searchsorted(known, self.predictions), self.predictions)
        return PredictionMatrix(self.run_names, self.example_ids, np.searchsorted(known, self.labels), place)

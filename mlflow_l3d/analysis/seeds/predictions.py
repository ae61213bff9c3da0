"""Seeds and predictions as a study takes them, checked."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.stability.prediction_matrix import ABSENT, PredictionMatrix
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.regression import numbers

Kind = Literal["classification", "regression", "multiple_choice"]


def check_seeds(given: list[Any]) -> tuple[int, ...]:
    """Return the seeds as whole numbers.

    Raises
    ------
    ParameterError
        If there are fewer than two, one is no whole number from 0 on, or one occurs twice.
    """
    for seed in given:
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            raise ParameterError("seeds", repr(seed), "must be whole numbers, 0 or above")
    seeds = tuple(int(seed) for seed in given)
    repeated = [seed for at, seed in enumerate(seeds) if seed in seeds[:at]]
    if repeated:
        raise ParameterError("seeds", repeated[0], "must occur once", "A seed that is repeated repeats its run.")
    if len(seeds) < 2:
        listed = ", ".join(map(str, seeds)) or "(none)"
        raise ParameterError("seeds", listed, "must be at least two", "One seed has no spread; the papers' are ten.")
    return seeds


def prediction_matrix(
    predictions: pd.DataFrame, seeds: tuple[int, ...], kind: Kind
) -> tuple[tuple[int, ...], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the predictions of all seeds as one array.

    Parameters
    ----------
    predictions
        One row a prediction: ``seed``, ``example_id``, ``label``, ``prediction``.
    seeds
        Those that may occur, in the order to keep.
    kind
        What the predictions are: numbers for ``regression``, else class numbers.

    Returns
    -------
    tuple
        The seeds that have predictions, predictions (S, n), labels (n,) and ids (n,).

    Raises
    ------
    ParameterError
        If a column is missing, a seed is not known, an example occurs twice or has two labels, or examples differ.
    ValueError
        If something is not a class number, or not finite.
    """
    for name in ("seed", "example_id", "label", "prediction"):
        if name not in predictions:
            given = ", ".join(map(str, predictions))
            raise ParameterError("column", name, f"must be in the predictions, which have {given}")
    known = set(predictions["seed"].tolist())
    if strangers := sorted(known - set(seeds)):
        raise ParameterError("seed", strangers[0], "has predictions and no scores")
    compared = tuple(seed for seed in seeds if seed in known)
    if kind != "regression":
        whole = PredictionMatrix.from_frame(predictions, "seed")
        order = [whole.run_names.index(seed) for seed in compared]
        _same_examples(bool((whole.predictions != ABSENT).all()))
        return compared, whole.predictions[order], whole.labels, whole.example_ids
    if (twice := predictions.duplicated(["seed", "example_id"])).any():
        example = predictions.loc[twice, "example_id"].iloc[0]
        raise ParameterError("example_id", example, "must occur once in the predictions of a seed")
    first = predictions.drop_duplicates("example_id")
    ids, truth = first["example_id"], numbers(first["label"].to_numpy(), "labels", 1)
    labels = predictions["example_id"].map(dict(zip(ids, truth, strict=True)))
    if (different := (labels != predictions["label"])).any():
        example = predictions.loc[different, "example_id"].iloc[0]
        raise ParameterError("label", "two values", f"example_id {example} must have one true value")
    wide = predictions.set_index(["seed", "example_id"])["prediction"].unstack().loc[list(compared), ids.to_list()]
    values: FloatArray = wide.to_numpy(dtype=np.float64)
    _same_examples(not np.isnan(values).any() or bool(predictions["prediction"].isna().any()))
    return compared, numbers(values, "predictions", 2), truth, ids.to_numpy()


def _same_examples(same: bool) -> None:
    if not same:
        raise ParameterError(
            "predictions", "different examples", "all seeds must predict the same ones", "Compare runs of one split."
        )

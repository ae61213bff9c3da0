"""Seeds and predictions as a study takes them, checked."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import UNPARSED, class_numbers
from mlflow_l3d.metrics.regression import numbers

Kind = Literal["classification", "regression", "multiple_choice", "generation", "tagging", "ranking"]


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
            columns_text = ", ".join(map(str, predictions))
            raise ParameterError("column", name, f"must be in the predictions, which have {columns_text}")
    seeds_with_predictions = set(predictions["seed"].tolist())
    if strangers := sorted(seeds_with_predictions - set(seeds)):
        raise ParameterError("seed", strangers[0], "has predictions and no scores")
    compared = tuple(seed for seed in seeds if seed in seeds_with_predictions)
    truth: npt.NDArray[Any]
    guess: npt.NDArray[Any]
    if kind == "regression":
        truth = numbers(predictions["label"].to_numpy(), "labels", 1)
        guess = numbers(predictions["prediction"].to_numpy(), "predictions", 1)
    else:
        truth = class_numbers(predictions["label"].to_numpy(), "labels", 0)
        guess = class_numbers(predictions["prediction"].to_numpy(), "predictions", UNPARSED)
    rows = predictions["seed"].map({seed: at for at, seed in enumerate(compared)}).to_numpy()
    columns, ids = pd.factorize(predictions["example_id"])
    if (twice := pd.Series(rows * max(1, len(ids)) + columns).duplicated()).any():
        example = ids[columns[int(np.flatnonzero(twice)[0])]]
        raise ParameterError("example_id", example, "must occur once in the predictions of a seed")
    labels = np.zeros(len(ids), dtype=truth.dtype)
    labels[columns] = truth
    if len(different := np.flatnonzero(labels[columns] != truth)):
        at = different[0]
        raise ParameterError("label", truth[at], f"example_id {ids[columns[at]]} must have one true value")
    if len(rows) < len(compared) * len(ids):
        fix = "Compare runs of one split."
        raise ParameterError("predictions", "different examples", "all seeds must predict the same ones", fix)
    matrix = np.empty((len(compared), len(ids)), dtype=guess.dtype)
    matrix[rows, columns] = guess
    return compared, matrix, labels, np.asarray(ids)


def numbered(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return answers that are texts as numbers: of each example 0 is the label, 1, 2, ... other answers, -1 none.

    `predictions` has ``example_id``, ``label`` and ``prediction``; what are no texts comes back.
    """
    if not {"example_id", "label", "prediction"} <= {*predictions}:
        return predictions
    labels, answers = predictions["label"], predictions["prediction"]
    if pd.api.types.is_numeric_dtype(labels) and pd.api.types.is_numeric_dtype(answers):
        return predictions
    number = np.where(answers == labels, 0, UNPARSED)
    wrong = (answers.notna() & (answers != labels)).to_numpy()
    examples = pd.factorize(predictions["example_id"])[0][wrong]
    pair = pd.DataFrame({"example": examples, "answer": answers[wrong].astype(str).to_numpy()})
    first = pair.drop_duplicates().sort_values(["example", "answer"])
    first["number"] = first.groupby("example").cumcount() + 1
    number[wrong] = pair.merge(first, on=["example", "answer"], how="left")["number"].to_numpy()
    return predictions.assign(label=np.zeros(len(labels), dtype=np.int64), prediction=number)

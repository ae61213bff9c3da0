"""How the score of one factor changes with fewer rows, columns and examples (Pecher et al. 2024, Appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import LEVEL
from mlflow_l3d.analysis.importance.score_tables import Tables
from mlflow_l3d.analysis.importance.tables import as_golden, as_table
from mlflow_l3d.analysis.planning.subsets import ABLATION_COLUMNS, METRICS, Answers, Place, Setting, ablate_tables
from mlflow_l3d.errors import ParameterError, unknown_name


def ablation(
    table: npt.ArrayLike,
    golden: npt.ArrayLike,
    predictions: pd.DataFrame | None = None,
    *,
    rows: Sequence[int] | None = None,
    columns: Sequence[int] | None = None,
    test_sizes: Sequence[int | None] = (None,),
    seed: int,
    repeats: int = 1,
    factor: str = "",
    metric: str = "f1_macro",
    design: Literal["crossed", "nested"] = "crossed",
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return what a finished investigation would have found with fewer runs and test examples, without new runs.

    Parameters
    ----------
    table, golden
        Shapes (M, N) and (L,): scores, nan where one is missing.
    predictions
        Needed where `test_sizes` has a number: columns ``cell`` (``row * N + column``, golden run l is ``M * N + l``),
        ``example_id``, ``label``, ``prediction``, one row for each example that a cell was evaluated on.
    rows, columns
        Numbers of rows and columns to look at; None means all there are.
    test_sizes
        Numbers of test examples of each cell; None means all, with the scores of `table` and `golden`.
    seed
        Of the choice of rows, columns, golden runs and examples.
    repeats
        How many random choices of each setting; with all rows, columns and examples the result is the same.
    factor
        Name of the factor in the result.
    metric
        What is computed from the predictions.
    design, level
        As for :func:`mlflow_l3d.analysis.importance.importance.importance`.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`ABLATION_COLUMNS`; for every setting a row ``golden_model`` and one of the factor (the layout of
        the paper's Table 3). `share_of_baseline` is the share of rows x columns x examples that is used. Golden runs
        are reduced in proportion to the cells of the table.

    Raises
    ------
    ParameterError
        If a number is larger than what there is or too small, predictions are needed and not there, or have wrong
        columns or cells.

    Notes
    -----
    Within a repeat a smaller choice is part of every larger one. An example has the same rank in every cell, so cells
    that share a test set share the smaller one, and others take their own examples of lowest rank.
    """
    scores, golden_scores = as_table(table), as_golden(golden)
    total_rows, total_columns = scores.shape
    row_numbers = _numbers("rows", rows, total_rows)
    column_numbers = _numbers("columns", columns, total_columns)
    if repeats < 1:
        raise ParameterError("repeats", repeats, "must be at least 1")
    sizes = [size for size in test_sizes if size is not None]
    answers = None
    if sizes:
        frame = _checked(predictions, metric, scores.size + len(golden_scores))
        answers = _answers(frame, factor, scores.shape)
        _check_sizes(sizes, answers)
    settings = [Setting(m, n, size) for size in test_sizes for m in row_numbers for n in column_numbers]
    found = ablate_tables(
        Tables(design, {factor: scores}, golden_scores),
        settings,
        seed=seed,
        repeats=repeats,
        answers=answers,
        metric=metric,
        level=level,
    )
    return found[list(ABLATION_COLUMNS)]


def _numbers(name: str, wanted: Sequence[int] | None, total: int) -> list[int]:
    numbers = [total] if wanted is None else list(wanted)
    for number in numbers:
        if not (2 <= number <= total or number == total):
            raise ParameterError(name, number, f"must be from 2 to {total}, what the investigation has")
    return numbers


def _checked(predictions: pd.DataFrame | None, metric: str, cells: int) -> pd.DataFrame:
    if predictions is None:
        raise ParameterError("predictions", None, "are needed for test_sizes", "Use test_sizes=[None].")
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    needed = ["cell", "example_id", "label", "prediction"]
    for name in needed:
        if name not in predictions:
            raise ParameterError("predictions", ", ".join(map(str, predictions.columns)), f"must have a column {name}")
    frame = predictions[needed]
    outside = frame["cell"][(frame["cell"] < 0) | (frame["cell"] >= cells)]
    if len(outside):
        raise ParameterError("cell", outside.iloc[0], f"must be from 0 to {cells - 1} (golden runs after the table)")
    if frame.duplicated(["cell", "example_id"]).any():
        twice = frame[frame.duplicated(["cell", "example_id"])].iloc[0]
        raise ParameterError("predictions", f"cell {twice['cell']}", "must have each example once in a cell")
    return frame


def _check_sizes(sizes: Sequence[int], answers: Answers) -> None:
    for size in sizes:
        if not 1 <= size <= answers.least:
            allowed = f"must be from 1 to {answers.least}, the examples of the smallest cell"
            raise ParameterError("test_sizes", size, allowed)


def _answers(frame: pd.DataFrame, factor: str, shape: tuple[int, ...]) -> Answers:
    """Return the predictions by the place of the cell; examples are numbered in the order of their ids."""
    known, numbers = np.unique(frame["example_id"].to_numpy(), return_inverse=True)
    found = {}
    for name, part in frame.assign(number=numbers).groupby("cell"):
        cell = int(str(name))
        inside = cell < shape[0] * shape[1]
        place = Place(factor, *divmod(cell, shape[1])) if inside else Place(None, cell - shape[0] * shape[1])
        found[place] = part["number"].to_numpy(), part["label"].to_numpy(), part["prediction"].to_numpy()
    return Answers(found, len(known))

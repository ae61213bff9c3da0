"""How score and interval change with fewer rows, columns and test examples (Pecher et al. 2024, Appendix C)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.estimate import LEVEL
from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.metrics import classification_metrics
from mlflow_l3d.analysis.results import FloatArray
from mlflow_l3d.analysis.strategies import GOLDEN_ROW
from mlflow_l3d.analysis.tables import as_golden, as_table
from mlflow_l3d.errors import ParameterError, unknown_name

METRICS: Final = ("f1_macro", "accuracy", "matthews_corrcoef")
"""What can be computed anew from predictions."""
ABLATION_COLUMNS: Final = (
    "mitigation_runs",
    "investigation_runs",
    "test_examples",
    "repeat",
    "factor",
    "score_mean",
    "score_std",
    "contributed_std",
    "mitigated_std",
    "importance",
    "importance_corrected",
    "importance_ci_low",
    "importance_ci_high",
    "golden_runs",
    "share_of_baseline",
)


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
        As for :func:`mlflow_l3d.analysis.importance.importance`.

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
    frame = None if not sizes else _checked(predictions, metric, scores.size + len(golden_scores))
    full = math.nan if frame is None else float(frame.groupby("cell").size().max())
    if frame is not None:
        _check_sizes(sizes, frame)
    lines: list[dict[str, object]] = []
    for repeat, child in enumerate(np.random.SeedSequence(seed).spawn(repeats)):
        generators = [np.random.default_rng(each) for each in child.spawn(4)]
        order_rows, order_columns = generators[0].permutation(total_rows), generators[1].permutation(total_columns)
        order_golden = generators[2].permutation(len(golden_scores))
        ranked = None if frame is None else _ranked(frame, generators[3])
        for size in test_sizes:
            cells, golden_cells = scores, golden_scores
            if size is not None and ranked is not None:
                cells, golden_cells = _rescored(ranked, size, metric, scores, golden_scores)
            for row_count, column_count in itertools.product(row_numbers, column_numbers):
                chosen_rows = np.sort(order_rows[:row_count])
                chosen_columns = np.sort(order_columns[:column_count])
                share = row_count * column_count / scores.size
                chosen_golden = golden_cells[np.sort(order_golden[: _golden_count(len(golden_scores), share)])]
                part = cells[np.ix_(chosen_rows, chosen_columns)]
                share_of_examples = 1.0 if size is None else size / full
                setting = (row_count, column_count, pd.NA if size is None else size, repeat)
                found = importance(part, chosen_golden, factor=factor, design=design, level=level)
                known = chosen_golden[np.isfinite(chosen_golden)]
                mean = float(known.mean()) if len(known) else math.nan
                nans = (math.nan,) * 6
                tail = (len(chosen_golden), share * share_of_examples)
                lines.append(_line(*setting, GOLDEN_ROW, mean, found.golden_std, *nans, *tail))
                numbers = (
                    found.score_mean,
                    found.score_std,
                    found.contributed_std,
                    found.mitigated_std,
                    found.importance,
                    found.importance_corrected,
                    found.importance_ci_low,
                    found.importance_ci_high,
                )
                lines.append(_line(*setting, factor, *numbers, *tail))
    return pd.DataFrame(lines, columns=list(ABLATION_COLUMNS)).astype({"test_examples": "Int64"})


def _line(*values: object) -> dict[str, object]:
    return dict(zip(ABLATION_COLUMNS, values, strict=True))


def _golden_count(total: int, share: float) -> int:
    """Return the golden runs that go with a share of the table: in proportion, two at least where there are two."""
    return min(total, max(2, math.ceil(total * share - 1e-9)))


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


def _check_sizes(sizes: Sequence[int], frame: pd.DataFrame) -> None:
    least = int(frame.groupby("cell").size().min())
    for size in sizes:
        if not 1 <= size <= least:
            raise ParameterError("test_sizes", size, f"must be from 1 to {least}, the examples of the smallest cell")


def _ranked(frame: pd.DataFrame, generator: np.random.Generator) -> pd.DataFrame:
    """Return the predictions cell by cell, examples in one random order, with their place in the cell."""
    ids = np.sort(frame["example_id"].unique())
    rank = pd.Series(generator.permutation(len(ids)), index=ids)
    ordered = frame.assign(rank=frame["example_id"].map(rank)).sort_values(["cell", "rank"], ignore_index=True)
    return ordered.assign(place=ordered.groupby("cell").cumcount())


def _rescored(
    ranked: pd.DataFrame, size: int, metric: str, scores: FloatArray, golden: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return table and golden scores on the first `size` examples of each cell; nan where there are no predictions."""
    flat = np.full(scores.size + len(golden), math.nan)
    chosen = ranked[ranked["place"] < size]
    for cell, part in chosen.groupby("cell"):
        metrics = classification_metrics(part["label"].to_numpy(), part["prediction"].to_numpy())
        flat[int(str(cell))] = metrics[metric]
    return flat[: scores.size].reshape(scores.shape), flat[scores.size :]

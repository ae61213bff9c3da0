"""Of which kind the values of a column are, and columns of class numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import UNPARSED

WHOLE: Final = "whole numbers"
NUMBERS: Final = (WHOLE, "numbers")
NOTHING: Final = "none"
"""The kind of a column in which nothing is known."""
_LOWEST: Final = {"label": 0, "prediction": UNPARSED}


def as_list(values: Any) -> list[Any]:
    """Return a column of pyarrow, an array or a sequence as a list."""
    for method in ("to_pylist", "tolist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


def is_missing(value: Any) -> bool:
    """Return whether a value stands for none: None, nan, or one of pandas' own."""
    if value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def kind_of_column(values: Any) -> str:
    """Return ``whole numbers``, ``numbers``, ``texts``, ``lists``, ``none`` (nothing known), or several of these."""
    kinds = {_kind_of(value) for value in as_list(values) if not is_missing(value)} if values is not None else set()
    return "numbers" if kinds == set(NUMBERS) else " and ".join(sorted(kinds)) or NOTHING


def finite(prediction: Any) -> float:
    """Return a finite number.

    Raises
    ------
    ParameterError
        If it is none; it shows a number, and of all else the type.
    """
    if not isinstance(prediction, (int, float, np.integer, np.floating)):
        raise ParameterError("prediction", type(prediction).__name__, "must be a number")
    if not math.isfinite(prediction):
        raise ParameterError("prediction", float(prediction), "must be a finite number")
    return float(prediction)


def family(kind: str) -> str:
    """Return a kind, and for both kinds of numbers the same one."""
    return "numbers" if kind in NUMBERS else kind


def class_column(column: Any, what: str) -> npt.NDArray[np.int64]:
    """Return a column of class numbers as an array.

    Parameters
    ----------
    column
        A column of pyarrow, an array or a sequence with n values.
    what
        ``label`` or ``prediction``. A prediction that is missing names no class: it becomes -1.

    Returns
    -------
    numpy.ndarray
        Shape (n,): int64.

    Raises
    ------
    ParameterError
        If a value is not a class number, or a label is missing; it shows kinds and numbers, no texts.
    """
    values: npt.NDArray[Any] = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if values.dtype.kind not in "iub":
        listed = values.tolist()
        if (kind := kind_of_column(listed)) not in (WHOLE, NOTHING):
            fix = "Write all in the same form, or name how to compare them: agreement=regression or a scoring function."
            raise ParameterError(what, kind, "must be class numbers, as in the first cell", fix)
        if what == "prediction":
            listed = [UNPARSED if is_missing(value) else value for value in listed]
        if any(map(is_missing, listed)):
            raise ParameterError(what, "null", "must be a class number in every row, as in the first cell")
        values = np.array(listed, dtype=np.float64)
    numbers: npt.NDArray[np.int64] = values.astype(np.int64)
    if len(numbers) and (least := int(numbers.min())) < _LOWEST[what]:
        fix = "If they are not classes, name agreement=regression or a scoring function."
        raise ParameterError(what, least, f"class numbers must be {_LOWEST[what]} or above", fix)
    return numbers


def check_same_kind(known: dict[str, str], what: str, values: Any) -> None:
    """Check that a column has values of one kind in all cells, where comparing two kinds would find nothing equal.

    Parameters
    ----------
    known
        Column -> its kind in the cells before; that of `what` is kept in it.
    what, values
        The column of the next cell.

    Raises
    ------
    ParameterError
        If it is of another kind than before.
    """
    here = family(kind_of_column(values))
    if here != NOTHING and (before := known.setdefault(what, here)) != here:
        raise ParameterError(what, here, f"must be {before}, as in the cells before", "Write all in the same form.")


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "texts"
    if isinstance(value, (int, float, np.number, np.bool_)):
        return WHOLE if float(value).is_integer() else "numbers"
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray, Mapping)):
        return "lists"
    return type(value).__name__

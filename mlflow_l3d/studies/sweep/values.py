"""Values of a sweep as they are typed: lists of parameters and hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mlflow_l3d.approaches.own_parameters import OWN_PARAMETERS
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.parameters.values import as_text, json_of
from mlflow_l3d.studies.sweep.parameters import SWEEP

WITH_COMMAS: Final = (
    *("factor", "hyperparameters", "mitigation", "text_column", "executor_options"),
    *(name for name, declaration in OWN_PARAMETERS.items() if declaration.text == "words"),
)
"""Parameters whose own values hold commas: a semicolon separates several values."""


def values_of(name: str, value: Any) -> list[Any]:
    """Return the values that are given for a parameter of `main`.

    A text is separated at commas, or at semicolons if a single value may hold commas (:data:`WITH_COMMAS`); one that
    begins with ``[`` is a list in JSON. A list from Python or a file holds the values; of parameters that are
    themselves a list of names in `main` (``factor``), a list of lists does.

    Raises
    ------
    ParameterError
        If there is none, one of them is empty, or the parameter takes no list.
    """
    values = [value]
    if isinstance(value, str):
        values = _of_text(name, value)
    elif isinstance(value, list | tuple):
        names = name in WITH_COMMAS and name != "hyperparameters" and not any(isinstance(each, list) for each in value)
        values = [as_text(name, list(value))] if names else list(value)
    values = [as_text(name, each) if isinstance(each, list | tuple) else each for each in values]
    if not values or any(each is None or (isinstance(each, str) and not each) for each in values):
        raise ParameterError(name, as_text(name, value), "must name values, and no empty one")
    if len(values) > 1 and name in PLACE:
        allowed = "must be one value: all cells of a sweep run in the same place"
        raise ParameterError(name, as_text(name, value), allowed, "Start a sweep for each.")
    return values


def _of_text(name: str, text: str) -> list[Any]:
    stripped = text.strip()
    if stripped.startswith("["):
        return list(json_of(name, text, stripped))
    if name in WITH_COMMAS:
        return [text] if stripped.startswith("{") else [part.strip() for part in text.split(";")]
    return [part.strip() for part in text.split(",")]


def over_of(value: Any) -> dict[str, list[Any]]:
    """Return hyperparameter -> its values."""
    if isinstance(value, str):
        value = {} if value == SWEEP["over"].default else json_of("over", value, value)
    if not isinstance(value, Mapping):
        raise ParameterError("over", value, 'must be a mapping: hyperparameter -> values, as in {"shots": [2, 4]}')
    values_by_name = {str(name): listed(values) for name, values in value.items()}
    for name, values in values_by_name.items():
        if not values or any(each is None or isinstance(each, list | dict) for each in values):
            raise ParameterError(f"over.{name}", values, "must be values of that hyperparameter, at least one")
    return values_by_name


def listed(values: Any) -> list[Any]:
    """Return some values as a list, also a single one."""
    return list(values) if isinstance(values, list | tuple) else [values]


def same(name: str, own: Any, wanted: Any) -> bool:
    """Return whether two values are one, however they are typed: 8, 8.0 and "8"."""
    texts = [
        str(getattr(value, "name", value)) if not isinstance(value, Mapping) else as_text(name, value)
        for value in (own, wanted)
    ]
    if texts[0] == texts[1]:
        return True
    try:
        return float(texts[0]) == float(texts[1])
    except ValueError:
        return texts[0].lower() == texts[1].lower() and {"true", "false"} >= {texts[0].lower()}

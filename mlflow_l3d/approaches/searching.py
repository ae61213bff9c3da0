"""What a search of hyperparameters may try; an approach declares it, and nothing here needs Optuna."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlflow_l3d.approaches.base import Approach, Hyperparameter, Value


@dataclass(frozen=True, slots=True)
class SearchRange:
    """A number between two bounds.

    Attributes
    ----------
    low, high
        Inclusive bounds, in the unit of the hyperparameter.
    log
        Whether orders of magnitude matter; `low` is then positive.
    whole
        Whether it is a whole number.
    coarse
        The values of level 1, rising; empty where they follow from the bounds
        (:meth:`mlflow_l3d.studies.search.space.SearchSpace.coarse`).
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False
    coarse: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchChoices:
    """One of some values, which have no order: all of them at level 1, the best one at level 2."""

    choices: tuple[Value, ...]


Searched = SearchRange | SearchChoices


def search_space_of(approach: Approach, hyperparameters: Mapping[str, Value]) -> dict[str, Searched]:
    """Return what is searched unless the user says otherwise.

    Parameters
    ----------
    approach
        Its hook ``search_space(hyperparameters)`` answers where it has one; otherwise every hyperparameter is searched
        that is declared with both bounds, or with two or more choices.
    hyperparameters
        Complete.

    Returns
    -------
    dict
        Name -> what may be tried; may be empty.
    """
    if hasattr(approach, "search_space"):
        return dict(approach.search_space(hyperparameters))
    declared = {name: declared_search(declaration) for name, declaration in approach.hyperparameters.items()}
    return {name: searched for name, searched in declared.items() if searched is not None}


def is_number(declaration: Hyperparameter) -> bool:
    """Return whether the hyperparameter is a number, or a number or `auto`."""
    return _is_plain_number(declaration.default) or hasattr(declaration, "whole")


def is_whole(declaration: Hyperparameter) -> bool:
    """Return whether the hyperparameter is a whole number (or `auto`)."""
    return bool(getattr(declaration, "whole", _is_plain_number(declaration.default, int)))


def declared_search(declaration: Hyperparameter) -> Searched | None:
    """Return all that a hyperparameter allows, or None where that is open or a single value.

    The scale is logarithmic where the declaration says so and the lower bound is positive.
    """
    if isinstance(declaration.default, bool):
        return SearchChoices((False, True))
    if len(declaration.choices) >= 2:
        return SearchChoices(declaration.choices)
    low, high = declaration.low, declaration.high
    if not is_number(declaration) or low is None or high is None or not low < high:
        return None
    return SearchRange(low, high, log=declaration.log and low > 0, whole=is_whole(declaration))


def _is_plain_number(value: Value, kind: type | tuple[type, ...] = (int, float)) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)

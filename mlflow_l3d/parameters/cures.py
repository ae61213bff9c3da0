"""A remedy as it is given: a JSON file, JSON, a mapping or an object; and the approach that has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from mlflow_l3d import registry
from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.cured import Cured
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.checks import check_approach
from mlflow_l3d.parameters.values import as_text, check_names, file_text, json_of


def read_remedy(given: Remedy | Mapping[str, Any] | Path | str) -> Remedy:
    """Return a remedy, whose names nobody has checked yet.

    Parameters
    ----------
    given
        ``{"kind": "vote", "over": ["data_order"], "members": 5, "changes": {}}`` as a mapping, as JSON or as the path
        of a JSON file; all but ``kind`` may be left out. `over` may also be a text with names separated by commas.

    Raises
    ------
    ParameterError
        If it is none of these.
    """
    if isinstance(given, Remedy):
        return given
    text = as_text("cure", given)
    content = json_of("cure", text, text if text.lstrip().startswith("{") else file_text("cure", text, text))
    if not isinstance(content, dict) or "kind" not in content:
        raise ParameterError("cure", text, 'must hold a remedy such as {"kind": "vote", "over": [...], "members": 5}')
    check_names("cure", content, [each.name for each in fields(Remedy) if each.compare])
    over, changes = content.get("over", ()), content.get("changes", {})
    names = [name.strip() for name in over.split(",")] if isinstance(over, str) else over
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ParameterError("cure.over", over, "must be a list of factors")
    if not isinstance(changes, dict):
        raise ParameterError("cure.changes", changes, "must be an object, name -> value of hyperparameters")
    return Remedy(content["kind"], tuple(names), content.get("members", 1), changes)


def text_of(remedy: Remedy) -> str:
    """Return the JSON of a remedy: what a run logs, so that it can be repeated without the file."""
    content = {name: value for name, value in asdict(remedy).items() if name not in ("words", "trainings")}
    return json.dumps(content, sort_keys=True)


def cured(approach: Approach | str, remedy: Remedy | Mapping[str, Any] | Path | str) -> Cured:
    """Return an approach with a remedy against luck, which is used like any approach.

    Parameters
    ----------
    approach
        An approach, or the name of one.
    remedy
        What is done instead of one training: kinds are ``vote``, ``mean`` (of class scores, or of numbers) and
        ``choose`` (the best on validation examples), with `members` trainings that differ `over` some factors;
        ``active`` chooses half of the training examples by a first training on the other half; ``training`` and
        ``prompt`` have other hyperparameters, `changes`, which the other kinds may have, too.
        A mapping, JSON, or the path of a JSON file.

    Raises
    ------
    ParameterError
        If there is no such approach, or it cannot have this remedy.

    Examples
    --------
    >>> import mlflow_l3d
    >>> approach = mlflow_l3d.cured("synthetic", {"kind": "vote", "over": ["data_order"], "members": 5})
    >>> approach.name
    'synthetic, vote of 5 over data_order'
    >>> mlflow_l3d.cured("synthetic", {"kind": "vote", "over": ["data_order"]})
    Traceback (most recent call last):
        ...
    mlflow_l3d.errors.ParameterError: cure.members=1: must be a whole number of at least 2.
    """
    if isinstance(approach, str):
        factory = registry.load("approach", approach)
        if needed := getattr(factory, "parameters", ()):
            allowed = f"also needs {', '.join(needed)}"
            raise ParameterError("approach", approach, allowed, "Use the parameter cure instead, next to these.")
        approach = factory()
    check_approach(approach)
    assert isinstance(approach, Approach)
    return Cured(approach, read_remedy(remedy))

"""Designs: which cells an investigation has, and what is computed from their scores. One class a design."""

from __future__ import annotations

from functools import cache

import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.designs.base import Design

__all__ = ["Design", "all_designs", "design_named", "design_of", "plannable_designs"]


@cache
def design_named(name: str) -> type[Design]:
    """Return the class of a design.

    Raises
    ------
    ParameterError
        If there is no such design; the parameter is ``design``.
    """
    design: type[Design] = registry.load("design", name)
    return design


def all_designs() -> dict[str, type[Design]]:
    """Return name -> class of every design that is installed, sorted by name."""
    return {name: design_named(name) for name in registry.names("design")}


def plannable_designs() -> dict[str, type[Design]]:
    """Return name -> class of the designs whose precision can be reckoned before a run."""
    return {name: design for name, design in all_designs().items() if design.planning is not None}


def design_of(cells: pd.DataFrame) -> type[Design]:
    """Return the design of a stranger's cells: one that has a phase of theirs to itself, else the crossed one."""
    phases = set(cells["phase"]) if "phase" in cells else set()
    recognising = [design for design in all_designs().values() if design.recognises(phases)]
    return recognising[0] if recognising else design_named("crossed")

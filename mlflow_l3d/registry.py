"""Approaches, tasks, executors, designs, metrics and studies by name, ours and others' by the same entry points."""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.errors import L3DError, unknown_name

GROUPS: Final = {
    "approach": "mlflow_l3d.approaches",
    "task": "mlflow_l3d.tasks",
    "executor": "mlflow_l3d.executors",
    "design": "mlflow_l3d.designs",
    "metric": "mlflow_l3d.metrics",
    "study": "mlflow_l3d.studies",
}
"""Parameter -> entry-point group. Metrics of ours come without one: see :mod:`mlflow_l3d.metrics.known`."""


@cache
def _source_entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Read our own entry points from `pyproject.toml` where the package runs from its sources without an installation.

    `mlflow run` does so in the environment that `conda.yaml` describes.
    """
    try:
        distribution("mlflow-l3d")
    except PackageNotFoundError:
        pyproject = Path(__file__).parents[1] / "pyproject.toml"
        if not pyproject.is_file():
            return ()
        declared = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["entry-points"]
        return tuple(EntryPoint(name, value, group) for name, value in declared.get(group, {}).items())
    return ()


@cache
def _installed(group: str, _places: tuple[tuple[Path, int], ...]) -> EntryPoints:
    """Read the entry points of all packages once: there may be hundreds, and names are asked for all the time."""
    return entry_points(group=group)


def _places() -> tuple[tuple[Path, int], ...]:
    """Return the folders with packages, and when something was installed there last."""
    return tuple((path, path.stat().st_mtime_ns) for path in map(Path, sys.path) if path.is_dir())


def names(parameter: str) -> list[str]:
    """Return the names that `parameter` (a key of :data:`GROUPS`) may have, sorted.

    Raises
    ------
    L3DError
        If there are none, though we bring some along: the package was installed before it had them.
    """
    return sorted(_found(parameter))


def load(parameter: str, name: str) -> Any:
    """Return the object that an entry point names.

    Raises
    ------
    ParameterError
        If there is no such name; with a did-you-mean where one is close.
    L3DError
        If the entry point cannot be imported, or two packages declare the name for different objects.
    """
    found = _found(parameter)
    if name not in found:
        raise unknown_name(parameter, name, found)
    point, *others = found[name]
    if others:
        values = " and ".join(repr(each.value) for each in found[name])
        raise L3DError(f"{parameter}={name}: is declared more than once, as {values}. Uninstall one of the packages.")
    try:
        return point.load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        why = f"{type(error).__name__}: {error}"
        raise L3DError(f"{parameter}={name}: the entry point {point.value!r} cannot be loaded ({why}).") from error


def _found(parameter: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Return name -> its entry points, one for each object that the name stands for."""
    group = GROUPS[parameter]
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in (*_source_entry_points(group), *_installed(group, _places())):
        found.setdefault(point.name, {}).setdefault(point.value, point)
    if not found and parameter != "metric":
        raise L3DError(
            f"{parameter}: the installation of mlflow-l3d is stale and knows none. Run pip install -e . again."
        )
    return {name: tuple(points.values()) for name, points in found.items()}

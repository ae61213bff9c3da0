"""Approaches, tasks, executors, designs, metrics and studies by name, of all packages, from entry points."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
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
"""Parameter -> entry-point group. Our metrics have no entry points: see :mod:`mlflow_l3d.metrics.known`."""


@cache
def _source_entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return our entry points from `pyproject.toml` if the package runs from its sources without an installation.

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
def _installed(group: str, _packages: tuple[tuple[str, int], ...]) -> EntryPoints:
    """Return the entry points of all packages, read once: there may be hundreds, and names are needed often."""
    return entry_points(group=group)


def _packages() -> tuple[tuple[str, int], ...]:
    """Return the records of what is installed, and when each was written."""
    folders = [(path, path.stat()) for path in map(Path, sys.path) if path.is_dir()]
    return tuple(each for path, at in folders for each in _packages_in(path, at.st_ino, at.st_mtime_ns))


@lru_cache(maxsize=100)
def _packages_in(folder: Path, _place: int, _changed: int) -> tuple[tuple[str, int], ...]:
    """Return those in one folder, which may also be that of a store or a script, and change all the time."""
    return tuple((str(path), path.stat().st_mtime_ns) for path in sorted(folder.glob("*.*-info")))


def names(parameter: str) -> list[str]:
    """Return the names that `parameter` (a key of :data:`GROUPS`) may have, sorted.

    Raises
    ------
    L3DError
        If there are none, though this package has some: it was installed before it had them.
    """
    return sorted(_entry_points(parameter))


def load(parameter: str, name: str) -> Any:
    """Return the object that an entry point names.

    Raises
    ------
    ParameterError
        If there is no such name; the error proposes a similar one if there is one.
    L3DError
        If the entry point cannot be imported, or two packages declare the name for different objects.
    """
    points = _entry_points(parameter)
    if name not in points:
        raise unknown_name(parameter, name, points)
    point, *others = points[name]
    if others:
        values = " and ".join(repr(each.value) for each in points[name])
        raise L3DError(f"{parameter}={name}: is declared more than once, as {values}. Uninstall one of the packages.")
    try:
        return point.load()
    except Exception as error:  # a module of another package may raise anything while it is imported
        why = f"{type(error).__name__}: {error}"
        raise L3DError(f"{parameter}={name}: the entry point {point.value!r} cannot be loaded ({why}).") from error


def _entry_points(parameter: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Return name -> its entry points, one for each object with the name."""
    group = GROUPS[parameter]
    by_name: dict[str, dict[str, EntryPoint]] = {}
    for point in (*_source_entry_points(group), *_installed(group, _packages())):
        by_name.setdefault(point.name, {}).setdefault(point.value, point)
    if not by_name and parameter != "metric":
        raise L3DError(f"{parameter}: the installation of mlflow-l3d is old and has none. Run pip install -e . again.")
    return {name: tuple(points.values()) for name, points in by_name.items()}


def hyperparameters_of(approach: str) -> Mapping[str, Any] | None:
    """Return name -> declaration, of an approach with an entry point; None if it cannot be loaded or declares none."""
    try:
        declared = getattr(load("approach", approach), "hyperparameters", None)
    except L3DError:  # no longer installed, or damaged
        return None
    return declared if isinstance(declared, Mapping) else None

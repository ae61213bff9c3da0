"""Approaches, tasks, executors, designs, metrics and studies by name, of all packages, from entry points."""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.errors import L3DError, unknown_name
from mlflow_l3d.paths import working_folder

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
def _installed(group: str, _places: tuple[tuple[Path, int], ...]) -> EntryPoints:
    """Return the entry points of all packages, read once: there may be hundreds, and names are needed often."""
    return entry_points(group=group)


def _places() -> tuple[tuple[Path, int], ...]:
    """Return the folders with packages, and the time of the last installation in each.

    That of the working folder does not count: a store or a cache in it changes it all the time.
    """
    here, folders = (Path(), working_folder()), (path for path in map(Path, sys.path) if path.is_dir())
    return tuple((path, 0 if path in here else path.stat().st_mtime_ns) for path in folders)


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
    for point in (*_source_entry_points(group), *_installed(group, _places())):
        by_name.setdefault(point.name, {}).setdefault(point.value, point)
    if not by_name and parameter != "metric":
        raise L3DError(f"{parameter}: the installation of mlflow-l3d is old and has none. Run pip install -e . again.")
    return {name: tuple(points.values()) for name, points in by_name.items()}

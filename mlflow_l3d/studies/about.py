"""What reports say about a study: its run and date, its classes, and the versions behind it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Final

from mlflow_l3d.version import __version__

_CLASSES_SHOWN: Final = 20


def heading(run_id: str) -> dict[str, str]:
    """Return what every report begins with: the run, and when the report was written."""
    return {"MLflow run": run_id, "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")}


def class_words(classes: Sequence[str]) -> str:
    """Return the names of the classes; of many the first, and how many more there are."""
    more = len(classes) - _CLASSES_SHOWN
    return ", ".join(classes[:_CLASSES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def version_words() -> str:
    """Return the versions as reports show them."""
    return ", ".join(f"{name} {number}" for name, number in versions().items())


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that may matter, those that are installed."""
    import platform

    others = ("mlflow", "numpy", "pandas", "pyarrow", "torch", "transformers", "tokenizers", "datasets")
    installed = {name: number for name in others if (number := _installed(name)) is not None}
    return {"python": platform.python_version(), "mlflow-l3d": __version__, **installed}


@cache
def _installed(package: str) -> str | None:
    """Return the version of a package, None where it is not installed; read once, since it takes its time."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None

"""A package to begin with: an approach that keeps the contract as it is, its entry point and its test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlflow_l3d import registry
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name

_FILES: Final = ("pyproject.toml", "l3d_mine.py", "test_l3d_mine.py")
"""Files of the package; the folder ``templates`` has the text of each, with the ending .txt."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The package that was written.

    Attributes
    ----------
    folder
        Its folder.
    files
        Names of the files in it.
    """

    folder: Path
    files: tuple[str, ...]

    def summary(self) -> str:
        """Return the names of the files and the commands that try the package."""
        steps = f"Try it: pip install -e {self.folder} && pytest {self.folder}"
        return f"{self.folder}: {', '.join(self.files)}. {steps}"


def new(kind: str, name: str, *, folder: Path | None = None) -> Skeleton:
    """Write a package with an approach, which passes the conformance suite as it is.

    Parameters
    ----------
    kind
        ``approach``.
    name
        Name of the approach: small letters, digits and underscores.
    folder
        Folder in which the package's folder ``l3d-NAME`` is made; the current one if None.

    Returns
    -------
    Skeleton
        Folder and files of the package.

    Raises
    ------
    ParameterError
        If the kind is another, or the name is invalid or taken.
    L3DError
        If the folder exists already.

    Examples
    --------
    >>> import mlflow_l3d
    >>> package = mlflow_l3d.new("approach", "mine")
    >>> package.files
    ('pyproject.toml', 'l3d_mine.py', 'test_l3d_mine.py')
    """
    if kind != "approach":
        raise unknown_name("kind", kind, ["approach"])
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ParameterError("name", name, "must be small letters, digits and underscores, a letter first")
    if name in registry.names("approach"):
        raise ParameterError("name", name, "is the name of an approach that is installed", "Choose another one.")
    root = (folder or Path()) / f"l3d-{name}"
    if root.exists():
        raise L3DError(f"the folder {root} is there already; nothing was written.")
    root.mkdir(parents=True)
    camel = "".join(part.capitalize() for part in name.split("_"))
    files = [file.replace("mine", name) for file in _FILES]
    for file, template in zip(files, _FILES, strict=True):
        text = (Path(__file__).parent / "templates" / f"{template}.txt").read_text(encoding="utf-8")
        (root / file).write_text(text.replace("mine", name).replace("Mine", camel), encoding="utf-8")
    return Skeleton(root, tuple(files))

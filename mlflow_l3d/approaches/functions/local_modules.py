"""The local modules that a function uses: their sources decide its results, too."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from mlflow_l3d.approaches.command.folder import MOST_FILES, walk
from mlflow_l3d.approaches.functions.parts import without_comments

_IMPORT: Final = re.compile(r"^\s*(?:from|import)\s+(.+)", re.MULTILINE)
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def local_modules(function: Callable[..., Any], source: str) -> dict[str, str]:
    """Return file -> source of the local modules that a function and its file import, and of those that these import.

    A module is local if it is in the folder of the function's file, or in the working folder. Of a package all
    modules are returned.

    Parameters
    ----------
    function, source
        The function, and its source.
    """
    plain: Any = inspect.unwrap(getattr(function, "func", function))
    texts, folders, followed = [source, *_imported(plain)], folders_of(plain), set[Path]()
    if (file := Path(getattr(getattr(plain, "__code__", None), "co_filename", ""))).is_file():
        texts.append(file.read_text("utf-8", "replace"))
        followed.add(file.resolve())
    sources: dict[str, str] = {}
    while texts:
        names = {name for line in _IMPORT.findall(texts.pop()) for name in re.findall(r"\w+", line)} - {"mlflow_l3d"}
        places = [(folder, folder / name) for folder in folders for name in names]
        for start, path in [(start, path) for start, place in places for path in _files(place)]:
            if path.resolve() not in followed:
                followed.add(path.resolve())
                texts.append(without_comments(path.read_text("utf-8", "replace")))
                sources.setdefault(path.relative_to(start).as_posix(), texts[-1])
    return dict(sorted(sources.items()))


def folders_of(function: Any) -> list[Path]:
    """Return the folders whose modules are local: that of a function's file, and the working folder."""
    file = Path(getattr(getattr(function, "__code__", None), "co_filename", ""))
    folders = [*([file.resolve().parent] if file.is_file() else []), Path.cwd()]
    return [folder for folder in folders if _INSTALLED.isdisjoint(folder.parts)]


def is_local(module: str, folders: Iterable[Path]) -> bool:
    """Return whether an imported module is in one of these folders."""
    top, file = module.partition(".")[0], getattr(sys.modules.get(module), "__file__", None)
    if file is None or top in ("__main__", "mlflow_l3d"):
        return False
    path = Path(file).resolve()
    return any(path == folder / f"{top}.py" or path.is_relative_to(folder / top) for folder in folders)


def _imported(function: Any) -> Iterator[str]:
    """Yield lines that import what the globals of a function come from: a notebook has no file that says it."""
    for value in getattr(function, "__globals__", {}).values():
        if isinstance(value, ModuleType | FunctionType | type):
            yield f"import {value.__name__ if isinstance(value, ModuleType) else value.__module__}"


def _files(module: Path) -> Iterator[Path]:
    """Yield the files of a module or package, whose name has no ending yet."""
    if (file := module.with_suffix(".py")).is_file():
        yield file
    if module.is_dir():
        yield from (module / name for name, _ in islice(walk(module), MOST_FILES) if name.endswith(".py"))

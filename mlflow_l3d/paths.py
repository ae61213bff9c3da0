"""The folder for data between runs, with the spool of results not yet on the server; files with notes, and hashes."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from mlflow_l3d.errors import ParameterError


def cache_folder(name: str = "") -> Path:
    """Return the cache folder, created if need be: ``$L3D_CACHE``, or the user's cache folder of this system.

    Parameters
    ----------
    name
        Of a folder in it that is returned instead.

    Raises
    ------
    ParameterError
        If it cannot be created or written.
    """
    from platformdirs import user_cache_path

    text = os.environ.get("L3D_CACHE")
    folder = Path(text).expanduser().absolute() if text else user_cache_path("mlflow-l3d")
    try:
        private_folder(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ParameterError("L3D_CACHE", folder, f"must be a folder that can be written ({reason})") from error
    if not os.access(folder, os.W_OK):
        raise ParameterError("L3D_CACHE", folder, "must be a folder that can be written", "Set L3D_CACHE to another.")
    (folder / name).mkdir(mode=0o700, exist_ok=True)
    return folder / name


def working_folder() -> Path:
    """Return the working folder; the empty path if it was removed meanwhile, or is the root, in which all paths lie."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        return Path()
    return folder if folder.name else Path()


def private_folder(folder: Path, *, ours: bool = False) -> None:
    """Create a folder that nobody else can write to: its content (features, finished cells) is trusted.

    Parameters
    ----------
    folder
        The folder; its parents are created, too.
    ours
        Whether only this package makes it: others then lose the permission to write to it.

    Raises
    ------
    ParameterError
        If it belongs to another user, or everybody can write to it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name != "posix":
        return
    status = folder.stat()
    user, fix = os.getuid(), "Set L3D_CACHE to a folder of your own."
    if user and status.st_uid not in (user, 0):
        raise ParameterError("L3D_CACHE", folder, "belongs to another user", fix)
    open_to = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if ours and open_to:
        folder.chmod(status.st_mode & ~open_to)
    elif open_to & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise ParameterError("L3D_CACHE", folder, "can be written by everybody", fix)


def small_text(path: Path) -> bytes:
    """Return the content of a file of 1 MB or less, else nothing."""
    with suppress(OSError):  # it is gone
        return path.read_bytes() if path.stat().st_size <= 10**6 else b""
    return b""


def file_hash(path: Path) -> str:
    """Return the SHA-256 of the content of a file, which is read again if the file was written."""
    status = path.stat()
    return _content_hash(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@cache
def _content_hash(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_notes(path: Path) -> dict[str, Any]:
    """Return the mapping in a file of JSON; an empty one if there is none, or it is damaged."""
    with suppress(OSError, ValueError):
        document = json.loads(path.read_text(encoding="utf-8"))
        return document if isinstance(document, dict) else {}
    return {}


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a mapping, as the decoder of JSON asks for it.

    Raises
    ------
    ValueError
        If two have one name.
    """
    if len(mapping := dict(pairs)) < len(pairs):
        raise ValueError("a name is there twice")
    return mapping


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, which is whole whenever somebody reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    partial.replace(path)

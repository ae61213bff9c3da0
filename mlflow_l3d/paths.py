"""The folder for data between runs, files with notes, hashes; paths as others may see them, and as they are typed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.privacy import HIDDEN, public_text, public_value


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


def public_path(text: str) -> str:
    """Return a text with the user's home folder as ``~`` and the working folder as ``.``."""
    for folder, sign in ((working_folder(), "."), (Path.home(), "~")):
        if len(folder.parts) > 1:
            text = re.sub(re.escape(str(folder)) + r"(?![\w.-])", sign, text)
    return text


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


def public_parameter(name: str, value: str) -> str:
    """Return the value of a parameter as it may be shown and logged: no private folder, no credential."""
    if name in ("command", "project_parameters", "candidate"):
        return public_words(value)
    return public_value(name, public_name(value.removeprefix("file://") if name == "uri" else value))


def public_words(value: str) -> str:
    """Return a command that may be shown to others: no credentials, and the last parts of absolute and home paths.

    Of a path in the working folder, what follows this folder stays: so it can be typed there.
    """
    value = re.sub(rf"(?<![\w./-]){re.escape(str(working_folder()))}/(?=[^\s'\"])", "", value)
    path = r"(?:^|(?<=[\s=:'\"|])(?!//)|(?<=://)(?=/[^/])|(?<=:///)(?=/))(?:[/~]|[^\W\d_]:[\\/])[^\s'\"|]*"
    return re.sub(path, lambda found: public_name(found[0]), public_text(value))


def public_name(value: str) -> str:
    """Return a value that may be shown to others: of an absolute or home path, only the last part."""
    if value.startswith(("/", "~", "\\")) or re.match(r"[^\W\d_]:", value):
        return PurePath(value.replace("\\", "/")).name
    return value


def keep_whole(key: str, given: Mapping[str, str]) -> None:
    """Keep the parameters of the study with this context key that runs hold with parts of paths; no credentials."""
    public = {name: public_parameter(name, value) for name, value in given.items()}
    whole = {name: value for name, value in given.items() if value != public[name] and HIDDEN not in public[name]}
    if whole:
        write_whole(cache_folder() / "whole_paths" / f"{key}.json", json.dumps(whole))


def kept_whole(key: str | None) -> dict[str, str]:
    """Return the parameters that were kept for this context key; nothing on another machine."""
    return read_notes(cache_folder() / "whole_paths" / f"{key}.json") if key else {}


def with_whole_paths(command: str, whole: str) -> str:
    """Return a command with the paths of another one, if it has their last parts and this folder no such file.

    Last parts that two words have in common stay as they are.

    Examples
    --------
    >>> with_whole_paths("python train_x.py --seed {seed} --lr 1", "python /opt/train_x.py --seed {seed}")
    'python /opt/train_x.py --seed {seed} --lr 1'
    """
    words = dict.fromkeys(shlex.split(whole))
    lasts = Counter(map(public_words, words))
    for word in words:
        last = public_words(word)  # a number is rather the value of an option
        if last not in ("", word) and lasts[last] == 1 and not last.isdecimal() and not Path(last).exists():
            path = shlex.quote(word).replace("\\", r"\\")
            command = re.sub(rf"(?<!\S)(['\"]?){re.escape(last)}\1(?!\S)", path, command)
    return command


def with_typed_paths(text: str, *typed: Mapping[str, object]) -> str:
    r"""Return what a command prints with the whole paths of its and others' parameters, in the commands that it prints.

    Examples
    --------
    >>> with_typed_paths("Next:\n    mlflow-l3d investigate a.csv --seeds 3", {"task": "/data/a.csv"})
    'Next:\n    mlflow-l3d investigate /data/a.csv --seeds 3'
    """
    whole: dict[str, str] = {}
    for name, value in chain.from_iterable(each.items() for each in typed):
        words = [str(value)]
        if name == "command":
            with suppress(ValueError):  # several commands, as JSON
                words = shlex.split(str(value))
        shown = {public_parameter(name, word): word for word in words}
        whole |= {shlex.quote(short): shlex.quote(word) for short, word in shown.items() if _is_elsewhere(short, word)}
    lines = text.split("\n")
    for place, line in enumerate(lines):
        for short, word in whole.items() if line.startswith("    mlflow-l3d ") else ():
            parts = re.split(rf"(?<!\S){re.escape(short)}(?!\S)", line)
            lines[place] = line = word.join(parts) if len(parts) == 2 else line
    return "\n".join(lines)


def _is_elsewhere(short: str, word: str) -> bool:
    """Return whether a path was shortened, and its last part names nothing else: a number, a credential, this file."""
    is_path = short not in ("", word) and not short.isdecimal() and HIDDEN not in short
    return is_path and Path(short).absolute() != Path(word).expanduser()

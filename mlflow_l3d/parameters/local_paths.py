"""Parameters with their whole paths, kept on this machine: runs hold the last part of a path outside the folder."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mlflow_l3d.parameters.values import public_parameter, public_words
from mlflow_l3d.paths import cache_folder, read_notes, write_whole
from mlflow_l3d.privacy import HIDDEN


def keep_whole(key: str, given: Mapping[str, str]) -> None:
    """Keep the parameters of the study with this context key that runs hold with parts of paths; no credentials."""
    public = {name: public_parameter(name, value) for name, value in given.items()}
    whole = {name: value for name, value in given.items() if value != public[name] and HIDDEN not in public[name]}
    if whole:
        write_whole(_file(key), json.dumps(whole))


def kept_whole(key: str | None) -> dict[str, str]:
    """Return the parameters that were kept for this context key; nothing on another machine."""
    return read_notes(_file(key)) if key else {}


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


def with_typed_paths(text: str, typed: Mapping[str, object]) -> str:
    r"""Return what a command prints with the whole paths of its parameters, in the commands that it prints.

    Examples
    --------
    >>> with_typed_paths("Next:\n    mlflow-l3d investigate a.csv --seeds 3", {"task": "/data/a.csv"})
    'Next:\n    mlflow-l3d investigate /data/a.csv --seeds 3'
    """
    whole: dict[str, str] = {}
    for name, value in typed.items():
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


def _file(key: str) -> Path:
    return cache_folder() / "whole_paths" / f"{key}.json"

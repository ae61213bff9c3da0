"""The options of a command by name, to say in what two commands differ."""

from __future__ import annotations

import re
import shlex
from typing import Final

_OPTION: Final = re.compile("--?[A-Za-z]")


def options_of(command: str) -> dict[str, str]:
    """Return the options of a command, and the rest of it as ``script``; without what each run has of its own.

    Examples
    --------
    >>> options_of("python train.py --seed {seed} --fast -b 8")
    {'script': 'python train.py', 'fast': 'yes', 'b': '8'}
    """
    options: dict[str, str] = {}
    rest: list[str] = []
    words = shlex.split(command)
    for before, word in zip(["", *words], words, strict=False):
        name, equals, value = word.partition("=")
        if "{" in word:
            options.pop(before.lstrip("-"), None)
            continue
        if _OPTION.match(word):
            options[name.lstrip("-")] = value if equals else "yes"
        elif _OPTION.match(before) and "=" not in before:
            options[before.lstrip("-")] = word
        else:
            rest.append(word)
    return {"script": " ".join(rest), **options} if words else {}


def changed_options(before: str, after: str) -> str:
    """Return in which options the second command differs from the first; the whole of it if in others.

    Examples
    --------
    >>> changed_options("python train.py --seed {seed}", "python train.py --seed {seed} --epochs 20")
    'epochs=20'
    """
    old, new = options_of(before), options_of(after)
    changed = [f"{name}={new.get(name, 'default')}" for name in {**old, **new} if old.get(name) != new.get(name)]
    return " ".join(changed if old and new else ()) or f"command={after}"

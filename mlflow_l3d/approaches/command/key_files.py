"""The files whose content decides the results of a command, as far as it and its scripts name them."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from mlflow_l3d.approaches.command.folder import MOST_FILES, walk
from mlflow_l3d.approaches.command.template import Template, small_text
from mlflow_l3d.approaches.command.written import METRICS, PREDICTIONS
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.paths import cache_folder, file_hash, read_notes, write_whole

_SMALL: Final = 10**7
_SCRIPTS: Final = frozenset({".py", ".sh"})
_SETTINGS: Final = frozenset({".yaml", ".yml", ".json", ".toml"})
_WORD: Final = re.compile(r"[\w.-]+")
_OUTSIDE: Final = re.compile(r"(?<![\w.:/~{}-])(?!/(?:proc|sys)/)(?:~/|\.\./|/)[\w./-]*\w")
_SURE: Final = 2  # runs that changed a file, which is an output then


def named_files(template: Template) -> dict[str, str]:
    """Return name -> hash of the files that a command names, and of those that its scripts name.

    The latter are in its folder or have a whole path; of those above 10 MB size and time stand for the content. A
    script names what has its name in the text: also modules, without their ending. These and settings may name others.
    """
    hashes = {}
    for name in _names_in_scripts(template):
        with suppress(OSError):
            path = template.here / Path(name).expanduser()
            status = path.stat()
            if path.is_file():
                is_small = status.st_size <= _SMALL
                hashes[name] = file_hash(path) if is_small else f"{status.st_size} {status.st_mtime_ns}"
    return {**hashes, **template.files()}


def _names_in_scripts(template: Template) -> list[str]:
    """Return the files in the folder, and the paths outside it, that a command or its scripts name."""
    names: dict[str, list[str]] = {}
    for name, _ in islice(walk(template.here), MOST_FILES):
        path = Path(name)
        if not name.endswith("/"):
            names.setdefault(path.name, []).append(name)
        # A module, and a file of settings, may be without its ending.
        if path.suffix in (".py", ".yaml", ".yml", ".toml"):
            module = path.parent.name if path.stem in ("__init__", "__main__") else path.stem
            names.setdefault(module, []).append(name)
    by_command = [path.resolve() for path in template.named().values()]
    texts, inside, outside = [*map(_text, by_command), " ".join(template.words)], set[str](), set[str]()
    while texts:
        text = texts.pop()
        outside.update(_OUTSIDE.findall(text))
        words = {word.strip(".") for word in _WORD.findall(text)}
        words |= {part for word in words for part in word.split(".")}
        for name in {name for word in words for name in names.pop(word, ())} - inside:
            path = template.here / name
            if path.resolve() not in by_command:
                inside.add(name)
                texts += [_text(path)] if path.suffix in _SCRIPTS | _SETTINGS else []
    return [*sorted(inside), *sorted(outside)]


def _text(path: Path) -> str:
    """Return what may name files: of a program in Python its texts and imports, else all of a file."""
    text = small_text(path)
    return _names_in_python(text) if path.suffix == ".py" else text.decode("utf-8", "replace")


@lru_cache(maxsize=MOST_FILES)
def _names_in_python(program: bytes) -> str:
    text = program.decode("utf-8", "replace")
    with suppress(SyntaxError, ValueError, RecursionError), warnings.catch_warnings(action="ignore"):
        nodes = [*ast.walk(ast.parse(text))]
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        texts += [node.name for node in nodes if isinstance(node, ast.alias)]
        return " ".join([*texts, *(node.module or "" for node in nodes if isinstance(node, ast.ImportFrom))])
    return text


def deciding_files(template: Template) -> tuple[dict[str, str], list[str]]:
    """Return name -> hash of those of the named files that runs do not write, and the names of the others.

    Raises
    ------
    ParameterError
        If the script that Python is to run is not there.
    """
    program, script = template.words[0], next((word for word in template.words[1:] if not word.startswith("-")), "")
    is_script = Path(program).name.startswith("python") and script.endswith(".py") and "{" not in script
    if is_script and script not in template.named():
        fix = "Go to the folder of the script, or give its whole path."
        raise ParameterError("command", script, "this folder has no such file", fix)
    files = named_files(template)
    outputs = [name for name, runs in read_notes(_notes_path(template, files)).items() if runs >= _SURE]
    return {name: content for name, content in files.items() if name not in outputs}, sorted(outputs)


def note_outputs(template: Template, before: Mapping[str, str]) -> bool:
    """Note which of the named files a run wrote: they decide no result. Return whether that is sure of all.

    If a file was there before, another run must show it: somebody may have edited the file meanwhile.
    """
    after = named_files(template)
    path = _notes_path(template, after)
    outputs = read_notes(path)
    for name in {name for name, _ in after.items() - before.items() if not _is_program(template, name)}:
        is_clear = name not in before or name in (*PREDICTIONS, METRICS)
        outputs[name] = outputs.get(name, 0) + (_SURE if is_clear else 1)
    write_whole(path, json.dumps(outputs))
    return all(runs >= _SURE for runs in outputs.values())


def _notes_path(template: Template, files: Mapping[str, str]) -> Path:
    programs = {name: content for name, content in files.items() if _is_program(template, name)}
    key = {"words": list(template.words), "here": str(template.here), "programs": programs}
    return cache_folder() / "commands" / f"outputs-{content_key(key)}.json"


def _is_program(template: Template, name: str) -> bool:
    return Path(name).suffix in _SCRIPTS or name in [*template.named()][:1]

"""The files of a command: those in its folder, which runs share, those in the key of a cell, and those of results."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from itertools import dropwhile, islice
from pathlib import Path
from shutil import copyfile
from textwrap import shorten
from typing import Final, TypeAlias

from filelock import FileLock, Timeout

from mlflow_l3d.approaches.command.template import Output, Template, options_of, run
from mlflow_l3d.approaches.command.written import METRICS, PREDICTIONS
from mlflow_l3d.approaches.progress import tell
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.paths import cache_folder, file_hash, private_folder, public_words, read_notes, small_text, write_whole

MOST_FILES: Final = 20_000
"""Files and folders that are looked at."""
_UNSEEN: Final = {".git", ".venv", "venv", "node_modules", "__pycache__", ".ipynb_checkpoints", ".pytest_cache"}
_INSTALLED: Final = frozenset({"pyvenv.cfg", "conda-meta", "site-packages", "dist-packages"})
"""A folder in the program's one that has one of these in it is an installation of Python."""
_OF_MLFLOW: Final = ("mlruns", "mlartifacts", "mlflow.db")  # how names begin: there are journals of the database
Stamps: TypeAlias = dict[str, tuple[int, ...]]


def walk(here: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of the files and folders in a folder, hidden ones too; those at the top come first.

    The name of a folder ends with a slash. Links are followed, and each folder comes once. What belongs to git, Python,
    MLflow and this package is left out.
    """
    cache = cache_folder().stat()
    folders, seen = ["./"], {(cache.st_dev, cache.st_ino)}
    while folders:
        folder = folders.pop(0)
        with suppress(OSError):  # it is gone, or may not be read
            status = (here / folder).stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            visible = (entry for entry in os.scandir(here / folder) if entry.name not in _UNSEEN)
            entries = [entry for entry in visible if not entry.name.startswith(_OF_MLFLOW)]
            if folder != "./" and any(entry.name in _INSTALLED for entry in entries):
                continue
            yield folder, status
            above = folder.removeprefix("./")
            folders += [f"{above}{entry.name}/" for entry in entries if entry.is_dir()]
            for entry in entries:
                with suppress(OSError):
                    if not entry.is_dir():
                        yield f"{above}{entry.name}", entry.stat()


def stamps(here: Path) -> Stamps:
    """Return name -> what changes when a file is written, or when a folder gets or loses a name.

    The folder itself does not count, since MLflow's database writes journals there, nor does a file that we print to.
    """
    ours = set()
    for stream in (1, 2):  # nohup.out, > log.txt
        with suppress(OSError):  # 2>&-
            status = os.fstat(stream)
            ours.add((status.st_dev, status.st_ino))
    return {
        name: () if name == "./" else (status.st_mtime_ns,) if name.endswith("/") else file_stamp(status)
        for name, status in islice(walk(here), MOST_FILES)
        if (status.st_dev, status.st_ino) not in ours
    }


def file_stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes whenever a file is written."""
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def changed_name(here: Path, before: Stamps) -> str:
    """Return the name of a file that changed in a folder, else of a folder in it; empty if none did."""
    names = {name for name, _ in before.items() ^ stamps(here).items()}
    return min(names, key=lambda name: (name.endswith("/"), name), default="")


@contextmanager
def alone_in(here: Path) -> Iterator[None]:
    """Wait until no other run is alone in a folder, and let none in until the end. Waits are not in `cell_timeout`."""
    path = cache_folder() / "commands" / f"{sha256(os.fsencode(here.resolve())).hexdigest()}.lock"
    private_folder(path.parent)
    lock = FileLock(path, poll_interval=0.002)  # short, so that a run that waits gets in between two of another process
    held = None
    while held is None:
        tell("")  # a worker hangs if it is silent for too long
        with suppress(Timeout):
            held = lock.acquire(timeout=0.2)
    with held:
        yield


_SMALL: Final = 10**7
_SCRIPTS: Final = frozenset({".py", ".sh"})
_SETTINGS: Final = frozenset({".yaml", ".yml", ".json", ".toml"})
_WORD: Final = re.compile(r"[\w.-]+")
_OUTSIDE: Final = re.compile(r"(?<![\w.:/~{}-])(?!/(?:proc|sys)/)(?:~/|\.\./|/)[\w./-]*\w")
_RESULTS: Final = (*PREDICTIONS, METRICS)
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
    return {**hashes, **{word: file_hash(path) for word, path in template.named().items()}}


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
    texts = [*map(_text, by_command), " ".join(template.words)]
    inside = set[str]()
    outside = set[str]()
    while texts:
        text = texts.pop()
        outside.update(_OUTSIDE.findall(text))
        words = {word.strip(".") for word in _WORD.findall(text)}
        words |= {part for word in words for part in word.split(".")}
        for name in {name for word in words for name in names.pop(word, ())} - inside:
            path = template.here / name
            if path.resolve() not in by_command:
                inside.add(name)
                if path.suffix in _SCRIPTS | _SETTINGS:
                    texts.append(_text(path))
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
    """Return name -> hash of those of the named files that runs do not write, and the others, one of each place.

    Raises
    ------
    ParameterError
        If the script that Python is to run is not there.
    """
    script = next((word for word in template.words[1:] if not word.startswith("-")), "")
    is_script = Path(template.words[0]).name.startswith("python") and script.endswith(".py") and "{" not in script
    if is_script and script not in template.named():
        fix = "Go to the folder of the script, or give its whole path."
        raise ParameterError("command", script, "this folder has no such file", fix)
    files = named_files(template)
    notes = read_notes(_notes_path(template, files))
    written = {_place(name) for name, runs in notes.items() if runs >= _SURE}

    def is_output(name: str) -> bool:
        # Of a file that was there before the first run, only its own note counts: an input may be next to outputs.
        return notes[name] >= _SURE if name in notes else _place(name) in written

    outputs = {_place(name): name for name in sorted(files, reverse=True) if is_output(name)}
    return {name: each for name, each in files.items() if not is_output(name)}, sorted(outputs.values())


def _place(name: str) -> tuple[str, str]:
    """Return folder and name of a file, without the numbers that make each run's folder another one."""
    path = Path(name)
    return re.sub(r"\d+", "0", str(path.parent)), path.name


def key_of_files(files: Mapping[str, str]) -> str:
    """Return the key of the content of files, and keep on this machine what it stands for."""
    key = content_key(files)
    path = cache_folder("commands") / f"files-{key}.json"
    if not path.is_file():
        write_whole(path, json.dumps(files))
    return key


def changed_names(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the names of what differs in what two studies depend on; files, if this machine knows both contents."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    old, new = (read_notes(cache_folder() / "commands" / f"files-{each.get('files')}.json") for each in (before, now))
    if "files" in names and old and new:
        files = {public_words(name) for name, _ in old.items() ^ new.items()}
        names = [*sorted(files), *(name for name in names if name != "files")]
    return names


def note_outputs(template: Template, before: Mapping[str, str]) -> bool:
    """Note which of the named files a run wrote: they decide no result. Return whether that is sure of all.

    If a file was there before, another run must show it: somebody may have edited the file meanwhile. Those that were
    there before the first run are noted with 0 runs.
    """
    after = named_files(template)
    path = _notes_path(template, after)
    outputs = read_notes(path) or dict.fromkeys(before, 0)
    for name in {name for name, _ in after.items() - before.items() if not _is_program(template, name)}:
        is_clear = name not in before or name in _RESULTS
        outputs[name] = outputs.get(name, 0) + (_SURE if is_clear else 1)
    write_whole(path, json.dumps(outputs))
    return not any(0 < runs < _SURE for runs in outputs.values())


def _notes_path(template: Template, files: Mapping[str, str]) -> Path:
    programs = {name: content for name, content in files.items() if _is_program(template, name)}
    key = {"words": list(template.words), "here": str(template.here), "programs": programs}
    return cache_folder() / "commands" / f"outputs-{content_key(key)}.json"


def _is_program(template: Template, name: str) -> bool:
    return Path(name).suffix in _SCRIPTS or name in [*template.named()][:1]


def run_in_place(words: Sequence[str], here: Path, output: Path, variables: Mapping[str, str]) -> Output:
    """Run a command alone in the folder where it was typed, and return what it printed.

    Predictions there are copied to `output`, and metrics there count as printed, if it wrote none of them to `output`.

    Raises
    ------
    L3DError
        If it fails.
    """
    before = _stamps_of_results(here)
    printed = run(words, here, variables)
    if _stamps_of_results(output):
        return printed
    for name, _ in _stamps_of_results(here).items() - before.items():
        if name == METRICS:
            text = " ".join((here / name).read_text("utf-8", "replace").split())
            printed = printed._replace(stdout=f"{printed.stdout}\n{text}")
        else:
            copyfile(here / name, output / name)
    return printed


def option_words(words: Iterable[str], *, behind: str = "") -> str:
    """Return the options of all runs behind a script, in 60 characters at most; no credentials, no folders."""
    typed = shlex.join(dropwhile(lambda word: behind and Path(word).name != behind, words))
    options = options_of(public_words(typed)).items()
    text = " ".join(f"{name}={value}" for name, value in options if name != "script")
    return shorten(text, 60, placeholder=" ...")


def unread_score(output: Path, template: Template, began: int) -> str:
    """Return which JSON file that a run wrote, since `began` in nanoseconds, or which logs nobody reads."""
    if template.mentions(b"set_tracking_uri("):
        return ". What it logs after mlflow.set_tracking_uri is not read: leave this call out, or print the score"
    files = [f"{{output}}/{path.relative_to(output)}" for path in sorted(output.rglob("*.json"))]
    near = islice(walk(template.here), MOST_FILES)
    files += [name for name, status in near if name.endswith(".json") and status.st_mtime_ns >= began]
    return f". It may be in {files[0]}" if files else ""


def _stamps_of_results(here: Path) -> Stamps:
    return {name: file_stamp((here / name).stat()) for name in _RESULTS if (here / name).is_file()}

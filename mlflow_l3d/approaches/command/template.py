"""A command with placeholders: which factors, files and options it names, and one run of it."""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import shutil
import signal
import string
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import file_hash, small_text
from mlflow_l3d.privacy import HIDDEN, public_text

OUTPUT: Final = "output"
HERE: Final = "here"
"""Placeholders that are not factors: the folder that a cell's command writes to, and the one it was typed in."""
SETTING: Final = re.compile("lr|.*rate|epochs?|.*size|dropout|.*decay|alpha|beta|gamma|momentum|temperature|shots")
"""Names of settings, for which a random value makes no sense."""
_VARIABLE: Final = re.compile(r"\w+=")
_SHELL: Final = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1"})


@dataclass(frozen=True)
class Template:
    """A command, checked.

    Attributes
    ----------
    words
        The program and its arguments, with placeholders.
    here
        Folder that files of the command are relative to.
    factors
        Names of the placeholders that are factors, in the order in which they come.
    """

    words: tuple[str, ...]
    here: Path
    factors: tuple[str, ...]

    @classmethod
    def of(cls, command: str | Iterable[str], here: Path | None = None) -> Template:
        """Return the template of a command as typed, or as a list of words.

        Raises
        ------
        ParameterError
            If it is empty, needs a shell, names no factor, or is not well-formed.
        """
        try:
            words = tuple(shlex.split(command)) if isinstance(command, str) else tuple(map(str, command))
        except ValueError as error:
            raise ParameterError("command", command, f"cannot be divided into words ({error})") from None
        typed = command if isinstance(command, str) else shlex.join(words)
        if not words:
            raise ParameterError("command", typed, "must be a program and its arguments")
        if shell := sorted(_SHELL.intersection(words)):
            fix = f"Put what needs {shell[0]} into a script of its own."
            raise ParameterError("command", typed, "is run without a shell", fix)
        factors = factors_of(words, "command", typed)
        if _VARIABLE.match(words[0]):
            fix = f"Type env before it: mlflow-l3d {'seeds' if len(factors) == 1 else 'investigate'} -- env {typed}"
            raise ParameterError("command", typed, "begins with a variable, which only a shell sets", fix)
        return cls(words, here or Path.cwd(), factors)

    def arguments(self, seeds: Mapping[str, int], output: Path) -> list[str]:
        """Return the words of one cell."""
        values: dict[str, object] = {**seeds, OUTPUT: output, HERE: self.here}
        program, *rest = (word.format_map(values) for word in self.words)
        if program in {"python", "python3"}:  # the interpreter that this one runs in
            return [sys.executable, *rest]
        return [shutil.which(program) or program, *rest]

    def more_files(self, names: Iterable[str]) -> dict[str, str]:
        """Return name -> hash of files, and of those in folders.

        Raises
        ------
        ParameterError
            If one of them is not there.
        """
        hashes: dict[str, str] = {}
        for name in names:
            path = self.here / Path(name).expanduser()
            if not path.exists():
                raise ParameterError("hyperparameters.files", name, "is no file or folder here")
            for file in [path, *sorted(path.rglob("*"))]:
                if file.is_file():
                    hashes[name if file == path else str(Path(name) / file.relative_to(path))] = file_hash(file)
        return hashes

    def named(self) -> dict[str, Path]:
        """Return word -> path of the files that the command names, some of them behind a =."""
        named = {}
        for word in self.words:
            candidate = word.partition("=")[2] if word.startswith("-") and "=" in word else word
            if (path := self.here / Path(candidate).expanduser()).is_file():
                named[word] = path
        return named

    @property
    def has_output(self) -> bool:
        """Whether the command, or a script of it, names the folder that each run has for itself."""
        return any(f"{{{OUTPUT}}}" in word for word in self.words) or self.mentions(b"L3D_OUTPUT")

    def mentions(self, what: bytes) -> bool:
        """Return whether a file of 1 MB or less that the command names has this in it."""
        return any(what in text for text in map(small_text, self.named().values()))


def factors_of(words: Collection[str], parameter: str, typed: str) -> tuple[str, ...]:
    """Return the factors that words name, in the order in which they come.

    Raises
    ------
    ParameterError
        If there is none, or braces are none of placeholders.
    """
    if any(HIDDEN in word for word in words):
        fix = "Type it again, or let the program read an environment variable (hyperparameters.environment)."
        raise ParameterError(parameter, typed, f"has {HIDDEN} where a credential stood, which is never recorded", fix)
    names: dict[str, None] = {}
    fix = "A placeholder is a name alone, such as {seed}. Double a brace that is meant as one: {{ and }}."
    for word in words:
        try:
            fields = [each[1:] for each in string.Formatter().parse(word) if each[1] is not None]
        except ValueError as error:
            raise ParameterError(parameter, typed, f"has a lone brace in {word} ({error})", fix) from None
        for name, spec, conversion in fields:
            if not str(name).isidentifier() or conversion or spec:
                raise ParameterError(parameter, typed, f"has {word}: braces may hold only the name of a factor", fix)
            names[str(name)] = None
    factors = tuple(name for name in names if name not in {OUTPUT, HERE})
    if not factors:
        fix = "Write {data_order}, or a name of your own, where a seed belongs"
        example = "seed={seed}, or numpy.random.seed={seed} where it takes none."
        if parameter == "command":
            seeded, count = re.subn(r"(?i)(seed)(?:([ =])\d+|$)", lambda at: f"{at[1]}{at[2] or ' '}{{seed}}", typed)
            first, last = "env " if _VARIABLE.match(typed) else "", "" if count else " --seed {seed}"
            example = f"mlflow-l3d seeds -- {first}{seeded}{last}"
        raise ParameterError(parameter, typed or "''", "names no factor", f"{fix}: {example}")
    if "all" in factors:
        raise ParameterError(parameter, typed, "has a factor named all, which stands for every factor")
    return factors


def listed(value: object) -> list[str]:
    """Return the parts of a hyperparameter that is a list."""
    return [part.strip() for part in str(value).split(",") if part.strip()]


def environment(names: Iterable[str]) -> dict[str, str]:
    """Return the variables that a command is given: :data:`PASSED_ON`, and those of `names`.

    Raises
    ------
    ParameterError
        If one of `names` is not set.
    """
    if unset := [name for name in names if name not in os.environ]:
        raise ParameterError("hyperparameters.environment", unset[0], "is not set here")
    # Wide enough for one line of a progress bar: a wrapped one parts names from their numbers.
    return {"COLUMNS": "500"} | {name: os.environ[name] for name in (*PASSED_ON, *names) if name in os.environ}


PASSED_ON: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "CUDA_VISIBLE_DEVICES"),
    *("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"),
)
"""Environment variables that every command has: those that programs need to start, one thread a worker, the GPUs."""
_idle: dict[int, list[subprocess.Popen[bytes]]] = {}
"""Process -> supervisors that it has started and that run nothing; a fork must not use those of its parent."""


class EndedError(L3DError):
    """A command ran, and ended with another status than 0, or gave no score."""


class Output(NamedTuple):
    """The ends of what a command wrote to its streams, 1 MiB of each at most."""

    stdout: str = ""
    stderr: str = ""


def last_lines(text: str, count: int) -> list[str]:
    """Return the last lines of a text that are not empty, as they may be shown: 200 characters of each at most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [public_text(line)[-200:] for line in lines[-count:]]


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Output:
    """Run a command in a folder until it ends, and return the end of its output; all that it started ends with it.

    All also ends with this process, be it killed; elsewhere than on Linux only then, and not what left the session.

    Raises
    ------
    L3DError
        If it cannot be started, or ends with another status than 0; with the last line that it wrote.
    """
    request = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
    supervisor = _supervisor()
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    try:
        supervisor.stdin.write(json.dumps(request).encode() + b"\n")
        supervisor.stdin.flush()
        answer = json.loads(supervisor.stdout.readline())
    except (OSError, ValueError) as error:
        supervisor.communicate()
        raise L3DError(f"the process that runs the command was ended ({type(error).__name__})") from None
    except BaseException:
        supervisor.communicate()  # its stdin ends, so it ends all
        raise
    _idle[os.getpid()].append(supervisor)
    if reason := answer.get("refused"):
        fix = ". Remove the quotes around the whole command" if len(arguments) == 1 and " " in arguments[0] else ""
        raise L3DError(f"{Path(arguments[0]).name} cannot be started ({reason}){fix}")
    output, status = Output(answer["stdout"], answer["stderr"]), answer["status"]
    if status:
        how = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
        last = "".join(last_lines(output.stderr.strip() or output.stdout, 1))
        if (lacking := re.search(r"KeyError: '(\w+)'$", last)) and lacking[1] in {*os.environ} - {*environment}:
            last += f"; it is given by --hyperparameters environment={lacking[1]}"
        raise EndedError(f"the command ended with {how}: {last or 'it said nothing'}")
    return output


@atexit.register
def _end_idle() -> None:
    """End the supervisors of this process; a fork of it may keep their stdin open."""
    for supervisor in _idle.pop(os.getpid(), ()):
        supervisor.kill()
        supervisor.communicate()


def _supervisor() -> subprocess.Popen[bytes]:
    """Return a supervisor that runs nothing; one is started if there is none."""
    idle = _idle.setdefault(os.getpid(), [])
    while idle:
        if (supervisor := idle.pop()).poll() is None:
            return supervisor
        supervisor.communicate()
    program = [sys.executable, "-IS", str(Path(__file__).with_name("supervisor.py"))]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    # In a session of its own: a signal to ours must not end it before what it runs.
    return subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=nothing, start_new_session=True)  # noqa: S603


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

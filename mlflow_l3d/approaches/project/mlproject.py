"""An MLflow project: where it lies, the environment that it runs in, which MLflow makes once, and its entry points."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.approaches.command.files import Stamps, file_stamp, walk
from mlflow_l3d.approaches.command.template import run
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.paths import file_hash, private_folder

LOCAL: Final = "local"
ENV_MANAGERS: Final = (LOCAL, "virtualenv", "uv", "conda")
_LARGE: Final = 1 << 20
_PROBE: Final = """
import json, os, shutil, sys
shutil.copytree(".", os.environ["L3D_PROJECT"], ignore=shutil.ignore_patterns(".git"))
kept = ("PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONHOME")
found = {name: value for name, value in os.environ.items() if name in kept or name.startswith("CONDA_")}
json.dump(found, open(os.environ["L3D_PROBE"], "w"))
"""


@dataclass(frozen=True)
class Located:
    """A project that can be run.

    Attributes
    ----------
    folder
        Its files; they are never written to.
    environment
        Variables of the environment that it runs in.
    files
        Name -> hash of its files.
    mlflow
        What tells the MLflow of that environment from others.
    """

    folder: Path
    environment: Mapping[str, str]
    files: Mapping[str, str]
    mlflow: str

    def copy(self, target: Path) -> Stamps:
        """Copy the files for one run; return what changes if one of the large ones is written to, which are links."""
        linked = {}
        for name in self.files:
            source, place = self.folder / name, target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.stat().st_size > _LARGE:
                linked[name] = file_stamp(source.stat())
                place.symlink_to(source)
            else:
                shutil.copy(source, place)
        return linked

    def check(self, linked: Stamps) -> None:
        """Raise L3DError if a run wrote to a file that it was given a link to: other runs have it, too."""
        for name, stamp in linked.items():
            if file_stamp((self.folder / name).stat()) != stamp:
                what = f"the project writes to {name}, in your folder"
                fix = "Let it write to a file of its own."
                raise L3DError(f"{what}: files above 1 MB are links that all runs share. {fix}")


def located(uri: str, version: str, env_manager: str, here: Path, cache: Path) -> Located:
    """Return a project where it lies, or where MLflow fetched it to, in this environment, or in one that MLflow made.

    Parameters
    ----------
    uri
        A folder relative to `here`, or what MLflow takes: the address of a git repository, with ``#folder``.
    version
        Commit or branch of a git repository; empty for its default branch.
    env_manager
        One of :data:`ENV_MANAGERS`.
    here, cache
        Folder where it was typed, and where what is fetched is kept.

    Raises
    ------
    ParameterError
        If it leads nowhere, or the environment cannot be made.
    """
    if not uri:
        raise ParameterError("uri", uri, "must be the folder of an MLflow project, or the address of a git repository")
    # MLflow checks a version out in the folder of a file:// address, and makes its history shallow.
    name, sign, inside = uri.removeprefix("file://").partition("#")
    folder = here / Path(name).expanduser()
    is_here = "://" not in name and folder.is_dir()
    if "://" not in uri and not is_here and not re.match(r"[^/]+:", uri):
        raise ParameterError("uri", uri, "must be a folder here, or the address of a git repository")
    if is_here and version:
        fix = f"Leave it out, or name a folder of that version: git worktree add FOLDER {version}"
        raise ParameterError("hyperparameters.version", version, f"has no effect: {uri} is a folder", fix)
    if is_here and env_manager == LOCAL:
        folder = (folder / inside).resolve()
        if not folder.is_dir():
            raise ParameterError("uri", uri, f"has no folder {inside}")
        return Located(folder, _this_environment(), hashes(folder), metadata.version("mlflow-skinny"))
    return _by_mlflow(f"{folder.resolve()}{sign}{inside}" if is_here else uri, uri, version, env_manager, cache)


def _by_mlflow(address: str, uri: str, version: str, env_manager: str, cache: Path) -> Located:
    """Let MLflow fetch a project and make its environment, in which a script of ours says where both are.

    A file is an entry point, too, so that what runs is ``mlflow run`` as anybody types it.
    """
    with tempfile.TemporaryDirectory(prefix="l3d-project-") as name:
        folder = Path(name)
        probe = folder / "probe.py"
        found = folder / "found.json"
        copied = folder / "project"
        probe.write_text(_PROBE, encoding="utf-8")
        words = [sys.executable, "-m", "mlflow", "run", address, "-e", str(probe), "--env-manager", env_manager]
        if version:
            words += ["--version", version]
        ours = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}", "TMPDIR": name}
        variables = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_RUN")}
        variables |= {**ours, **_this_environment(), "L3D_PROBE": str(found), "L3D_PROJECT": str(copied)}
        try:
            run(words, folder, variables)
        except L3DError as error:
            why = str(error).partition(": ")[2]
            what = f"MLflow cannot fetch it, or make its environment (env_manager={env_manager}): {why}"
            raise ParameterError("uri", uri, what) from None
        environment = json.loads(found.read_text(encoding="utf-8"))
        files = hashes(copied)
        place = cache / "projects" / content_key(files)
        if not place.is_dir():
            private_folder(place.parent)
            shutil.copytree(copied, partial := place.with_name(f".{folder.name}"))
            with suppress(OSError):  # another process was first
                partial.rename(place)
            shutil.rmtree(partial, ignore_errors=True)
    its_own = content_key({"PATH": environment["PATH"].split(os.pathsep)[0]})
    return Located(place, environment, files, metadata.version("mlflow-skinny") if env_manager == LOCAL else its_own)


def hashes(folder: Path) -> dict[str, str]:
    """Return name -> hash of the files of a project, in the order of their names."""
    names = sorted(name for name, _ in walk(folder) if not name.endswith("/"))
    return {name: file_hash(folder / name) for name in names}


def _this_environment() -> dict[str, str]:
    """Return the variables with which ``python`` is the interpreter that this one runs in."""
    return {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])}


_FILE: Final = "mlproject"
_ENVIRONMENTS: Final = ("python_env", "conda_env")
_INTERPRETERS: Final = {".py": "python", ".sh": "bash"}


@dataclass(frozen=True)
class EntryPoint:
    """An entry point of a project.

    Attributes
    ----------
    project
        Name of the project; empty if it has none.
    command
        A line for a shell, with ``{parameter}``.
    environment
        File that says which environment the project wants; empty if none does.
    defaults
        Parameter -> its default; None if it must be given.
    paths
        Parameters that are files.
    is_script
        Whether it is a file that no MLproject declares, and takes any parameter as an option.
    """

    project: str
    command: str
    environment: str
    defaults: Mapping[str, str | None] = field(default_factory=dict)
    paths: frozenset[str] = frozenset()
    is_script: bool = False

    def check(self, given: Sequence[str]) -> None:
        """Raise if a parameter is given that is not declared, or one without a default is not given.

        MLflow itself hands what is not declared to the command, where nobody may read it: a seed among it would do
        nothing.
        """
        for name in given:
            if name not in self.defaults and not self.is_script:
                raise unknown_name("project_parameters", name, self.defaults, "a parameter of the entry point:")
        if lacking := [name for name, default in self.defaults.items() if default is None and name not in given]:
            fix = f"Add {lacking[0]}=..."
            raise ParameterError("project_parameters", ",".join(given), f"lacks {', '.join(lacking)}", fix)

    def line(self, given: Mapping[str, str]) -> str:
        """Return the line for the shell, as MLflow makes it: every value is quoted.

        Raises
        ------
        L3DError
            If the command names what is not a parameter.
        """
        values = {name: shlex.quote(given.get(name, default or "")) for name, default in self.defaults.items()}
        more = [f"--{name} {shlex.quote(value)}" for name, value in given.items() if name not in self.defaults]
        try:
            return " ".join([self.command.format(**values), *more])
        except (KeyError, IndexError, ValueError) as error:
            problem = f"has a placeholder that is not a parameter ({error})"
            raise L3DError(f"the command of the entry point {problem}") from None


def entry_point(folder: Path, name: str) -> EntryPoint:
    """Return an entry point of the project in a folder: one of its MLproject file, or a script.

    Raises
    ------
    ParameterError
        If it is not there, or MLproject cannot be read.
    """
    document = _document(folder)
    project = str(document.get("name") or "")
    declared = document.get("entry_points") or {}
    if document.get("docker_env"):
        raise ParameterError("uri", folder.name, "runs in a container, which approach=project does not start")
    environment = next((str(document[each]) for each in _ENVIRONMENTS if document.get(each)), "")
    if name not in declared:
        interpreter = _INTERPRETERS.get(Path(name).suffix)
        if interpreter is None or not (folder / name).is_file():
            raise unknown_name("entry_point", name, declared, "a .py or .sh file of the project, or one of")
        return EntryPoint(project, f"{interpreter} {shlex.quote(name)}", environment, is_script=True)
    try:
        command = str(declared[name]["command"])
        parameters = {
            str(key): each if isinstance(each, Mapping) else {"type": each}
            for key, each in (declared[name].get("parameters") or {}).items()
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise ParameterError("entry_point", name, f"is not declared as MLflow declares one ({error!r})") from None
    defaults = {key: None if (value := each.get("default")) is None else str(value) for key, each in parameters.items()}
    paths = frozenset(key for key, each in parameters.items() if each.get("type") == "path")
    return EntryPoint(project, command, environment, defaults, paths)


def _document(folder: Path) -> Mapping[str, Any]:
    """Return the content of the MLproject file; nothing if there is none."""
    path = next((path for path in sorted(folder.iterdir()) if path.name.lower() == _FILE), None)
    if path is None:
        return {}
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParameterError("uri", folder.name, f"has a {path.name} that is no YAML ({error})") from None
    if not isinstance(document, Mapping):
        raise ParameterError("uri", folder.name, f"has a {path.name} that is not a mapping")
    return document

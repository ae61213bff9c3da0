"""Where a project lies, and the environment that it runs in: both are made by MLflow itself, once."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from mlflow_l3d.approaches.command.files import Stamps, file_stamp, walk
from mlflow_l3d.approaches.command.template import run
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
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
        probe, found, copied = folder / "probe.py", folder / "found.json", folder / "project"
        probe.write_text(_PROBE, encoding="utf-8")
        words = [sys.executable, "-m", "mlflow", "run", address, "-e", str(probe), "--env-manager", env_manager]
        words += ["--version", version] if version else []
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

"""The folder that all runs of a command share: its files, and runs that must be alone there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from filelock import FileLock

from mlflow_l3d.paths import cache_folder, private_folder

MOST_FILES: Final = 20_000
"""Files and folders that are looked at."""
_LEFT_OUT: Final = frozenset(
    {".git", ".venv", "venv", "node_modules", "__pycache__", ".ipynb_checkpoints", ".pytest_cache"}
)
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
            # what belongs to git, Python or MLflow is not of the program
            visible = (entry for entry in os.scandir(here / folder) if entry.name not in _LEFT_OUT)
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
    ours = {(each.st_dev, each.st_ino) for each in map(os.fstat, (1, 2))}  # nohup.out, > log.txt
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
    """Wait until no other run is alone in a folder, and let none in until the end."""
    path = cache_folder() / "commands" / f"{sha256(os.fsencode(here.resolve())).hexdigest()}.lock"
    private_folder(path.parent)
    with FileLock(path, poll_interval=0.002):  # short, so that a run that waits gets in between two of another process
        yield

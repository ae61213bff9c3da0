"""One run of a command in the user's own folder: the files that it writes there, and the scores that it logs."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Final

from filelock import FileLock

from mlflow_l3d.approaches.command.template import Output, run
from mlflow_l3d.approaches.command.written import METRICS, PREDICTIONS
from mlflow_l3d.approaches.project import store
from mlflow_l3d.paths import cache_folder, private_folder

_MOST_FILES: Final = 20_000
"""How many files of a folder are looked at."""
_NOT_ITS_OWN: Final = ("__pycache__", "mlruns", "mlartifacts", "mlflow.db")
_FILES: Final = (*PREDICTIONS, METRICS)
_LAST_METRICS: Final = """
SELECT key, value, is_nan FROM latest_metrics JOIN runs USING (run_uuid)
WHERE run_uuid NOT IN (SELECT run_uuid FROM tags WHERE key = 'mlflow.parentRunId')
ORDER BY start_time, timestamp, key
"""


def run_in_place(
    words: Sequence[str], here: Path, output: Path, variables: Mapping[str, str], *, writes: bool | None
) -> tuple[Output, list[str]]:
    """Run a command in the folder where it was typed, and return what it printed and the files that it changed there.

    Its predictions and metrics are copied to `output` if it wrote none there.

    Parameters
    ----------
    writes
        Whether it writes into the folder; such runs wait for one another. None if that is not known yet.

    Raises
    ------
    L3DError
        If it fails.
    """
    if writes is False:
        return run(words, here, variables), []
    locks = cache_folder() / "commands"
    private_folder(locks)
    with FileLock(locks / f"{sha256(os.fsencode(here.resolve())).hexdigest()}.lock"):
        before = _stamps(here, whole=writes is None)
        printed = run(words, here, variables)
        changed = [name for name, stamp in _stamps(here, whole=writes is None).items() if before.get(name) != stamp]
        if not any((output / name).is_file() for name in _FILES):
            for name in set(_FILES).intersection(changed):
                shutil.copyfile(here / name, output / name)
                if name == METRICS:
                    _keep_numbers(output / name)
    return printed, changed


def _stamps(here: Path, *, whole: bool) -> dict[str, tuple[int, ...]]:
    """Return name -> what changes whenever the file is written, of a whole folder or of predictions and metrics."""
    stamps = dict[str, tuple[int, ...]]()
    for name in _names(here) if whole else _FILES:
        with suppress(OSError):
            status = (here / name).stat()
            stamps[name] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return stamps


def _names(here: Path) -> Iterator[str]:
    yield from _FILES
    count = 0
    for folder, folders, files in os.walk(here):
        folders[:] = [name for name in folders if name not in _NOT_ITS_OWN and not name.startswith(".")]
        for name in files:
            if not name.startswith((".", *_NOT_ITS_OWN)):
                yield os.path.relpath(Path(folder, name), here)
        count += len(files) + len(folders)
        if count > _MOST_FILES:
            return


def _keep_numbers(path: Path) -> None:
    """Leave the numbers in a file of metrics that was not written for us."""
    with suppress(ValueError, AttributeError, RecursionError):
        values = json.loads(path.read_text(encoding="utf-8")).items()
        kept = {name: each for name, each in values if isinstance(each, int | float) and not isinstance(each, bool)}
        path.write_text(json.dumps({name: each for name, each in kept.items() if math.isfinite(each)}), "utf-8")


def tracking(folder: Path, environment: Mapping[str, str], *, ready: bool) -> dict[str, str]:
    """Return the variables that lead MLflow to a store in a folder, made beforehand if it is to be `ready`."""
    if ready:
        name = f"store-{metadata.version('mlflow-skinny')}.db"
        empty = store.template(cache_folder() / "projects" / name, environment)
        store.fresh(empty, folder, folder / "artifacts")
    root = (folder / "artifacts").as_uri()
    return {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / store.STORE}", "_MLFLOW_SERVER_ARTIFACT_ROOT": root}


def logged_metrics(folder: Path) -> dict[str, float]:
    """Return the last values of the metrics in the store of a folder, without those of nested runs."""
    if not (folder / store.STORE).is_file():
        return {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(folder / store.STORE)) as tables:
        rows = tables.execute(_LAST_METRICS).fetchall()
        return {key: math.nan if nan else float(value) for key, value, nan in rows if not key.startswith("system/")}
    return {}

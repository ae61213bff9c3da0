"""A command in the user's own folder: the files that a run writes there, the scores that it logs, the first run."""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from shutil import copyfile
from typing import Final

from filelock import FileLock

from mlflow_l3d.approaches.command.template import Output, run
from mlflow_l3d.approaches.command.written import COLUMNS, METRICS, PREDICTIONS
from mlflow_l3d.approaches.project import store
from mlflow_l3d.metrics.known import sounds_like_metric
from mlflow_l3d.paths import cache_folder, private_folder
from mlflow_l3d.tasks.answers import read_columns

_FILES: Final = (*PREDICTIONS, METRICS)
_MOST_FILES: Final = 20_000  # that are looked at in a folder
_NOT_ITS_OWN: Final = ("mlruns", "mlartifacts", "mlflow.db")  # how names begin that MLflow writes
_LAST_METRICS: Final = """SELECT key, value, is_nan FROM latest_metrics JOIN runs USING (run_uuid) WHERE run_uuid
NOT IN (SELECT run_uuid FROM tags WHERE key = 'mlflow.parentRunId') ORDER BY start_time, timestamp, key"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FirstRun:
    """What is kept of the first run of a command, with all seeds 0.

    Attributes
    ----------
    classes, metrics
        The classes of its predictions, and the names of its metrics, sorted.
    numbers
        Whether it predicted numbers.
    score
        The metric that is chosen if none is asked for; empty if there is none.
    scales
        Metric -> how it is written, see :func:`mlflow_l3d.approaches.command.said.scale_of`.
    changed
        Some of the files that it changed in its working folder; None if that is not known.
    """

    classes: Sequence[str] = ()
    metrics: Sequence[str] = ()
    numbers: bool = False
    score: str = ""
    scales: Mapping[str, str] = field(default_factory=dict)
    changed: Sequence[str] | None = None

    @classmethod
    def read(cls, path: Path) -> FirstRun | None:
        """Return what a file holds; None if there is none, or it is damaged, so that it is made again."""
        with suppress(OSError, ValueError, LookupError, TypeError):
            document = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{each.name: document[each.name] for each in fields(cls)})
        return None

    def write(self, path: Path) -> None:
        """Write it to a file, which is whole whenever somebody reads it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(self)), encoding="utf-8")
        partial.replace(path)

    def report(self, what: str, *, chosen: bool) -> None:
        """Log which score is chosen, and whether runs wait for one another."""
        others = [name for name in self.metrics if name != self.score and sounds_like_metric(name)]
        more = f"; {what} also wrote {', '.join(others[:5])}: --metric {others[0]}" if others else ""
        if chosen:
            _log.warning("The score is %s%s.", self.score, more)
        if self.changed:
            why = f"since {what} writes {self.changed[0]} into its folder"
            _log.warning("Runs follow one another, %s. Write to {output} or $L3D_OUTPUT to run side by side.", why)


def run_in_place(
    words: Sequence[str], here: Path, output: Path, variables: Mapping[str, str], before: Sequence[str] | None
) -> tuple[Output, list[str]]:
    """Run a command in the folder where it was typed, and return what it printed and the files that it changed there.

    Predictions there are copied to `output`, and metrics there count as printed, if it wrote none of them to `output`.

    Parameters
    ----------
    before
        Files that a run before changed there; if there are some, runs wait for one another. None if there was no run.

    Raises
    ------
    L3DError
        If it fails.
    """
    if before is not None and not before:
        return run(words, here, variables), []
    locks = cache_folder() / "commands"
    private_folder(locks)
    with FileLock(locks / f"{sha256(os.fsencode(here.resolve())).hexdigest()}.lock"):
        stamps = _stamps(here, whole=before is None)
        printed = run(words, here, variables)
        changed = [name for name, stamp in _stamps(here, whole=before is None).items() if stamps.get(name) != stamp]
        for name in () if any((output / name).is_file() for name in _FILES) else {*_FILES}.intersection(changed):
            if name == METRICS:
                text = " ".join((here / name).read_text("utf-8", "replace").split())
                printed = printed._replace(stdout=f"{printed.stdout}\n{text}")
            elif {*COLUMNS} <= {*(columns := read_columns(here / name))}:
                copyfile(here / name, output / name)
            elif before is None:
                _log.warning("%s is not used: it has %s, not %s.", name, ", ".join(columns), ", ".join(COLUMNS))
    return printed, changed


def _stamps(here: Path, *, whole: bool) -> dict[str, tuple[int, int]]:
    """Return name -> what changes whenever the file is written, of a whole folder or of predictions and metrics."""
    stamps = dict[str, tuple[int, int]]()
    others = chain(here.glob("[!.]*"), here.glob("[!.]*/**/[!.]*")) if whole else ()
    for path in [*(here / name for name in _FILES), *islice(others, _MOST_FILES)]:
        name = os.path.relpath(path, here)
        with suppress(OSError):
            if not name.startswith(_NOT_ITS_OWN) and "__pycache__" not in name and path.is_file():
                stamps[name] = path.stat().st_mtime_ns, path.stat().st_ctime_ns
    return stamps


def tracking(folder: Path, environment: Mapping[str, str], *, ready: bool) -> dict[str, str]:
    """Return the variables that lead MLflow to a store in a folder, made beforehand if it is to be `ready`."""
    artifacts = folder / "artifacts"
    if ready:
        kept = cache_folder() / "projects" / f"store-{metadata.version('mlflow-skinny')}.db"
        store.fresh(store.template(kept, environment), folder, artifacts)
    uri = f"sqlite:///{folder / store.STORE}"
    return {"MLFLOW_TRACKING_URI": uri, "_MLFLOW_SERVER_ARTIFACT_ROOT": artifacts.as_uri()}


def logged_metrics(folder: Path) -> dict[str, float]:
    """Return the last values of the metrics in the store of a folder, without those of nested runs."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(folder / store.STORE)) as tables:
        rows = tables.execute(_LAST_METRICS).fetchall()
        return {key: math.nan if nan else float(value) for key, value, nan in rows if not key.startswith("system/")}
    return {}

"""A command in the user's own folder: the files that a run writes there, the scores that it logs, the first run."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from itertools import islice
from pathlib import Path
from shutil import copyfile
from typing import Final

from mlflow_l3d.approaches.command.folder import MOST_FILES, Stamps, file_stamp, walk
from mlflow_l3d.approaches.command.template import Output, Template, last_lines, run
from mlflow_l3d.approaches.command.written import METRICS, PREDICTIONS, warn_once
from mlflow_l3d.approaches.project import store
from mlflow_l3d.paths import cache_folder, read_notes, write_whole

_FILES: Final = (*PREDICTIONS, METRICS)
_LAST_METRICS: Final = """SELECT key, value, max(is_nan), count(DISTINCT value) FROM latest_metrics JOIN runs
USING (run_uuid) WHERE run_uuid NOT IN (SELECT run_uuid FROM tags WHERE key = 'mlflow.parentRunId')
GROUP BY key ORDER BY start_time, timestamp, key"""


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
        Metric -> how it is written, see :func:`mlflow_l3d.approaches.command.scores.scale_of`.
    alone
        Why runs wait for one another; empty if they may be side by side; None if that is not known.
    is_last
        Whether other values of the score were printed before, as in earlier epochs.
    """

    classes: Sequence[str] = ()
    metrics: Sequence[str] = ()
    numbers: bool = False
    score: str = ""
    scales: Mapping[str, str] = field(default_factory=dict)
    alone: str | None = None
    is_last: bool = False

    @property
    def has_predictions(self) -> bool:
        """Whether it predicted numbers or classes."""
        return self.numbers or bool(self.classes)

    @classmethod
    def read(cls, path: Path) -> FirstRun | None:
        """Return what a file holds; None if there is none, or it is damaged, so that it is made again."""
        with suppress(LookupError, TypeError):
            document = read_notes(path)
            return cls(**{each.name: document[each.name] for each in fields(cls)})
        return None

    def write(self, path: Path) -> None:
        """Write it to a file, which is whole whenever somebody reads it."""
        write_whole(path, json.dumps(asdict(self)))

    def shows_scale(self, score: str) -> bool:
        """Return whether it is known how a score is written, or does not matter, since predictions have another one."""
        return self.has_predictions or self.scales.get(score) != ""


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


def without_score(printed: Output, unused: str) -> str:
    """Return what a command did that gave no score, and what to do; `unused` is why its predictions are not read."""
    lines = " / ".join(last_lines(printed.stdout.strip() or printed.stderr, 3))
    looked = f"and its {unused}" if unused else f"and wrote neither {', '.join(PREDICTIONS)} nor {METRICS}"
    ended = f"it ended with: {lines}" if lines else "it printed nothing"
    fix = f"Print one, such as accuracy: 0.87 (decimals with a point), or write it to {{output}}/{METRICS}"
    return f"printed no score (name: value), {looked}; {ended}. {fix}"


def unread_score(output: Path, template: Template, began: int) -> str:
    """Return which JSON file that a run wrote, since `began` in nanoseconds, or which logs nobody reads."""
    if template.mentions(b"set_tracking_uri("):
        return ". What it logs after mlflow.set_tracking_uri is not read: leave this call out, or print the score"
    files = [f"{{output}}/{path.relative_to(output)}" for path in sorted(output.rglob("*.json"))]
    near = islice(walk(template.here), MOST_FILES)
    files += [name for name, status in near if name.endswith(".json") and status.st_mtime_ns >= began]
    return f". It may be in {files[0]}" if files else ""


def _stamps_of_results(here: Path) -> Stamps:
    return {name: file_stamp((here / name).stat()) for name in _FILES if (here / name).is_file()}


def tracking(folder: Path, environment: Mapping[str, str], *, ready: bool) -> dict[str, str]:
    """Return the variables that lead MLflow to a store in a folder, made beforehand if it is to be `ready`."""
    artifacts = folder / "artifacts"
    if ready:
        kept = cache_folder() / "projects" / f"store-{metadata.version('mlflow-skinny')}.db"
        store.fresh(store.template(kept, environment), folder, artifacts)
    uri = f"sqlite:///{folder / store.STORE}"
    return {"MLFLOW_TRACKING_URI": uri, "_MLFLOW_SERVER_ARTIFACT_ROOT": artifacts.as_uri()}


def logged_metrics(folder: Path) -> dict[str, float]:
    """Return the last values of the metrics in the store of a folder, without those of nested runs.

    A metric is left out if runs logged different values of it: nobody knows which of them is the score.
    """
    metrics: dict[str, float] = {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(folder / store.STORE)) as tables:
        for name, value, is_nan, count in tables.execute(_LAST_METRICS).fetchall():
            if count > 1:
                why = f"{count} MLflow runs of one process logged different values"
                warn_once(f"{name} is not used: {why}. Nest all but one")
            elif not name.startswith("system/"):
                metrics[name] = math.nan if is_nan else float(value)
    return metrics

"""The first run of a command, with all seeds 0: what later runs are read by, and the lines that announce it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from mlflow_l3d.metrics.known import sounds_like_metric

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FirstRun:
    """What is kept of it.

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
        Some of the files that it changed in its working folder.
    """

    classes: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    numbers: bool = False
    score: str = ""
    scales: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> FirstRun | None:
        """Return what a file holds; None if there is none, or it is damaged, so that it is made again."""
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            document = json.loads(path.read_text(encoding="utf-8"))
            classes, metrics, changed = (tuple(map(str, document[each])) for each in ("classes", "metrics", "changed"))
            scales = {str(name): str(scale) for name, scale in document["scales"].items()}
            return cls(classes, metrics, bool(document["numbers"]), str(document["score"]), scales, changed)
        return None

    def write(self, path: Path) -> None:
        """Write it to a file."""
        write_record(path, asdict(self))

    def report(self, what: str, *, chosen: bool) -> None:
        """Log which score is chosen, and whether runs wait for one another; once in a process."""
        if chosen:
            others = [name for name in self.metrics if name != self.score and sounds_like_metric(name)]
            more = f"; {what} also wrote {', '.join(others[:5])}: --metric {others[0]}" if others else ""
            announce(f"The score is {self.score}{more}.")
        if self.changed:
            instead = "Let it write to {output} or $L3D_OUTPUT, and they run side by side"
            announce(f"Runs follow one another, since {what} writes {self.changed[0]} where it runs. {instead}.")


def write_record(path: Path, record: Any) -> None:
    """Write JSON to a file that is whole whenever somebody reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(record), encoding="utf-8")
    partial.replace(path)


def read_names(path: Path) -> tuple[str, ...]:
    """Return the names that a file holds; none if there is no such file."""
    with suppress(OSError, ValueError, TypeError):
        return tuple(map(str, json.loads(path.read_text(encoding="utf-8"))))
    return ()


@cache
def announce(line: str) -> None:
    """Log a line once in a process."""
    _log.warning("%s", line)

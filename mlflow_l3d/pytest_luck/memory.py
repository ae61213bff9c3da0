"""What is remembered of each case between suites: a file per case, which processes may write at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.paths import write_whole

MOST: Final = 500
"""Remembered runs of a case, the newest ones."""
LARGEST: Final = 1e100
"""Score, in size, whose square is still a number."""


@dataclass
class Record:
    """The remembered runs of a case.

    Attributes
    ----------
    case
        Node id of the test.
    suites
        How many suites had the case.
    is_rate
        Whether its runs pass or fail, without score.
    against
        Label that it was compared with, if any.
    runs
        Label -> number of the seed -> score, or 1 and 0 for passed and failed; oldest first. Label "" has the last
        suites, whatever their label.
    fresh
        Number that the next new seed has at least: those below were run, and may be forgotten.
    is_damaged
        Whether its file could not be read, so that it begins again.
    """

    case: str
    suites: int = 0
    is_rate: bool = False
    against: str = ""
    runs: dict[str, dict[int, float]] = field(default_factory=dict)
    fresh: int = 0
    is_damaged: bool = False

    def add(self, runs: Mapping[int, float], label: str, *, is_rate: bool, against: str, keep: bool = True) -> None:
        """Add the runs of a suite; those of another kind are forgotten, but for the scores of labels.

        Parameters
        ----------
        runs
            Number of the seed -> score.
        label
            Under which scores are remembered in addition, if any, instead of earlier ones.
        is_rate, against
            As above.
        keep
            False if only the label is to be kept: a case that failed is another one once it is corrected, and runs that
            others are compared with would be compared with themselves.
        """
        past = self.runs.get("", {})
        self.fresh = max(self.fresh, *(index + 1 for index in (*past, *runs, -1)))
        kept = {index: value for index, value in past.items() if index not in runs and self.is_rate == is_rate}
        # A run that fails before its score does not say what it would have been compared with.
        self.against = self.against if is_rate else against
        self.is_rate, self.suites, self.is_damaged = is_rate, self.suites + 1, False
        self.runs[""] = dict([*kept.items(), *runs.items()][-MOST:]) if keep else {}
        if label and not is_rate:
            self.runs[label] = dict(runs)


@dataclass(frozen=True)
class Memory:
    """A folder of remembered cases, whose seeds have one root."""

    folder: Path

    def read(self, case: str) -> Record:
        """Return what is remembered of a case; nothing if it is new, or its file is damaged."""
        from pydantic import TypeAdapter

        try:
            record = TypeAdapter(Record).validate_json(self._path(case).read_bytes(), strict=True)
        except FileNotFoundError:
            return Record(case)
        except ValueError:
            return Record(case, is_damaged=True)
        values = [value for runs in record.runs.values() for value in runs.values()]
        is_whole = record.case == case and all(abs(value) <= LARGEST for value in values)
        return record if is_whole else Record(case, is_damaged=True)

    def add(self, case: str, runs: Mapping[int, float], **kind: Any) -> None:
        """Add the runs of a suite to what any process has written, as :meth:`Record.add` does."""
        from filelock import FileLock

        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "lock"):
            record = self.read(case)
            record.add(runs, **kind)
            write_whole(self._path(case), json.dumps(asdict(record)))

    def _path(self, case: str) -> Path:
        return self.folder / f"{hashlib.sha256(case.encode()).hexdigest()[:24]}.json"

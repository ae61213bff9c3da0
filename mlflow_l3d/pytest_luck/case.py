"""One test of a suite: what is remembered of it, which seed is next, and what its runs say.

There is one file per test, which processes may write at once.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.analysis.planning.cases import (
    Reading,
    Verdict,
    read_estimate,
    read_outcomes,
    read_scores,
    shift_of_outcomes,
)
from mlflow_l3d.analysis.planning.evidence import evidence_of_lower_rate
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.paths import write_whole
from mlflow_l3d.pytest_luck.requirement import LARGEST, Requirement

MOST: Final = 500
"""Remembered runs of a case, the newest ones."""


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


PATIENCE: Final = 20
"""Runs after which a case stays undecided, unless they look as if it fails."""
_DOUBT: Final = 0.1
"""E-value against a requirement below which they do not."""


@dataclass
class Case:
    """A test in this suite.

    Attributes
    ----------
    record
        The remembered runs of it.
    runs
        How many it may have in this suite.
    rate
        Rate of passed runs that is required if the test gives no score.
    alpha
        Error rate of the claim that it meets its requirement.
    checks
        Passed runs after which it is done if it is known to meet it, on average over suites.
    recorded
        Label that its scores are to be remembered under, if any.
    values
        Number of the seed -> score of the runs of this suite; 1 and 0 for passed and failed.
    lost
        Numbers of seeds whose runs were skipped.
    """

    record: Record
    runs: int
    rate: float
    alpha: float
    checks: float
    recorded: str = ""
    values: dict[int, float] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.requirement = Requirement(self.rate, is_rate=True)  # until a run has another one

    def next_index(self) -> int | None:
        """Return the number of the next seed: a new one if few are remembered, else the oldest; None if all are run."""
        past = self.record.runs.get("", {})
        label = self.requirement.label if self.values else self.record.against
        base = self.record.runs.get(label, {}) if label != self.recorded else {}
        new = base or (count(self.record.fresh) if len(past) < MOST else ())
        order = [(index for index in new if index not in past), (index for index in past if not base or index in base)]
        run = {*self.values, *self.lost}
        return next((index for indices in order for index in indices if index not in run), None)

    def add(self, index: int, value: float, requirement: Requirement) -> None:
        """Add a run; all runs of a test have the same requirement."""
        if self.values and self.requirement != requirement:
            text = f"one run requires {self.requirement}, another {requirement}"
            raise ValueError(f"{text}; each run needs a score if one has a score")
        if (label := requirement.label) not in ("", self.recorded) and not self.record.runs.get(label):
            raise ValueError(f"no scores of {label} are remembered; first run pytest --l3d --l3d-record {label} there")
        self.requirement, self.values[index] = requirement, value

    def verdict(self, needed: float) -> Verdict | None:
        """Return the verdict, None if it takes more runs; failing takes the e-value `needed`, or no run that meets."""
        tried = len(self.values) + len(self.lost)
        if self.is_recording:
            return "passed" if tried >= min(self.runs, PATIENCE) else None
        reading = self.reading()
        verdict = reading.verdict(needed, self.alpha)
        is_patient = tried < min(self.runs, PATIENCE if reading.below < _DOUBT else self.runs)
        if verdict == "undecided" and is_patient and self.next_index() is not None:
            return None
        return "failed" if verdict == "undecided" and self.is_missing else verdict

    @property
    def is_missing(self) -> bool:
        """Whether each run of this suite misses the requirement."""
        return max(self._scores()[0], default=math.inf) < self.requirement.bound

    def check_runs(self, needed: float) -> None:
        """Refuse so few runs that a test without score cannot fail: its suite would be green whatever it does."""
        if self.requirement.is_rate:
            fewest = bisect_left(range(10**9), needed, key=lambda runs: evidence_of_lower_rate(0, runs, self.rate))
            if self.runs < fewest:
                text = f"must be {fewest} or more in this suite: fewer cannot show a rate below {self.rate:.4g}"
                raise ParameterError("runs", self.runs, text)

    @property
    def is_recording(self) -> bool:
        """Whether the case is compared with the very runs that it records: they say nothing about themselves."""
        return self.requirement.label == self.recorded != ""

    def reading(self) -> Reading:
        """Return the evidence so far."""
        values, others = self._scores()
        if not values:
            return Reading(0.0, 0.0, math.inf, 0.0)
        # A fraction is met on average: half of the cases have one more in this suite, the others in the next one.
        phase = int(hashlib.sha256(self.record.case.encode()).hexdigest()[:8], 16) / 2**32
        whole = [int(suites * self.checks + phase) for suites in (self.record.suites, self.record.suites + 1)]
        checks = max(whole[1] - whole[0], 1)
        if not self.requirement.is_rate:
            is_difference = bool(self.requirement.label)
            return read_scores(values, others, self.requirement.bound, checks, is_difference=is_difference)
        passed, before = round(sum(values)), round(sum(others))
        return read_outcomes(passed, len(values) - passed, (before, len(others) - before), self.rate, checks)

    def _scores(self) -> tuple[list[float], list[float]]:
        """Return scores of this suite and remembered ones of other seeds, more is better; differences if compared."""
        sign, label, is_rate = self.requirement.sign, self.requirement.label, self.requirement.is_rate
        past = self.record.runs.get("", {}) if is_rate == self.record.is_rate else {}
        groups = [self.values, {index: value for index, value in past.items() if index not in self.values}]
        if label:
            base = self.record.runs.get(label, {})
            groups = [{index: value - base[index] for index, value in runs.items() if index in base} for runs in groups]
        now, before = ([sign * value for value in runs.values()] for runs in groups)
        return now, before

    def summary(self, verdict: str, needed: float) -> dict[str, Any]:
        """Return verdict and numbers, for JSON; unknown numbers are None."""
        texts = ["its remembered runs were damaged"] if self.record.is_damaged else []
        misses = False
        names = ("estimate", "low", "high", "fails", "fails_needed", "passes", "passes_needed")
        remembered = 0
        numbers = dict.fromkeys(names, math.nan)
        if self.values:
            values, others = self._scores()
            label, bound = self.requirement.label, self.requirement.bound
            reading = self.reading()
            remembered, has_changed = len(others), reading.changed > 1
            same_spread = () if label or verdict == "failed" else others
            runs = (values, same_spread) if has_changed or verdict == "failed" else ([*values, *others], ())
            shift = None if label else shift_of_outcomes([*values, *others], bound)
            moved = [value + (shift or 0.0) for value in runs[0]]
            mean_and_limits = read_estimate(moved, runs[1], 0.95, is_rate=shift is not None)
            sign = 1.0 if label else self.requirement.sign
            # Losses of 0 are shown as 0, not -0.
            estimate, *limits = (sign * (number - (shift or 0.0)) + 0.0 for number in mean_and_limits)
            numbers = {"estimate": estimate, "low": min(limits), "high": max(limits)}
            numbers |= {"fails": reading.below, "fails_needed": needed, "passes": reading.met}
            numbers["passes_needed"] = 1 / self.alpha
            if misses := verdict == "failed" and reading.below < needed:
                text = "each run misses the requirement: if half of all runs met it, with probability"
                texts.append(f"{text} {0.5 ** len(values):.1g}")
            if verdict == "undecided" and has_changed and others:
                texts.append("these runs differ from the remembered ones")
            if not self.requirement.is_rate and len(self.values) > 1 and len({*self.values.values()}) == 1:
                texts.append("a seed without effect: all scores are equal")
            if self.is_recording:
                texts.append(f"remembered as {self.recorded}")
        finite = {name: number if math.isfinite(number) else None for name, number in numbers.items()}
        words = {"case": self.record.case, "verdict": verdict, "requirement": str(self.requirement) * bool(self.values)}
        return words | {"runs": len(self.values), "remembered": remembered, "notes": texts, "misses": misses} | finite

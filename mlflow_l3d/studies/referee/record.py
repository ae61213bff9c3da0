"""A session of a referee in MLflow: its result so far, its run, and those of the baseline and of each candidate."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, Final

import pandas as pd
from pydantic import TypeAdapter

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import wrap
from mlflow_l3d.studies.base import locked
from mlflow_l3d.studies.files import LEFT_OUT
from mlflow_l3d.studies.referee.numbers import OF_LOOK, Assessment, Judgement, Rules
from mlflow_l3d.studies.referee.numbers.session import Course, Session, SystemRecord
from mlflow_l3d.studies.referee.report import comment_rows, judgement_lines, session_document
from mlflow_l3d.studies.referee.source import Candidate, check_scores, check_unit
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import children_of, condition, found, search
from mlflow_l3d.tracking.connection import Client, Run, error_line
from mlflow_l3d.tracking.parent import current_experiment_id, end_early, log_metrics, log_params, set_tags

ROLE: Final = "referee"
_COUNT: Final = "l3d.referee_count"
_BEGUN: Final = "l3d.referee_begun"
_NUMBERS: Final = {
    "number": names.REFEREE_NUMBER,
    "scores": names.REFEREE_SCORES,
    "fresh_half": names.REFEREE_FRESH_HALF,
    "decided": "l3d.referee_decided",
    "order": "l3d.referee_order",
}
"""Attribute of a system -> tag of its run, as JSON."""


def sessions(client: Client, tags: Mapping[str, str]) -> list[Run]:
    """Return the runs of the sessions of the current experiment that have these tags, the latest one last."""
    return list(search(client, [current_experiment_id(client)], condition({names.ROLE: ROLE, **tags})))


def lock_of(name: str, *, waits: bool = True) -> AbstractContextManager[bool]:
    """Keep others on this machine from a session, or from starting one with its key; without `waits` say if it did."""
    waiting = f"Another process is at work in session {name}: waiting for it." if waits else ""
    return locked(cache_folder("referee") / f"{name}.lock", waiting)


@dataclass(frozen=True, repr=False)
class RefereeSession(OnOneScreen):
    """A session so far.

    Attributes
    ----------
    run_id
        Its MLflow run.
    course
        Its candidates and champions so far.
    source
        Its origin, for its report.
    judgement
        What the command found of a candidate; None if it judged none.
    """

    run_id: str
    course: Course
    source: Source
    judgement: Judgement | None = field(default=None, metadata=LEFT_OUT)

    @property
    def exit_status(self) -> int:
        """That of the judgement, 0 if there is none."""
        return self.judgement.exit_status if self.judgement else 0

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate with its last look; gains are differences of scores."""
        columns = ["number", "title", "verdict", "run_id"]
        rows = [
            {name: getattr(each, name) for name in columns}
            | {"runs": len(each.scores)}
            | {name: getattr(look, name) for look in each.looks[-1:] for name in OF_LOOK}
            for each in self.course.systems[1:]
        ]
        return pd.DataFrame(rows, columns=[*columns, "runs", *OF_LOOK])

    @built_once
    def report(self) -> Document:
        """Return the session as people read it."""
        return session_document(self.course, self.source)

    def comment_rows(self) -> list[dict[str, str]]:
        """Return what a comment on a pull request has of the candidates: before, after, interval, verdict and cost."""
        return comment_rows(self.course)

    def summary(self) -> str:
        """Return the text that the command line prints: of a judgement lines for people, and the last one is JSON."""
        if self.judgement is None:
            return super().summary()
        *people, last = judgement_lines(self.course, self.judgement)
        return "\n".join([*(line for each in people for line in wrap(each)), last])


class SessionRecorder:
    """Reads and writes the records of one session.

    Parameters
    ----------
    client
        The tracking server.
    run
        The run of the session.
    """

    def __init__(self, client: Client, run: Run) -> None:
        self.client = client
        self.run_id = str(run.info.run_id)
        self.experiment_id = str(run.info.experiment_id)
        self.title = str(run.info.run_name)
        content = json.loads(run.data.tags[names.REFEREE_RULES])
        self.planned = int(content["baseline_runs"])
        self.shares_seeds = bool(content["shares_seeds"])
        self.identity: Mapping[str, Any] = content["identity"]
        self.rules = TypeAdapter(Rules).validate_python(content)
        self.systems: list[SystemRecord] = []
        self._count, self._is_changed, self._begun = "", False, -1

    @classmethod
    def find(cls, client: Client, run_id: str) -> SessionRecorder:
        """Return the session that a run is.

        Raises
        ------
        ParameterError
            If it is none.
        """
        run = found(client.get_run, run_id)
        if run is None or run.data.tags.get(names.ROLE) != ROLE or names.REFEREE_RULES not in run.data.tags:
            raise ParameterError("referee", run_id, "must be the run of a session", "`referee start` begins one.")
        return cls(client, run)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes of this machine from judging in this session."""
        with lock_of(self.run_id):
            try:
                self._read()
                yield
            finally:
                if self._is_changed:
                    self._counted()

    @contextmanager
    def recorded(self) -> Iterator[tuple[SessionRecorder, bool]]:
        """Yield the records of now, and whether a judgement on this machine adds to them; wait for none."""
        with lock_of(self.run_id, waits=False) as is_free:
            recorder = self if is_free else SessionRecorder(self.client, self.client.get_run(self.run_id))
            recorder._read()
            yield recorder, not is_free

    def session(self) -> Session:
        """Return the session that the records make."""
        baseline, *candidates = self.systems or [SystemRecord("", 0, "", "")]
        session = Session(self.rules, baseline, planned=self.planned, shares_seeds=self.shares_seeds)
        for each in sorted(candidates, key=lambda each: each.order):
            if each.verdict and each.looks:
                session.conclude(each)
                if session.champion is each:
                    session.confirm()
        return session

    def begin(self, candidate: Candidate, metric: Metric) -> SystemRecord:
        """Return the record of a system: a new run, or that which was begun. Scores that cannot be are refused."""
        earlier = next((each for each in self.systems if each.key == candidate.key), None)
        measured = candidate.measured or {}
        check_scores(measured, metric, earlier.scores if earlier and candidate.paired else {})
        check_unit(candidate.title, measured, metric, self.systems[0].scores if self.systems else {})
        if earlier is not None:
            if not earlier.verdict:
                self.client.update_run(earlier.run_id, status="RUNNING")
            return earlier
        self._begun = max([self._begun, *(each.number for each in self.systems)]) + 1
        number = self._begun
        record = SystemRecord("", number, candidate.title, candidate.key, candidate.content)
        tags = {names.PARENT_RUN_ID: self.run_id, names.ROLE: "candidate" if number else "baseline"}
        tags |= {names.SCHEMA_TAG: names.SCHEMA, names.STATE: "running", **_tags(record)}
        now = int(time.time() * 1000)
        run = self.client.create_run(self.experiment_id, start_time=now, tags=tags, run_name=candidate.title[:250])
        record.run_id = str(run.info.run_id)
        log_params(self.client, record.run_id, {"candidate": json.dumps(candidate.content, sort_keys=True)})
        self.systems.append(record)
        self._counted()
        return record

    def note(self, system: SystemRecord, numbers: Mapping[int, Mapping[str, float]]) -> None:
        """Record what a system has now, in one call, and step -> metrics."""
        if not self._is_changed:
            self._counted()  # before it: a process that is killed below has told others
            self._is_changed = True
        set_tags(self.client, system.run_id, _tags(system))
        log_metrics(self.client, system.run_id, numbers)

    def note_score(self, system: SystemRecord, metric: Metric, number: int, score: float) -> None:
        """Record a run."""
        system.scores[number] = score
        self.note(system, {number: {metric.name: score}})

    def note_look(self, system: SystemRecord, look: Assessment) -> None:
        """Record an interim analysis; the last one decides, in the same call."""
        short: dict[str, Any] = {
            name: float(f"{each:.9g}") for name, each in asdict(look).items() if isinstance(each, float)
        }
        system.looks.append(replace(look, **short))
        if look.verdict != "undecided":
            system.verdict = look.verdict
            system.decided = max(system.scores, default=-1) + 1
            system.order = max(each.order for each in self.systems) + 1
        numbers = {"gain": look.gain, "gain_ci_low": look.low, "gain_ci_high": look.high, "evidence": look.evidence}
        self.note(system, {look.runs: numbers})
        if system.verdict:
            self.client.set_terminated(system.run_id, "FINISHED")
            self._counted()

    def end(self, system: SystemRecord, error: BaseException) -> None:
        """End the run of a system that an error stopped."""
        if not system.verdict:
            end_early(self.client, system.run_id, error_line(error))

    def _counted(self) -> None:
        """Let other processes see that there is something new."""
        self._count, self._is_changed = str(int(time.time() * 1e6)), False
        set_tags(self.client, self.run_id, {_COUNT: self._count, _BEGUN: str(self._begun)})

    def _read(self) -> None:
        """Read all records, unless nobody else has written since."""
        tags = self.client.get_run(self.run_id).data.tags
        count, self._begun = tags.get(_COUNT, "0"), int(tags.get(_BEGUN, -1))
        if self.systems and count == self._count:
            return
        children = children_of(self.client, self.experiment_id, self.run_id)
        records = [_system(run) for run in children if names.REFEREE_NUMBER in run.data.tags]
        self.systems = sorted(records, key=lambda each: (each.number, each.run_id))
        self._count = count


def _tags(system: SystemRecord) -> dict[str, str]:
    """Return the tags of the run of a system: its key before the number, without which the run is not read."""
    tags = {names.REFEREE_KEY: system.key, names.REFEREE_LOOKS: json.dumps([astuple(each) for each in system.looks])}
    tags |= {tag: json.dumps(getattr(system, name)) for name, tag in _NUMBERS.items()}
    return {**tags, names.DECISION: system.verdict, names.STATE: "complete"} if system.verdict else tags


def _system(run: Run) -> SystemRecord:
    tags = run.data.tags
    # Versions before this one, and a process that was killed, left tags out.
    values = {name: json.loads(tags[tag]) for name, tag in _NUMBERS.items() if tag in tags}
    for name in ("scores", "fresh_half"):
        values[name] = {int(number): score for number, score in values.get(name, {}).items()}
    values["looks"] = [Assessment(*row) for row in json.loads(tags.get(names.REFEREE_LOOKS, "[]"))]
    content = json.loads(run.data.params.get("candidate", "null"))
    verdict = tags.get(names.DECISION, "")
    values |= {"title": str(run.info.run_name), "key": tags[names.REFEREE_KEY]}
    return SystemRecord(str(run.info.run_id), content=content, verdict=verdict, **values)

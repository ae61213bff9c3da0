"""A session of a referee in MLflow: a run of its own, with a child run for the baseline and for each candidate."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple, fields, replace
from typing import Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.studies.referee.numbers.judge import Assessment, Rules
from mlflow_l3d.studies.referee.numbers.session import Session, SystemRecord
from mlflow_l3d.studies.referee.source import Candidate, check_scores
from mlflow_l3d.studies.shown import logger
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import children_of, found
from mlflow_l3d.tracking.connection import Client, Run, again, error_line
from mlflow_l3d.tracking.parent import end_early, log_metrics, log_params, set_tags

ROLE: Final = "referee"
_COUNT: Final = "l3d.referee_count"
_DECIDED: Final = "l3d.referee_decided"
_ORDER: Final = "l3d.referee_order"
_BEGUN: Final = "l3d.referee_begun"


@contextmanager
def locked(name: str, *, waits: bool = True) -> Iterator[bool]:
    """Keep others on this machine from a session, or from starting one with its key; without `waits` say if it did."""
    from filelock import FileLock, Timeout

    folder = cache_folder() / "referee"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = FileLock(folder / f"{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not waits:
            yield False
            return
        logger.warning("Another process is at work in session %s: waiting for it.", name)
        lock.acquire()
    try:
        yield True
    finally:
        lock.release()


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
        self.client, self.run_id, self.experiment_id = client, str(run.info.run_id), str(run.info.experiment_id)
        self.title, content = str(run.info.run_name), json.loads(run.data.tags[names.REFEREE_RULES])
        self.planned, self.shares_seeds = int(content["baseline_runs"]), bool(content["shares_seeds"])
        self.identity: Mapping[str, Any] = content["identity"]
        names_of_rules = {each.name for each in fields(Rules)}
        self.rules = Rules(**{name: value for name, value in content.items() if name in names_of_rules})
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

    @staticmethod
    def tags(rules: Rules, planned: int, shares_seeds: bool, identity: Mapping[str, Any], key: str) -> dict[str, str]:
        """Return the tags of a new session."""
        content = {**asdict(rules), "baseline_runs": planned, "shares_seeds": shares_seeds, "identity": identity}
        return {
            names.REFEREE_RULES: json.dumps(content, sort_keys=True),
            names.REFEREE_KEY: key,
            _COUNT: "0",
            names.STATE: "running",
        }

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes of this machine from judging in this session."""
        with locked(self.run_id):
            try:
                self._read()
                yield
            finally:
                if self._is_changed:
                    self._counted()

    @contextmanager
    def recorded(self) -> Iterator[tuple[SessionRecorder, bool]]:
        """Yield the records of now, and whether a judgement on this machine adds to them; wait for none."""
        with locked(self.run_id, waits=False) as is_free:
            recorder = self if is_free else SessionRecorder(self.client, self.client.get_run(self.run_id))
            recorder._read()
            yield recorder, not is_free

    def session(self) -> Session:
        """Return the session that the records make."""
        baseline, *candidates = self.systems or [SystemRecord("", 0, "", "")]
        session = Session(self.rules, baseline.scores, planned=self.planned, shares_seeds=self.shares_seeds)
        for each in sorted(candidates, key=lambda each: each.order):
            if not each.verdict or not each.looks:
                continue
            first = session.next_number
            decided = {number: score for number, score in each.scores.items() if first <= number < each.decided}
            session.conclude(each.title, decided, replace(each.looks[-1], verdict=each.verdict), paired=each.paired)  # type: ignore[arg-type]
            if each.verdict == "keep":
                session.path[-1] = replace(session.path[-1], number=each.number)
                session.champion.scores.update(each.scores)
                session.champion.fresh_half, session.baseline.fresh_half = each.fresh_half, baseline.fresh_half
                both = (
                    (baseline.fresh_half, each.fresh_half) if self.rules.fresh_half else (baseline.scores, each.scores)
                )
                if {*session.to_confirm} <= both[0].keys() & both[1].keys():
                    session.confirm()
        return session

    def champion(self) -> SystemRecord:
        """Return the record of the champion."""
        kept = [each for each in self.systems if each.verdict == "keep"]
        return max(kept, key=lambda each: (each.order, each.number), default=self.systems[0])

    def begin(self, candidate: Candidate, metric: Metric) -> SystemRecord:
        """Return the record of a system: a new run, or that which was begun. Scores that cannot be are refused."""
        earlier = next((each for each in self.systems if each.key == candidate.key), None)
        check_scores(candidate.measured or {}, metric, earlier.scores if earlier and candidate.paired else {})
        if earlier is not None:
            if not earlier.verdict:
                self.client.update_run(earlier.run_id, status="RUNNING")
            return earlier
        self._begun = max([self._begun, *(each.number for each in self.systems)]) + 1
        number = self._begun
        tags = {names.PARENT_RUN_ID: self.run_id, names.ROLE: "candidate" if number else "baseline"}
        tags |= {
            names.SCHEMA_TAG: names.SCHEMA,
            names.REFEREE_KEY: candidate.key,
            names.REFEREE_NUMBER: str(number),
            names.STATE: "running",
        }
        text = json.dumps(candidate.content, sort_keys=True)
        now = int(time.time() * 1000)
        run = self.client.create_run(self.experiment_id, start_time=now, tags=tags, run_name=candidate.title[:250])
        log_params(self.client, str(run.info.run_id), {"candidate": text})
        record = SystemRecord(str(run.info.run_id), number, candidate.title, candidate.key, candidate.content)
        self.systems.append(record)
        self._counted()
        return record

    def note_score(self, system: SystemRecord, metric: Metric, number: int, score: float) -> None:
        """Record a run."""
        self._is_changed, system.scores[number] = True, score
        again(lambda: set_tags(self.client, system.run_id, {names.REFEREE_SCORES: json.dumps(system.scores)}))
        if math.isfinite(score):
            log_metrics(self.client, system.run_id, {number: {metric.name: score}})

    def note_fresh_half(self, system: SystemRecord, scores: Mapping[int, float]) -> None:
        """Record scores on the fresh half of the test examples."""
        self._is_changed = True
        system.fresh_half.update(scores)
        again(lambda: set_tags(self.client, system.run_id, {names.REFEREE_FRESH_HALF: json.dumps(system.fresh_half)}))

    def note_look(self, system: SystemRecord, look: Assessment) -> None:
        """Record an interim analysis; the last one decides, in the same call."""
        short: dict[str, Any] = {
            name: float(f"{each:.9g}") for name, each in asdict(look).items() if isinstance(each, float)
        }
        system.looks.append(replace(look, **short))
        tags = {names.REFEREE_LOOKS: json.dumps([astuple(each) for each in system.looks])}
        if look.verdict != "undecided":
            system.verdict, system.decided = look.verdict, max(system.scores, default=-1) + 1
            system.order = max(each.order for each in self.systems) + 1
            tags |= {names.DECISION: look.verdict, names.STATE: "complete"}
            tags |= {_DECIDED: str(system.decided), _ORDER: str(system.order)}
        again(lambda: set_tags(self.client, system.run_id, tags))
        numbers = {"gain": look.gain, "gain_ci_low": look.low, "gain_ci_high": look.high, "evidence": look.evidence}
        finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
        log_metrics(self.client, system.run_id, {look.runs: finite})
        if system.verdict:
            self.client.set_terminated(system.run_id, "FINISHED")
            self._counted()

    def end(self, system: SystemRecord, error: BaseException | None = None) -> None:
        """End the run of a system: that of a champion whose fresh runs are there, or one that an error stopped."""
        if error is None:
            self.client.set_terminated(system.run_id, "FINISHED")
        elif not system.verdict:
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
        self.systems, self._count = sorted(records, key=lambda each: (each.number, each.run_id)), count


def _system(run: Run) -> SystemRecord:
    tags = run.data.tags
    scores, fresh_half = (
        {int(key): float(value) for key, value in json.loads(tags.get(name, "{}")).items()}
        for name in (names.REFEREE_SCORES, names.REFEREE_FRESH_HALF)
    )
    return SystemRecord(
        str(run.info.run_id),
        int(tags[names.REFEREE_NUMBER]),
        str(run.info.run_name),
        tags[names.REFEREE_KEY],
        json.loads(run.data.params.get("candidate", "null")),
        scores,
        tags.get(names.DECISION, ""),
        [Assessment(*row) for row in json.loads(tags.get(names.REFEREE_LOOKS, "[]"))],
        int(tags.get(_DECIDED, 0)),
        fresh_half,
        int(tags.get(_ORDER, 0)),
    )

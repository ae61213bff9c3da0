"""A referee under way: the baseline is run once, then candidates are judged one after another."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from mlflow_l3d.analysis.planning.spending import FEWEST
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.base import entry_point, origin
from mlflow_l3d.studies.files import save_result, temporary_folder
from mlflow_l3d.studies.referee.existing import RunSource, existing_runs
from mlflow_l3d.studies.referee.golden import GoldenSource
from mlflow_l3d.studies.referee.numbers import JUDGED_BEFORE, Assessment, Judgement, Rules, runs_left
from mlflow_l3d.studies.referee.numbers.session import Course, Session, SystemRecord
from mlflow_l3d.studies.referee.record import ROLE, RefereeSession, SessionRecorder
from mlflow_l3d.studies.referee.source import Candidate, check_baseline, check_scores
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run, end_abandoned
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.parent import log_metrics, log_results, set_tags


class Conduct:
    """A session under way.

    Parameters
    ----------
    source
        What runs the baseline and the candidates.
    recorder
        Reads and writes the records of the session.
    """

    def __init__(self, source: RunSource, recorder: SessionRecorder) -> None:
        self.source, self.recorder = source, recorder
        self.session: Session = recorder.session()
        self._spent = 0

    @classmethod
    def start(
        cls, source: RunSource, rules: Rules, *, baseline_runs: int = 20, project_run: str | None = None
    ) -> Conduct:
        """Begin a session: run the baseline, and learn what runs vary by.

        Parameters
        ----------
        source
            What runs the baseline and the candidates.
        rules
            What is fixed; an `effect` of nan becomes the standard deviation of the baseline's runs.
        baseline_runs
            How often the baseline is run.
        project_run
            The run that `mlflow run` made, if there is one.

        Raises
        ------
        L3DError
            If fewer than two runs have a score, or all have the same.
        """
        rules = replace(rules, sign=source.metric.sign, step=source.step, fresh_half=source.has_fresh_half)
        about = {"baseline_runs": baseline_runs, "shares_seeds": source.shares_seeds, "identity": source.identity}
        client = connect()
        with auxiliary_run(client, project_run, role=ROLE, title=f"referee: {source.title}", parameters={}) as run:
            content = json.dumps({**asdict(rules), **about})
            key = content_key({"identity": source.identity})
            set_tags(client, run.run_id, {names.REFEREE_RULES: content, names.REFEREE_KEY: key, names.STATE: "running"})
            recorder = SessionRecorder(client, client.get_run(run.run_id))
            conduct = cls(source, recorder)
            with recorder.held():
                baseline = recorder.begin(source.describe(None), source.metric)
                try:
                    conduct._run(baseline, range(baseline_runs))
                    scores = np.array([score for score in baseline.scores.values() if math.isfinite(score)])
                    check_baseline(scores, source.metric, rules.effect)
                except BaseException as error:
                    recorder.end(baseline, error)
                    raise
                if math.isnan(rules.effect):
                    recorder.rules = replace(rules, effect=float(scores.std(ddof=1)))
                    content = json.dumps({**asdict(recorder.rules), **about})
                    set_tags(client, run.run_id, {names.REFEREE_RULES: content})
                client.set_terminated(baseline.run_id, "FINISHED")
                conduct.session = recorder.session()
        return conduct

    @classmethod
    def resume(cls, source: RunSource, recorder: SessionRecorder) -> Conduct:
        """Return a session that was begun.

        Raises
        ------
        L3DError
            If its baseline is another, or was not run.
        """
        run_id = recorder.run_id
        if json.loads(json.dumps(source.identity)) != recorder.identity:
            raise L3DError(f"Session {run_id} has another baseline, function or version than this. Start a new one.")
        with recorder.recorded() as (records, is_judging):
            if math.isnan(records.rules.effect) or len(records.session().baseline.scores) < records.planned:
                fix = "Ask again later: it is being run." if is_judging else "Start a new one."
                raise L3DError(f"The baseline of session {run_id} was not run to its end. {fix}")
            return cls(source, recorder)

    @property
    def run_id(self) -> str:
        """MLflow run of the session."""
        return self.recorder.run_id

    def judge(self, candidate: object, *, most_runs: int | None = None) -> Judgement:
        """Run a candidate until it is kept or rejected.

        A candidate that was judged before keeps its verdict; one that was interrupted continues, against the present
        champion.

        Parameters
        ----------
        candidate
            As the source takes it.
        most_runs
            Runs of the candidate that this call may make; None for as many as the rules allow.
        """
        self._spent = 0
        with entry_point(), self.recorder.held():
            end_abandoned(self.recorder.client)
            self.session = self.recorder.session()
            if isinstance(self.source, GoldenSource):
                champion = self.session.champion
                self.source.run_id = self.run_id
                self.source.champion = champion.content if champion.number else None
            described = self._existing(candidate) or self.source.describe(candidate)
            self._confirm()
            if described.key == self.recorder.systems[0].key:
                return self._judgement(self.recorder.systems[0], replace(self.session.look({}), verdict="reject"))
            record = self.recorder.begin(described, self.source.metric)
            notes = described.notes + ((JUDGED_BEFORE,) if record.verdict else ())
            try:
                if not record.verdict:
                    self._decide(record, self._numbered(record, described), most_runs)
                look = record.looks[-1] if record.looks else self.session.look({})
                self._confirm()
            except BaseException as error:
                self.recorder.end(record, error)
                raise
            return self._judgement(record, look, notes)

    def _judgement(self, record: SystemRecord, look: Assessment, notes: tuple[str, ...] = ()) -> Judgement:
        """Return the answer; a champion that was replaced, and the baseline, are not better than the champion."""
        champion = self.session.champion
        verdict = record.verdict if record.number else "reject"
        if verdict == "keep" and record is not champion:
            verdict = "reject"
        more = runs_left(look, self.recorder.rules, self.session.noise_of(paired=record.paired))
        if not champion.paired and math.isnan(self.session.path[-1].confirmed):
            notes += (f"{champion.title} is confirmed when {self.recorder.rules.confirm} fresh runs of it are there.",)
        return Judgement(
            verdict=verdict or "undecided",  # type: ignore[arg-type]
            candidate=record.title,
            number=record.number,
            assessment=look,
            spent=self._spent,
            failed=sum(not math.isfinite(score) for score in record.scores.values()),
            more=more if record.paired or verdict else max(more, FEWEST - look.runs),
            following=max([*record.scores, self.session.next_number - 1]) + 1,
            confirmed=self.session.path[-1].confirmed if self.session.path else math.nan,
            has_fresh_half=self.recorder.rules.fresh_half,
            champion=champion.title,
            run_id=self.run_id,
            candidate_run_id=record.run_id,
            notes=notes,
        )

    def status(self) -> RefereeSession:
        """Return the session as it is now; of a judgement that is under way, what it has recorded."""
        source, run_id = self.source, self.run_id
        with self.recorder.recorded() as (records, is_judging):
            systems = tuple(records.systems)
            path = tuple(records.session().path)
            course = Course(run_id, records.title, source.metric, records.rules, systems, path, is_judging=is_judging)
        about = origin(self.recorder.client, self.recorder.experiment_id, run_id)
        if isinstance(source, GoldenSource):
            course = replace(course, luck_of_examples=source.luck_of_examples)
            task = str(source.baseline.task.get("name", ""))
            about = replace(about, task=task, approach=source.approach, given={"referee": run_id})
        return RefereeSession(run_id, course, about)

    def publish(self) -> None:
        """Write the report, the result and the numbers of the session as it is now to its run."""
        session, client = self.status(), self.recorder.client
        course, report = session.course, session.report()
        numbers = {"judged": float(course.judged), "kept": float(len(course.path)), "runs_used": float(course.spent)}
        for last in course.path[-1:]:
            numbers |= {"gain": last.confirmed, "gain_ci_low": last.low, "gain_ci_high": last.high}
        log_metrics(client, session.run_id, {course.judged: numbers})
        with temporary_folder() as folder:
            save_result(folder, session)
            log_results(client, session.run_id, folder, {names.NOTE: report.description()}, ())

    def _decide(self, record: SystemRecord, candidate: Candidate, most_runs: int | None) -> None:
        """Run and look until there is a verdict, or no more runs are allowed."""
        session, first, made = self.session, self.session.next_number, 0
        while True:
            scores = {number: score for number, score in record.scores.items() if number >= first}
            if candidate.paired and session.champion.paired:
                self._run(session.champion, [*scores])
            if len(record.looks) < len(record.scores):  # a look after each run, also if the process was killed between
                look = session.look(scores, record.number, paired=candidate.paired)
                if not candidate.paired and len(scores) < FEWEST:  # more of them may be there already
                    look = replace(look, verdict="undecided")
                self.recorder.note_look(record, look)
                if look.verdict != "undecided":
                    session.conclude(record)
                    return
            number = max(scores, default=first - 1) + 1
            if candidate.measured is not None:
                if number not in candidate.measured:  # one after another, so that nobody selects
                    return
                self.recorder.note_score(record, self.source.metric, number, candidate.measured[number])
                continue
            if most_runs is not None and made >= most_runs:
                return
            if session.champion.paired:
                self._run(session.champion, [number])
            elif not session.fresh():  # nothing to compare with
                return
            self._run(record, [number], candidate)
            made += 1

    def _confirm(self) -> None:
        """Make the fresh runs that the champion lacks."""
        session = self.session
        if session.path and math.isnan(session.path[-1].confirmed):
            self._run(session.champion, session.to_confirm)
            if {*session.to_confirm} <= session.champion.scores.keys():  # else they are measured elsewhere, later
                self._run(session.baseline, session.to_confirm)
                if self.recorder.rules.fresh_half and isinstance(self.source, GoldenSource):
                    for record in (session.champion, session.baseline):
                        if missing := [number for number in session.to_confirm if number not in record.fresh_half]:
                            record.fresh_half |= self.source.fresh_half(self._described(record), missing)
                            self.recorder.note(record, {})
                session.confirm()

    def _described(self, record: SystemRecord) -> Candidate:
        """Return a system that was recorded, so that it can be run."""
        if not record.paired and (existing := self._existing(record.content)):
            return self._numbered(record, existing)
        return self.source.restore(record.content) if record.number else self.source.describe(None)

    def _existing(self, candidate: object) -> Candidate | None:
        """Return a candidate of runs that exist already; None if it is none."""
        return existing_runs(candidate, self.source, self.recorder.client, self.session.baseline.scores)

    def _numbered(self, record: SystemRecord, candidate: Candidate) -> Candidate:
        """Return a candidate whose existing runs have numbers: recorded ones their own, others the next, by time."""
        if candidate.paired:
            return candidate
        first, left = self.session.next_number, [*(candidate.measured or {}).values()]
        is_compared = all(look.runs for look in record.looks) and min(record.scores, default=first) >= first
        if not record.verdict and not is_compared:
            record.scores.clear()  # the champion is another, or had no runs: all are compared with it afresh
            record.looks.clear()
        for number, score in record.scores.items():
            if score not in left:
                wrong = f"no longer has a run with the score {score:g}, which was judged as number {number}"
                raise ParameterError("candidate", record.title[:60], wrong, "Restore the run, or start a session.")
            left.remove(score)
        return replace(candidate, measured=record.scores | dict(enumerate(left, max([*record.scores, first - 1]) + 1)))

    def _run(self, record: SystemRecord, numbers: Sequence[int], candidate: Candidate | None = None) -> None:
        """Make those runs of a system that are not there, and record each; None for what the record describes."""
        missing = [number for number in numbers if number not in record.scores]
        if not missing:
            return
        candidate = candidate or self._described(record)
        if candidate.paired:
            made = self.source.run(candidate, missing)
        else:  # all that exist, as they cost nothing
            made = iter(sorted((candidate.measured or {}).items() - record.scores.items()))
        for number, score in made:
            check_scores({number: score}, self.source.metric, {})
            self.recorder.note_score(record, self.source.metric, number, score)
            self._spent += candidate.paired

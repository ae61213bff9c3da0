"""The result of a session so far: what its run holds, and what is printed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.about import heading
from mlflow_l3d.studies.files import save_report, temporary_folder
from mlflow_l3d.studies.referee.conduct import Conduct, Judgement, Status
from mlflow_l3d.studies.referee.golden import GoldenSource
from mlflow_l3d.studies.referee.numbers.course import Course, System
from mlflow_l3d.studies.referee.record import SystemRecord
from mlflow_l3d.studies.referee.report.page import judgement_lines, session_document
from mlflow_l3d.studies.result_file import write_result
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.pages import runs_page
from mlflow_l3d.tracking.parent import log_metrics, log_results


@dataclass(frozen=True, repr=False)
class RefereeSession(OnOneScreen):
    """A session so far.

    Attributes
    ----------
    run_id
        Its MLflow run.
    title
        Name of the run.
    course
        What it found.
    source, settings
        Where it comes from, and what is fixed, for its report.
    """

    run_id: str
    title: str
    course: Course
    source: Source
    settings: Mapping[str, str]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate, with its last look; gains are fractions, or in the unit of the metric."""
        rows = [
            {
                **{"number": each.number, "candidate": each.title, "verdict": each.verdict, "runs": len(each.scores)},
                **({name: getattr(each.looks[-1], name) for name in _NUMBERS} if each.looks else {}),
                "run_id": each.run_id,
            }
            for each in self.course.systems[1:]
        ]
        return pd.DataFrame(rows, columns=["number", "candidate", "verdict", "runs", *_NUMBERS, "run_id"])

    @built_once
    def report(self) -> Document:
        """Return the session as people read it."""
        lines = [f"MLflow run {self.run_id}; report.html is among its artifacts"]
        return session_document(self.course, title=self.title, source=self.source, settings=self.settings, lines=lines)


_NUMBERS = ("gain", "low", "high", "evidence", "needed")


@dataclass(frozen=True, repr=False)
class Judged(OnOneScreen):
    """A judgement and the session after it, as the command prints them: lines for people, and one of JSON."""

    judgement: Judgement
    session: RefereeSession

    @property
    def exit_status(self) -> int:
        """That of the judgement."""
        return self.judgement.exit_status

    def summary(self) -> str:
        """Return the text that the command line prints."""
        said = judgement_lines(self.session.course, self.judgement.number, self.judgement.spent, self.judgement.more)
        return "\n".join([*said, self.judgement.to_json()])


def session_of(conduct: Conduct) -> RefereeSession:
    """Return a session as it is now."""
    status, ledger, source = conduct.status(), conduct.ledger, conduct.source
    course = course_of(status, source.luck_of_examples if isinstance(source, GoldenSource) else math.nan)
    document = source.baseline.document if isinstance(source, GoldenSource) else {}
    about = Source(
        task=str(document.get("task", {}).get("name", "")),
        approach=str(document.get("approach", {}).get("name", "")),
        run_id=status.run_id,
        address=runs_page(ledger.client, ledger.experiment_id),
        given={"referee": status.run_id} if isinstance(source, GoldenSource) else {},
        date=heading(status.run_id)["date"][:10],
    )
    settings = {**heading(status.run_id), "baseline": source.title, "metric": str(status.metric)}
    return RefereeSession(status.run_id, status.title, course, about, settings)


def course_of(status: Status, luck_of_examples: float = math.nan) -> Course:
    """Return the course of a session by its status."""
    systems = tuple(_system(each) for each in (status.baseline, *status.systems))
    return Course(status.metric, status.rules, systems, status.path, luck_of_examples)


def publish(conduct: Conduct) -> RefereeSession:
    """Write the report, the result and the numbers of a session as it is now to its run; return the session."""
    session, client = session_of(conduct), conduct.ledger.client
    course, report = session.course, session.report()
    with temporary_folder() as folder:
        write_result(folder, session)
        save_report(folder, names.REPORT, report)
        log_results(client, session.run_id, folder, {names.NOTE: report.description()}, ())
    numbers = {"judged": float(course.judged), "kept": float(len(course.path)), "runs_used": float(course.spent)}
    if course.path and math.isfinite(course.path[-1].confirmed):
        last = course.path[-1]
        numbers |= {"gain": last.confirmed, "gain_ci_low": last.low, "gain_ci_high": last.high}
    log_metrics(client, session.run_id, {course.judged: numbers})
    return session


def _system(record: SystemRecord) -> System:
    verdict = record.verdict or ("undecided" if record.number else "")
    return System(record.number, record.title, record.run_id, verdict, dict(record.scores), tuple(record.looks))

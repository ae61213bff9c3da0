"""The result of a session so far: its run holds it, and the command prints it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pandas as pd

from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source, heading
from mlflow_l3d.studies.files import LEFT_OUT, save_result, temporary_folder
from mlflow_l3d.studies.referee.conduct import Conduct
from mlflow_l3d.studies.referee.golden import GoldenSource
from mlflow_l3d.studies.referee.numbers.judge import OF_LOOK, Judgement
from mlflow_l3d.studies.referee.numbers.session import Course
from mlflow_l3d.studies.referee.report import judgement_lines, session_document
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

    def summary(self) -> str:
        """Return the text that the command line prints: of a judgement lines for people, and the last one is JSON."""
        judgement = self.judgement
        return super().summary() if judgement is None else "\n".join(judgement_lines(self.course, judgement))


def session_of(conduct: Conduct) -> RefereeSession:
    """Return a session as it is now."""
    course, recorder, source = conduct.status(), conduct.recorder, conduct.source
    about = Source(run_id=course.run_id, address=runs_page(recorder.client, recorder.experiment_id))
    about = replace(about, date=heading(course.run_id)["date"][:10])
    if isinstance(source, GoldenSource):
        course = replace(course, luck_of_examples=source.luck_of_examples)
        task = str(source.baseline.task.get("name", ""))
        about = replace(about, task=task, approach=source.approach, given={"referee": course.run_id})
    return RefereeSession(course.run_id, course, about)


def publish(conduct: Conduct) -> None:
    """Write the report, the result and the numbers of a session as it is now to its run."""
    session, client = session_of(conduct), conduct.recorder.client
    course, report = session.course, session.report()
    numbers = {"judged": float(course.judged), "kept": float(len(course.path)), "runs_used": float(course.spent)}
    for last in course.path[-1:]:
        numbers |= {"gain": last.confirmed, "gain_ci_low": last.low, "gain_ci_high": last.high}
    log_metrics(client, session.run_id, {course.judged: numbers})
    with temporary_folder() as folder:
        save_result(folder, session)
        log_results(client, session.run_id, folder, {names.NOTE: report.description()}, ())

"""`import`: results of other tools become the children of one parent, which `evaluate` and `compare` read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.base import Study, entry_point, say
from mlflow_l3d.studies.files import temporary_folder, write_json
from mlflow_l3d.studies.importing.checking import checked, chosen, read_runs
from mlflow_l3d.studies.importing.formats import tool_of
from mlflow_l3d.studies.importing.imported import Import
from mlflow_l3d.studies.importing.parameters import IMPORT
from mlflow_l3d.studies.importing.recorded import ImportedRecord, pairs
from mlflow_l3d.studies.progress import shows_progress, under_way
from mlflow_l3d.studies.request import heading, version_words
from mlflow_l3d.studies.seeds.artifacts import write_scores
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.earlier.reader import fetch_document
from mlflow_l3d.tracking.opening import open_recorder
from mlflow_l3d.tracking.parent import current_experiment_id
from mlflow_l3d.tracking.recorder import RunRecorder, Work

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True, kw_only=True, repr=False)
class ImportedRuns(OnOneScreen):
    """What :func:`import_runs` wrote.

    Attributes
    ----------
    run_id
        The parent.
    study
        Scores, agreement, and which settings move the score.
    written, known
        How many runs are new, and how many were there before.
    problems
        One line for each file or run that is left out until it is mended.
    notes
        What else is to be known.
    """

    run_id: str
    study: SeedsStudy
    written: int
    known: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """Status of the command: 1 where something is left out."""
        return int(bool(self.problems))

    def summary(self) -> str:
        """Return the text that the command line prints."""
        from mlflow_l3d.studies.seeds.report.page import seeds_document

        left = len(self.problems)
        mend = f"{left} left out, see above: the same command after the fix writes only what is missing"
        lines = [
            f"{self.written} runs written, {self.known} there before{f'; {mend}' if left else ''}",
            f"MLflow run {self.run_id}; report.html is among its artifacts",
        ]
        title = f"Imported: {len(self.study.seeds)} runs, {self.study.task}"
        return seeds_document(self.study, title=title, lines=lines).to_text()


def import_runs(
    path: str | Path,
    *,
    from_: str = "auto",
    task: str = "auto",
    metric: str = "auto",
    task_kind: str = "auto",
    classes: str = "auto",
    only: str = "none",
    columns: str = "none",
    progress: bool | None = None,
) -> ImportedRuns:
    """Import results that exist: each run becomes a child of one parent, which is scored as a study of seeds is.

    Parameters
    ----------
    path
        A file, or a folder that is searched for files.
    from_
        The tool that wrote them: ``lm-eval``, ``inspect``, ``promptfoo``, ``csv`` or ``huggingface-trainer``; ``auto``
        recognises it by the files.
    task
        The task that is imported; several, separated by commas, are variants of one with the same examples.
    metric
        What runs are scored by; ``auto`` is the first that the tool has. Of Inspect also a scorer, or ``scorer.key`` of
        one whose scores are dictionaries.
    task_kind
        Of CSV files: what labels and predictions are; ``auto`` goes by them.
    classes
        Of CSV files: names of all classes, separated by ``|``; ``auto`` takes those of labels and predictions.
    only
        ``name=value`` pairs, separated by commas: only runs with these settings.
    columns
        Of CSV files: which column is what, as ``example_id=id,prediction=answer,settings=seed+shots``.
    progress
        Whether to say on stderr what is under way; None does in a notebook and on a terminal.

    Raises
    ------
    L3DError
        With one line that says what to change, where fewer than two runs can be imported. Where some cannot, the others
        are, and `problems` has a line for each.
    """
    shown = shows_progress(progress)
    given = {"path": str(path), "from_": from_, "task": task, "metric": metric, "only": only, "columns": columns}
    given |= {"task_kind": IMPORT["task_kind"].read(task_kind), "classes": classes}
    with entry_point() as project_run:
        with under_way("reading", shown=shown):
            asked = _read(Path(path), given)
        say(asked.remarks)
        found = _there(asked, connect())
        return found or _Importing(asked, progress=progress).run(project_run.take())


def _read(path: Path, given: Mapping[str, str]) -> Import:
    columns, only = ({} if given[name] == "none" else pairs(given[name]) for name in ("columns", "only"))
    given = {**given, "from_": tool_of(path, given["from_"])}
    read, problems = read_runs(path, given["from_"], columns, given["metric"])
    wanted = chosen(read, given["task"], only) if read else []
    runs, metric, broken, notes = checked(wanted, given["metric"], given["task_kind"], given["classes"])
    problems += broken
    if len(runs) < 2:
        if problems:
            raise L3DError(f"{problems[0]} ({len(problems)} such lines in all.)" if problems[1:] else problems[0])
        allowed = f"holds {len(runs)} run; luck shows in two or more"
        raise ParameterError("path", path, allowed, "Name a folder with more of them.")
    return Import(given=given, runs=runs, metric=metric, problems=tuple(problems), notes=tuple(notes))


def _there(asked: Import, client: MlflowClient) -> ImportedRuns | None:
    """Return the import of the very same runs, where it is complete already."""
    wanted = {names.INVESTIGATION_KEY: asked.key, names.STATE: "complete"}
    keys = {cell.key for cell in asked.cells}
    for parent in search(client, [current_experiment_id(client)], condition(wanted, "FINISHED")):
        document = fetch_document(client, parent.info.run_id, names.INVESTIGATION) or {}
        if {run["cell_key"] for run in document.get("runs", ())} == keys and not asked.problems:
            study, *_ = asked.study()
            run_id, number = str(parent.info.run_id), len(keys)
            return ImportedRuns(run_id=run_id, study=study, written=0, known=number, problems=(), notes=asked.notes)
    return None


class _Importing(Study[Import, ImportedRecord, ImportedRuns]):
    """One import under way."""

    def open(self, project_run: str | None) -> RunRecorder[ImportedRecord]:
        """Open the parent, and find the runs that are there already."""
        asked = self.request
        shared = {"task": asked.task, "approach": asked.given["from_"]}
        return open_recorder(
            Work(asked.card(), ImportedRecord, asked.context_key, shared, lambda: asked.cells), project_run
        )

    def how_far(self) -> str:
        """Return how many runs are written."""
        done = {*self.recorder.recovered.metrics, *self.recorder.spool}
        cells = self.request.cells
        return f"with {sum(cell.key in done for cell in cells)} of {len(cells)} runs written"

    def carry_out(self) -> ImportedRuns:
        """Write what is missing, and score all."""
        asked, recorder = self.request, self.recorder
        known = set(recorder.recovered.metrics)
        for cell, record, outcome in asked.records():
            if cell.key not in known:
                recorder.add(record, outcome)
        study, frame, predictions = asked.study()
        with temporary_folder() as folder, under_way("writing", shown=self.progress):
            recorder.wait()
            run_ids, seeds = recorder.run_ids(), [cell.seeds["seed"] for cell in asked.cells]
            cells = frame.assign(phase="golden", run_id=frame["cell_key"].map(run_ids), **{"seed.seed": seeds})
            cells = cells.drop(columns="seed")
            settings = {**heading(recorder.parent.run_id), "task": asked.task, "from": asked.given["from_"]}
            settings |= {**asked.shared, "versions": version_words()}
            description = write_scores(
                folder, study, cells, predictions, title=asked.title, notes=asked.remarks, settings=settings
            )
            write_json(folder / names.INVESTIGATION, asked.document(), indent=2)
            left_out = float(len(asked.problems))
            recorder.log_metrics({**study.metrics(), "cells_failed": left_out}, len(study.seeds))
            recorder.finish(folder, complete=not asked.problems, description=description)
        return ImportedRuns(
            run_id=recorder.parent.run_id,
            study=study,
            written=len(asked.cells) - len(known),
            known=len(known),
            problems=asked.problems,
            notes=asked.notes,
        )

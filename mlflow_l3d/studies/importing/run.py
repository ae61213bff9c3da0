"""Results of other tools become tables of one parent run, which `evaluate` and `compare` read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters.values import pairs
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import About, heading, version_words
from mlflow_l3d.studies.base import ProjectRun, Study, origin, say
from mlflow_l3d.studies.files import read_result, temporary_folder, write_result
from mlflow_l3d.studies.groups.numbers import GroupsStudy
from mlflow_l3d.studies.groups.report import groups_document, groups_frame
from mlflow_l3d.studies.importing.checking import checked, chosen, read_runs
from mlflow_l3d.studies.importing.formats import tool_of
from mlflow_l3d.studies.importing.imported import Import, grouped_runs, write_study
from mlflow_l3d.studies.investigation.evaluate import rewritten
from mlflow_l3d.studies.seeds.numbers import SeedsStudy
from mlflow_l3d.studies.seeds.report import seed_frame, seeds_document
from mlflow_l3d.studies.seeds.results import finishing, read_parent, recorded_study
from mlflow_l3d.studies.shown import OnOneScreen, built_once, shows_progress, under_way
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.earlier.reader import fetch_document, known_document
from mlflow_l3d.tracking.opening import open_recorder
from mlflow_l3d.tracking.parent import current_experiment_id, log_metrics
from mlflow_l3d.tracking.recorder import RunRecorder, Work
from mlflow_l3d.tracking.records import CellRecord


@dataclass(frozen=True, kw_only=True, repr=False)
class FilesEvaluation(OnOneScreen):
    """The results of another tool, now runs, that were evaluated.

    Attributes
    ----------
    run_id
        The parent run.
    study
        Scores and agreement; of runs with several settings, or with seeds in common, their groups.
    examples
        The examples on which runs of the best group differ most; None if there are none, or no groups.
    written, skipped
        Number of new runs, and of runs that the parent run already had.
    problems
        One line for each file or run that is left out until it is corrected.
    notes
        Further remarks.
    about, runs
        What its report says in addition to the numbers, and the run of each seed.
    """

    run_id: str
    about: About
    study: SeedsStudy | GroupsStudy
    runs: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    examples: pd.DataFrame | None = None
    written: int = 0
    skipped: int = 0

    @property
    def exit_status(self) -> int:
        """Status of the command: 1 if a file or run is left out."""
        return int(bool(self.problems))

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per run, or per group of runs, in the units of the report; `full` returns all."""
        if isinstance(self.study, GroupsStudy):
            return groups_frame(self.study, full=full)
        return seed_frame(self.study, full=full)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        left_out = len(self.problems)
        there = f"{counted(self.written, 'run')} written, {self.skipped} there before"
        advice = (
            f"; {left_out} left out, see above: the same command after the fix writes only these" if left_out else ""
        )
        lines = [f"{there}{advice}", *self.about.source.lines]
        if isinstance(self.study, GroupsStudy):
            counts = dict.fromkeys(("found", "used"), len(self.study.runs))
            return groups_document(self.study, counts, self.examples, **vars(self.about), lines=lines)
        return seeds_document(self.study, **vars(self.about), lines=lines)  # they have no pages in MLflow


def evaluate_files(
    path: Path, arguments: Mapping[str, str], *, project_run: ProjectRun, progress: bool | None = None
) -> FilesEvaluation:
    """Write the runs of some files to one parent run, and score them: a seeds study, or groups of runs.

    Parameters
    ----------
    path
        A file, or a folder that is searched for files.
    arguments
        The options of files, as they would be typed.
    project_run
        The run that `mlflow run` made, if there is one; it becomes the parent.
    progress
        Whether to report progress on stderr; None reports it in a notebook and on a terminal.

    Raises
    ------
    L3DError
        If fewer than two runs can be read; its one line names the fix. If only some cannot be read, the others are, and
        `problems` of the result has a line for each.
    """
    with under_way("reading", shown=shows_progress(progress)):
        request = _read(path, {"source": str(path), **arguments})
    say(request.remarks)
    finished, earlier = _earlier(request, connect())
    done = finished or _Importing(request, progress=progress).run(project_run.take())
    return replace(done, written=len(done.runs) - earlier, skipped=earlier)


def _read(path: Path, arguments: Mapping[str, str]) -> Import:
    columns, only = ({} if arguments[name] == "none" else pairs(arguments[name]) for name in ("columns", "only"))
    typed_tool = arguments["from_"]
    arguments = {**arguments, "from_": tool_of(path, arguments["from_"])}
    recorded, problems = read_runs(path, arguments["from_"], columns, arguments["metric"])
    requested = chosen(recorded, arguments["task"], only) if recorded else []
    runs, metric, defects, notes = checked(requested, arguments["metric"], arguments["task_kind"], arguments["classes"])
    problems += defects
    if len(runs) < 2:
        if problems:
            raise L3DError(f"{problems[0]} ({len(problems)} such lines in all.)" if problems[1:] else problems[0])
        allowed = f"holds {len(runs)} run, and at least two are needed to measure luck"
        raise ParameterError("source", path, allowed, "Name a folder with more runs.")
    about = {"problems": tuple(problems), "notes": tuple(notes)}
    return Import(arguments=arguments, runs=runs, metric=metric, **about, typed_tool=typed_tool)


def _earlier(request: Import, client: Client) -> tuple[FilesEvaluation | None, int]:
    """Return the complete import of the same runs, None if there is none, and how many runs were imported before."""
    keys, written = {cell.key for cell in request.cells}, set()
    for parent in search(client, [current_experiment_id(client)], condition({names.INVESTIGATION_KEY: request.key})):
        document = fetch_document(client, parent.info.run_id, names.INVESTIGATION) or {}
        recorded = {run["cell_key"] for run in document.get("runs", ())}
        is_same = recorded == keys and not request.problems and parent.data.tags.get(names.STATE) == "complete"
        if is_same and (result := read_result(client, parent.info.run_id)) is not None:
            return result, len(keys)
        written |= recorded & keys
    return None, len(written)


class _Importing(Study[Import, CellRecord, FilesEvaluation]):
    """One import under way."""

    def open(self, project_run: str | None) -> RunRecorder[CellRecord]:
        """Open the parent run, which holds its cells itself."""
        request = self.request
        return open_recorder(Work(request.card(), CellRecord, request.context_key, {}, tuple), project_run)

    def how_far(self) -> str:
        """Return nothing: the runs are written all at once."""
        return ""

    def carry_out(self) -> FilesEvaluation:
        """Score and write all runs."""
        request, recorder, run_id = self.request, self.recorder, self.recorder.parent.run_id
        with under_way("writing", shown=self.progress):
            document = request.document()
            cells, predictions = request.tables(run_id)
            study: SeedsStudy | GroupsStudy
            examples, remarks, task, options = None, request.remarks, request.task, {}
            if request.grouped[1]:
                study, examples, more = grouped_runs(document, cells, predictions, request.metric)
                remarks = (*remarks, *more)
                task = document["parameters"]["source"]
                options = request.given
            else:
                study = recorded_study(document, cells, predictions, request.metric)
            source = origin(recorder.client, recorder.parent.experiment_id, run_id)
            source = replace(source, task=task, given=options, classes=request.runs[0].classes)
            settings = {**heading(run_id), "task": request.task, "from": request.arguments["from_"], **request.shared}
            about = About(request.title, source, remarks, settings | {"versions": version_words()})
            result = FilesEvaluation(
                run_id=run_id,
                about=about,
                study=study,
                runs=tuple(cells["run_id"]),
                written=len(cells),
                problems=request.problems,
                notes=request.notes,
                examples=examples,
            )
            with finishing(recorder, result, document, failed=len(request.problems)) as folder:
                write_study(folder, study, cells, predictions, result.report())
        return result


def evaluate_imported(run_id: str, *, metric: str = "auto", log: bool = True) -> FilesEvaluation | None:
    """Score runs of files again; None if they have no groups, so that they are a seeds study.

    Parameters
    ----------
    run_id
        The parent run.
    metric
        The score; ``auto`` is the parent run's.
    log
        Whether to replace its metrics, tables and report.
    """
    client = connect()
    document = known_document(client, run_id, names.INVESTIGATION)
    if not document.get("groups"):
        return None
    read = read_parent(client, run_id)
    typed = document["parameters"]["metric"] if metric == "auto" else metric
    chosen = named(document["metric"] if typed == "auto" else typed)
    if chosen.name not in read.done:
        raise unknown_name("metric", chosen.name, document["metrics"], "one that the runs have:")
    study, examples, notes = grouped_runs(document, read.done, read.predictions, chosen)
    written = read_result(client, run_id)
    if not isinstance(written, FilesEvaluation):
        raise ParameterError("source", run_id, "was not finished, or by another version", "Evaluate its files again.")
    about, runs = rewritten(written.about, chosen), tuple(read.done["run_id"])
    result = replace(written, about=about, study=study, runs=runs, notes=tuple(notes), examples=examples)
    result = replace(result, written=0, skipped=len(runs))
    if log:
        with temporary_folder() as folder:
            write_study(folder, study, read.cells, read.predictions, result.report())
            write_result(folder, result)
            log_metrics(client, run_id, {len(runs): study.metrics()})
            client.log_artifacts(run_id, str(folder))
    return result

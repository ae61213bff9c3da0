"""`evaluate_groups`: what the runs of an experiment say about luck, whoever logged them, and its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.parameters.values import pairs
from mlflow_l3d.report.html import MOST_EXAMPLES
from mlflow_l3d.report.numbers import counted, unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import About, Source, heading
from mlflow_l3d.studies.files import save_report, write_result, write_tables
from mlflow_l3d.studies.groups.numbers import GroupsStudy, groups_study
from mlflow_l3d.studies.groups.numbers.grouping import chosen_runs, group_runs
from mlflow_l3d.studies.groups.reading import matched_predictions, read_scores
from mlflow_l3d.studies.groups.report import groups_document, groups_frame
from mlflow_l3d.studies.seeds.numbers.compared import Kind, compare_seeds
from mlflow_l3d.studies.shown import OnOneScreen, built_once, shows_progress, under_way
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.existing import read_runs
from mlflow_l3d.tracking.pages import runs_page
from mlflow_l3d.tracking.parent import set_tags

SHARES: Final = ("robust_share", "fragile_share", "never_right_share")


@dataclass(frozen=True, repr=False)
class GroupsEvaluation(OnOneScreen):
    """The groups of existing runs that were evaluated.

    Attributes
    ----------
    run_id
        The run with the result; the empty text if nothing was logged.
    study
        Groups, pairs and settings in numbers, in the unit of the metric.
    counts
        What became of the runs: ``found``, ``used``, ``failed``, ``running``, ``without a score``, and so on.
    examples
        The examples on which runs of the best group differ most, by their ids; None if there are none.
    about
        Title, origin and notes.
    """

    run_id: str
    study: GroupsStudy
    counts: Mapping[str, int]
    examples: pd.DataFrame | None
    about: About

    @property
    def groups(self) -> pd.DataFrame:
        """One row per group, best mean first; see :class:`~mlflow_l3d.studies.groups.numbers.GroupsStudy`."""
        return self.study.groups

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per group in the units of the report; `full` returns all, in the unit of the metric."""
        return groups_frame(self.study, full=full)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        return groups_document(self.study, self.counts, self.examples, **vars(self.about))


def evaluate_groups(
    source: str | Sequence[str],
    *,
    group_by: str = "auto",
    seed: str = "auto",
    only: str = "none",
    metric: str = "auto",
    step: str = "last",
    tag: bool = False,
    project_run: str | None = None,
    log: bool = True,
    progress: bool | None = None,
) -> GroupsEvaluation:
    """Group runs that differ by seeds alone, and return how much of the differences between groups is luck.

    Parameters
    ----------
    source
        ``experiment:NAME`` or ``experiment:ID``; an MLflow filter, which is searched in the current experiment; or run
        ids.
    group_by
        What distinguishes groups, as in ``params.learning_rate,tags.model``; ``auto`` takes all parameters that vary,
        except seeds and names of runs, folders and times.
    seed
        Which of them are seeds, as in ``params.random_state``; ``auto`` takes those with the name of one.
    only
        Values that runs must have, as ``model=a,params.shots=4``; ``none`` takes all runs.
    metric
        The score; ``auto`` is the metric of all finished runs that sounds most like a score on test data. ``:lower`` or
        ``:higher`` behind the name says which values are better.
    step
        ``last``, ``best``, or the number of a step.
    tag
        Whether to write what a difference may be by luck to the runs, as tags that begin with ``l3d.``.
    project_run
        The run that `mlflow run` opened, for the result.
    log
        Whether to write the result to a run of its own.
    progress
        Whether to report progress on stderr; None reports it in a notebook and on a terminal.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow
    >>> _ = mlflow.set_experiment("tuning")
    >>> for learning_rate, seed in [(0.1, 1), (0.1, 2), (0.1, 3), (0.01, 1), (0.01, 2), (0.01, 3)]:
    ...     with mlflow.start_run():
    ...         _ = mlflow.log_params({"learning_rate": learning_rate, "seed": seed})
    ...         mlflow.log_metric("test_accuracy", 0.7 + learning_rate + 0.01 * seed)
    >>> evaluate_groups("experiment:tuning").groups[["group", "runs", "mean", "std"]].round(3)
                    group  runs  mean   std
    0   learning_rate=0.1     3  0.82  0.01
    1  learning_rate=0.01     3  0.73  0.01
    """
    if tag and not log:
        raise ParameterError("tag", "true", "writes to the runs, and log is false", "Leave one out.")
    client = connect()
    typed = {"source": source if isinstance(source, str) else ",".join(source), "group_by": group_by, "seed": seed}
    typed |= {"only": only, "metric": metric, "step": str(step)}
    with under_way("reading and comparing the runs", shown=shows_progress(progress)):
        runs = read_runs(client, source)
        if only != "none":
            is_chosen = chosen_runs(runs.params, pairs(only))
            runs = replace(runs, frame=runs.frame.assign(status=runs.frame["status"].where(is_chosen, "PARENT")))
        scored = read_scores(client, runs, metric, str(step))
        frame, params = (each[scored.used].reset_index(drop=True) for each in (runs.frame, runs.params))
        grouping = group_runs(params, frame["name"], group_by=group_by, seed=seed)
        study = groups_study(frame["run_id"], scored.scores, grouping, scored.metric)
        grouped = frame[~study.runs["repeated"]].groupby(study.runs["group"])
        members = {name: grouped.get_group(name) for name in study.several["group"].head(5)}
        remarks: list[str] = []
        study, examples = with_agreement(study, matched_predictions(client, members, remarks), remarks)
    title = f"luck in {typed['source'].removeprefix('experiment:')}"
    options = {name: text for name, text in typed.items() if text not in ("auto", "last", "none")}
    options |= {"tag": "true"} if tag else {}
    origin = Source(task=typed["source"], address=runs_page(client, runs.experiment_id), given=options)
    about = About(title=title, source=origin, notes=(*scored.notes, *remarks), settings=typed)
    result = GroupsEvaluation("", study, scored.counts, examples, about)
    if not log:
        return result
    at: dict[str, Any] = {"parameters": typed, "experiment_id": runs.experiment_id}
    with auxiliary_run(client, project_run, role="groups", title=title, **at) as run:
        origin = replace(origin, run_id=run.run_id, date=heading(run.run_id)["date"][:10])
        result = replace(result, run_id=run.run_id, about=replace(about, source=origin))
        report = result.report()
        tables = write_groups(run.folder, study, report)
        write_result(run.folder, result)
        run.finish(metrics=study.metrics(), tags={names.NOTE: report.description(*report.notes)}, tables=tables)
        if tag:
            _tag(client, study)
    return result


def with_agreement(
    study: GroupsStudy, groups: Iterable[tuple[str, Kind, pd.DataFrame]], notes: list[str], metric: Metric | None = None
) -> tuple[GroupsStudy, pd.DataFrame | None]:
    """Return a study with how predictions agree in each group, and the examples on which runs of the best differ most.

    Parameters
    ----------
    study
        The groups, which get columns.
    groups
        Best first: a name, the kind of its task, and one row per prediction with the ``seed`` of its run.
    notes
        Which predictions are not compared, and which runs collapsed, are added.
    metric
        Compares answers that are neither classes nor numbers.

    Returns
    -------
    tuple
        The study, whose groups have ``compared`` runs, ``examples``, ``consistency`` with its interval, and shares of
        robust, fragile and never right examples, or of numbers the ``absolute_difference`` of two runs with its
        interval; and rows of the frame of
        :class:`~mlflow_l3d.analysis.consistency.examples.ExampleVotes`, None if there are none.
    """
    rows, fragile = [], None
    for name, kind, answers in groups:
        seeds = tuple(answers["seed"].unique().tolist())
        if len(seeds) < 2:
            continue
        compared = compare_seeds(answers, seeds, kind, None, metric)
        if len(compared.ids) < FEWEST_EXAMPLES:
            notes.append(f"Predictions of {name} are not compared: there are fewer than {FEWEST_EXAMPLES}.")
            continue
        counts = {"compared": len(seeds), "examples": len(compared.ids)}
        rows.append({"group": name, **counts, **compared.agreement().metrics()})
        if still := len(compared.constant()):
            notes.append(f"{counted(still, 'run')} of {name} with one answer for every example: collapsed (L3D005).")
        if fragile is None and (votes := compared.votes()) is not None:
            fragile = votes.most_fragile(MOST_EXAMPLES)
    measures = *with_interval("consistency"), *SHARES, *with_interval("absolute_difference")
    columns = ["group", "compared", "examples", *measures]
    agreement = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:], float))
    return replace(study, groups=study.groups.merge(agreement, on="group", how="left")), fragile


def write_groups(folder: Path, study: GroupsStudy, report: Document) -> list[str]:
    """Write the tables and the report of groups; return the names of the tables."""
    save_report(folder, names.REPORT, report)
    frames = {"groups": study.groups, "pairs": study.pairs, "settings": study.settings.frame, "runs": study.runs}
    return write_tables(folder, {f"{name}.json": frame for name, frame in frames.items()})


def _tag(client: Client, study: GroupsStudy) -> None:
    """Write the group, its spread, and what a difference may be by luck to the runs of groups whose luck is known."""
    shown = unit_of(study.metric)
    for row in study.several.dropna(subset="luck").to_dict("records"):
        tags = {names.GROUP: row["group"], names.GROUP_RUNS: str(row["runs"]), names.GROUP_STD: f"{row['std']:.6g}"}
        tags[names.LUCK] = f"{study.metric}: a difference of two runs below {shown.amount(row['luck'])} may be luck"
        for run_id in study.runs.loc[study.runs["group"].eq(row["group"]), "run_id"]:
            set_tags(client, run_id, tags)

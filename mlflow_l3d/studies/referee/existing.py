"""Runs that exist already as a candidate: a group of runs of other code, a study, or evaluations, each one run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import pandas as pd

from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.parameters.sources import RUN_ID
from mlflow_l3d.report.numbers import counted, shorten
from mlflow_l3d.studies.evaluation.run import Kind, find_results
from mlflow_l3d.studies.gate.request import check_comparable
from mlflow_l3d.studies.gate.sides import Side
from mlflow_l3d.studies.groups.numbers import groups_study
from mlflow_l3d.studies.groups.numbers.grouping import group_runs
from mlflow_l3d.studies.groups.reading import read_scores
from mlflow_l3d.studies.judged.run import read_system
from mlflow_l3d.studies.referee.golden import GoldenSource
from mlflow_l3d.studies.referee.numbers import UNPAIRED
from mlflow_l3d.studies.referee.source import Candidate, FunctionSource, check_unit
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import runs_named
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.reader import known_document, read_investigation
from mlflow_l3d.tracking.existing import EXPERIMENT, read_runs

RunSource: TypeAlias = FunctionSource | GoldenSource
"""What runs the baseline and the candidates of a session."""
_FILTER: Final = re.compile(r"(params?|parameters?|tags?|metrics?|attributes?|attr|run)\.")


def existing_runs(
    candidate: object, source: RunSource, client: Client, baseline: Mapping[int, float]
) -> Candidate | None:
    """Return a candidate of runs that exist, oldest first; None if it is something else.

    Parameters
    ----------
    candidate
        ``{"runs": SOURCE}``, with a source as of ``mlflow-l3d evaluate``; in a session of golden runs also the source
        alone. An investigation that is named alone is left to the session, whose seeds it may share.
    source
        Of the session.
    client
        The tracking server.
    baseline
        Scores of the baseline.

    Raises
    ------
    ParameterError
        If these are not runs of one system that have the metric of the session, in the unit of the baseline.
    """
    metric, is_golden = source.metric, isinstance(source, GoldenSource)
    typed = candidate.get("runs") if isinstance(candidate, Mapping) and len(candidate) == 1 else candidate
    named = ",".join(map(str, typed)) if isinstance(typed, list | tuple) else typed
    if not isinstance(named, str) or (typed is candidate and not (is_golden and _names_runs(named))):
        return None
    try:
        kind, parts = find_results(named)
        if kind is Kind.INVESTIGATION and typed is candidate:
            return None
        if source.has_fresh_half:
            wrong = "cannot be scored on halves of the test examples, and the session has fresh_half=true"
            raise ParameterError("candidate", named, wrong, "Start a session without it.")
        if kind is Kind.RUNS:
            runs, notes = _runs_of_group(client, parts if parts[1:] else parts[0], metric)
        elif kind is Kind.EVALUATION:
            runs, notes = _evaluations(client, parts, metric)
        elif kind in (Kind.SEEDS, Kind.INVESTIGATION) and len(parts) == 1:
            runs, notes = _runs_of_study(client, parts[0], source), []
        else:
            raise ParameterError("candidate", shorten(named, 60), f"is {kind}, and must be one group of runs")
    except ParameterError as error:
        name = "candidate" if error.name in ("candidate", "source", "run_id") else f"candidate: {error.name}"
        raise ParameterError(name, error.value, error.allowed, error.fix) from error
    is_finished = runs["status"].eq("FINISHED")
    scores = runs["score"][is_finished].dropna().astype(float)
    if scores.empty:
        raise ParameterError("candidate", shorten(named, 60), f"has no finished run with {metric.name}")
    check_unit(named, dict(enumerate(scores)), metric, baseline)
    if left_out := [f"{run.name} ({run.status})" for run in runs[~is_finished].itertuples(index=False)]:
        more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        notes = [
            f"{counted(len(left_out), 'run')} not finished, and left out: {', '.join(left_out[:5])}{more}.",
            *notes,
        ]
    return Candidate(named, {"runs": ",".join(parts)}, candidate, dict(enumerate(scores)), (UNPAIRED, *notes))


def _names_runs(text: str) -> bool:
    """Return whether a text names runs, and not changes."""
    parts = [part.strip() for part in text.split(",")]
    return text.startswith(EXPERIMENT) or bool(_FILTER.match(text.strip())) or all(map(RUN_ID.fullmatch, parts))


def _runs_of_group(client: Client, named: str | Sequence[str], metric: Metric) -> tuple[pd.DataFrame, list[str]]:
    """Return name, status and score of runs of other code that differ by seeds alone, and notes."""
    runs = read_runs(client, named)
    scored = read_scores(client, runs, metric.name, "last", fewest=1)
    used, params = (each[scored.used].reset_index(drop=True) for each in (runs.frame, runs.params))
    grouping = group_runs(params, used["name"])
    if len(grouping.names) > 1:
        wrong = f"has {len(grouping.names)} groups ({'; '.join(grouping.names[:5])}), and a candidate is one"
        raise ParameterError("candidate", named, wrong, "Name one by a filter, as in \"params.model = 'a'\".")
    scores = scored.scores if metric.percent else runs.metrics[metric.name][scored.used].to_numpy()
    study = groups_study(used["run_id"], scores, grouping, metric)
    repeated = grouping.seed_values[[*study.averaged]].apply(pd.Series.duplicated).any(axis=1).to_numpy()
    if grouping.fixed_seeds and not grouping.seeds:
        repeated = np.arange(len(scores)) > 0
    notes = [*scored.notes]
    if repeated.any():
        notes.append(f"Left out: {counted(int(repeated.sum()), 'run')} with the seed of another.")
    if study.hidden:
        notes.append(f"Within the group the score depends on {', '.join(study.hidden)}.")
    frame = runs.frame.assign(score=np.nan)
    frame.loc[scored.used, "score"] = np.where(repeated, np.nan, scores)
    return frame[frame["role"].eq("") & frame["status"].ne("PARENT")], notes


def _evaluations(client: Client, run_ids: Sequence[str], metric: Metric) -> tuple[pd.DataFrame, list[str]]:
    """Return name, status and score of evaluations of one app, which are runs whatever their rows, and notes."""
    frame = pd.DataFrame([(run.info.run_id, run.info.status) for run in runs_named(client, run_ids)])
    frame = frame.set_axis(["name", "status"], axis=1)
    judged = read_system(client, [*frame["name"][frame["status"].eq("FINISHED")]] or run_ids)
    if metric.name not in judged.scorers:
        raise unknown_name("metric", metric.name, judged.scorers, "a scorer of the evaluation:")
    if sum(run.answers["answer"].nunique() for run in judged.runs) > judged.table["answer"].nunique():
        wrong = "judge the same answers, which is one run of a system"
        raise ParameterError("candidate", ",".join(run_ids), wrong, "Name one of them, or evaluate again.")
    counts = judged.of(metric.name)[lambda table: table["failed"].eq("")]
    return frame.assign(score=frame["name"].map(counts.groupby("run_id")["value"].mean())), [*judged.notes]


def _runs_of_study(client: Client, run_id: str, source: RunSource) -> pd.DataFrame:
    """Return name, status and score of the seeds of a study, or of the golden runs of an investigation."""
    cells = read_investigation(run_id, client, parameter="candidate").cells
    document = known_document(client, run_id, names.INVESTIGATION)
    metric = source.metric.name
    if isinstance(source, GoldenSource):
        task = document.get("task") or {}
        check_comparable(source.baseline, Side("candidate", run_id, {"run": run_id}, run_id, task=task))
    if document.get("repeats") or document.get("groups", document.get("by_settings")):
        wrong = "repeats one seed" if document.get("repeats") else "has runs of several settings"
        raise ParameterError("candidate", run_id, f"{wrong}, and must be runs of one system with different seeds")
    cells = cells[cells["phase"].eq("base" if cells["phase"].eq("base").any() else "golden")]
    if metric not in cells:
        raise unknown_name("metric", metric, document.get("metrics", ()), "a metric of the study:")
    return cells.assign(name=cells["run_id"], score=cells[metric])

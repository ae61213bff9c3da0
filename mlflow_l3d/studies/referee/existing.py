"""Runs that exist already as a candidate: a group of runs of other code, a study, or evaluations, each one run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import is_share
from mlflow_l3d.parameters.sources import RUN_ID
from mlflow_l3d.report.numbers import counted, shorten
from mlflow_l3d.studies.evaluation.source import Kind, find_results
from mlflow_l3d.studies.gate.sides import Side, check_comparable
from mlflow_l3d.studies.groups.numbers.grouping import group_runs
from mlflow_l3d.studies.groups.numbers.study import groups_study
from mlflow_l3d.studies.groups.scores import read_scores
from mlflow_l3d.studies.judged.run import read_system
from mlflow_l3d.studies.referee.golden import GoldenSource
from mlflow_l3d.studies.referee.source import Candidate, Source
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import runs_named
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.reader import known_document, read_investigation
from mlflow_l3d.tracking.existing import EXPERIMENT, read_runs

UNPAIRED: Final = "Unpaired: these runs share no seeds with the baseline."
_LONGEST: Final = 5900
_FILTER: Final = re.compile(r"(params?|parameters?|tags?|metrics?|attributes?|attr|run)\.")
_IN_PERCENT: Final = 1.5


def existing_runs(candidate: object, source: Source, client: Client) -> Candidate | None:
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

    Raises
    ------
    ParameterError
        If these are not runs of one system that have the metric of the session.
    """
    is_golden = isinstance(source, GoldenSource)
    typed = candidate.get("runs") if isinstance(candidate, Mapping) and len(candidate) == 1 else candidate
    named = ",".join(map(str, typed)) if isinstance(typed, list | tuple) else typed
    if not isinstance(named, str) or not (typed is not candidate or (is_golden and _is_source(named))):
        return None
    try:
        kind, parts = find_results(named)
        if kind is Kind.INVESTIGATION and typed is candidate:
            return None
        content = {"runs": ",".join(parts)}
        if source.has_fresh_half or len(content["runs"]) > _LONGEST:
            wrong = "cannot be scored on halves of the test examples, and the session has fresh_half=true"
            wrong = wrong if source.has_fresh_half else "is too long to be recorded"
            raise ParameterError("candidate", shorten(named, 60), wrong, "Start another session, or name a filter.")
        if kind is Kind.RUNS:
            scores, notes = _scores_of_group(client, parts if parts[1:] else parts[0], source.metric)
        elif kind is Kind.EVALUATION:
            scores, notes = _scores_of_evaluations(client, parts, source.metric)
        elif kind in (Kind.SEEDS, Kind.INVESTIGATION) and len(parts) == 1:
            scores, notes = _scores_of_study(client, parts[0], source)
        else:
            raise ParameterError("candidate", named, f"is {kind}, and must be one group of runs", "Name one study.")
    except ParameterError as error:
        name = "candidate" if error.name in ("source", "run_id") else f"candidate: {error.name}"
        raise ParameterError(name.removesuffix(": candidate"), error.value, error.allowed, error.fix) from error
    low, high = source.metric.range
    if not scores or not (low - 1e-9 <= min(scores) <= max(scores) <= high + 1e-9):
        wrong = f"has scores from {min(scores):g} to {max(scores):g}" if scores else "has no finished run with a score"
        fix = f"{source.metric.name} lies between {low:g} and {high:g}."
        raise ParameterError("candidate", shorten(named, 60), wrong, fix)
    return Candidate(named, content, candidate, dict(enumerate(scores)), (UNPAIRED, *notes))


def check_unit(candidate: Candidate, metric: Metric, baseline: Mapping[int, float]) -> None:
    """Raise ParameterError if of a candidate and the baseline one has fractions, and the other one per cent."""
    sizes = [np.nanmax(np.abs([*scores.values()])) for scores in (candidate.measured or {}, baseline)]
    if (metric.percent or is_share(metric.name)) and (sizes[0] > _IN_PERCENT) != (sizes[1] > _IN_PERCENT):
        wrong = f"has another unit than the baseline: {metric.name} is up to {sizes[0]:g} and {sizes[1]:g}"
        raise ParameterError("candidate", candidate.title[:60], wrong, "Log fractions in both, or per cent.")


def _is_source(text: str) -> bool:
    """Return whether a text names runs, and not changes."""
    parts = [part.strip() for part in text.split(",")]
    return text.startswith(EXPERIMENT) or bool(_FILTER.match(text.strip())) or all(map(RUN_ID.fullmatch, parts))


def _scores_of_group(client: Client, named: str | Sequence[str], metric: Metric) -> tuple[list[float], list[str]]:
    runs = read_runs(client, named)
    scored = read_scores(client, runs, metric.name, "last", fewest=1)
    frame, params = (each[scored.used].reset_index(drop=True) for each in (runs.frame, runs.params))
    grouping = group_runs(params, frame["name"])
    if len(grouping.names) > 1:
        wrong = f"has {len(grouping.names)} groups ({'; '.join(grouping.names[:5])}), and a candidate is one"
        raise ParameterError("candidate", named, wrong, "Name one by a filter, as in \"params.model = 'a'\".")
    scores = scored.scores if metric.percent else runs.metrics[metric.name][scored.used].to_numpy()
    study = groups_study(frame["run_id"], scores, grouping, metric)
    repeated = grouping.seed_values[[*study.averaged]].apply(pd.Series.duplicated).any(axis=1).to_numpy()
    if grouping.fixed_seeds and not grouping.seeds:
        repeated = np.arange(len(scores)) > 0
    others = runs.frame[runs.frame["role"].eq("") & ~runs.frame["status"].isin(["FINISHED", "PARENT"])]
    notes = [*_left_out(others["name"], others["status"]), *scored.notes]
    notes += [f"Left out: {counted(int(repeated.sum()), 'run')} with the seed of another."] * bool(repeated.any())
    notes += [f"Within the group the score depends on {', '.join(study.hidden)}."] * bool(study.hidden)
    return scores[~repeated].tolist(), notes


def _scores_of_evaluations(client: Client, run_ids: Sequence[str], metric: Metric) -> tuple[list[float], list[str]]:
    ended = {str(run.info.run_id): run for run in runs_named(client, run_ids)}
    others = pd.DataFrame([(run_id, run.info.status) for run_id, run in ended.items()], columns=["name", "status"])
    others = others[others["status"].ne("FINISHED")]
    if not (finished := [run_id for run_id in ended if run_id not in {*others["name"]}]):
        return [], []
    judged = read_system(client, finished)
    if metric.name not in judged.scorers:
        raise unknown_name("metric", metric.name, judged.scorers, "a scorer of the evaluation:")
    if sum(run.answers["answer"].nunique() for run in judged.runs) > judged.table["answer"].nunique():
        wrong = "judge the same answers, which is one run of a system"
        raise ParameterError("candidate", ",".join(run_ids), wrong, "Name one of them, or evaluate again.")
    table = judged.of(metric.name)
    means = table[table["failed"].eq("")].groupby("run_id")["value"].mean().reindex(finished).dropna()
    return means.tolist(), [*_left_out(others["name"], others["status"]), *judged.notes]


def _scores_of_study(client: Client, run_id: str, source: Source) -> tuple[list[float], list[str]]:
    cells = read_investigation(run_id, client, parameter="candidate").cells
    document, metric = known_document(client, run_id, names.INVESTIGATION), source.metric.name
    if isinstance(source, GoldenSource):
        check_comparable(source.baseline, Side("candidate", run_id, {"run": run_id}, run_id, task=document.get("task")))
    if document.get("repeats") or document.get("by_settings"):
        wrong = "repeats one seed" if document.get("repeats") else "has runs of several settings"
        raise ParameterError("candidate", run_id, f"{wrong}, and must be runs of one system with different seeds")
    cells = cells[cells["phase"].eq("base" if cells["phase"].eq("base").any() else "golden")]
    finished = cells[cells["status"].eq("FINISHED")]
    if metric not in finished:
        known: list[Any] = [name for name in document.get("metrics", ()) if name in finished]
        raise unknown_name("metric", metric, known, "a metric of the study:")
    others = cells[cells["status"].ne("FINISHED")]
    return finished[metric].astype(float).dropna().tolist(), _left_out(others["run_id"], others["status"])


def _left_out(names_of_runs: Iterable[str], states: Iterable[str]) -> list[str]:
    """Return the sentence that names the runs that do not count, if there are any."""
    shown = [f"{name} ({state})" for name, state in zip(names_of_runs, states, strict=True)]
    more = f" and {len(shown) - 5} more" * (len(shown) > 5)
    return [f"{counted(len(shown), 'run')} not finished, and left out: {', '.join(shown[:5])}{more}."] if shown else []

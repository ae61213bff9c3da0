"""What the `source` of `evaluate` names: files, parent runs of cells, an evaluation, or other runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, runs_named, whole_id
from mlflow_l3d.tracking.connection import Client, Run, connect
from mlflow_l3d.tracking.earlier.evaluations import is_evaluation
from mlflow_l3d.tracking.earlier.past import latest_investigation
from mlflow_l3d.tracking.earlier.reader import parent_run

_OPERATOR: Final = re.compile(r"[=<>]|\si?like\s|\sin\s*\(|\sis\s+(not\s+)?null", re.IGNORECASE)
_SOURCES: Final = (
    "a run id (32 letters and digits) or latest, several run ids separated by commas, an experiment "
    "(experiment:{example}), a filter (\"params.model = 'a'\"), or files of another tool (results.csv)"
)


class Kind(StrEnum):
    """What a source is, as errors name it."""

    FILES = "files of other tools"
    RUNS = "runs of other code"
    EVALUATION = "an evaluation of MLflow"
    INVESTIGATION = "an investigation"
    SEEDS = "a seeds study"
    SWEEP = "a sweep"


def find_results(source: object, *, finds_cells: bool = False) -> tuple[Kind, list[str]]:
    """Return the kind of results that a source names, and its run ids, or else its one path, experiment or filter.

    Parameters
    ----------
    source
        A text, a path, or a list of run ids.
    finds_cells
        Whether a filter finds the cells of a run, so that it needs no children.

    Raises
    ------
    ParameterError
        If it names nothing that can be scored, or runs of several kinds.
    """
    text = ",".join(map(str, source)) if isinstance(source, list | tuple) else source
    if isinstance(text, os.PathLike):
        return Kind.FILES, [str(text)]
    if not isinstance(text, str):
        raise ParameterError("source", type(source).__name__, f"must be {_SOURCES.format(example='NAME')}")
    parts = [part.strip() for part in text.split(",")]
    if os.path.exists(text):  # noqa: PTH110 - of a name that is too long Path.exists raises an error
        return Kind.FILES, [text]
    run_ids = [whole_id(connect(), each, "source") if re.fullmatch("[0-9a-f]{4,31}", each) else each for each in parts]
    if all(re.fullmatch("[0-9a-f]{32}|latest", each) for each in run_ids):
        return _find_runs(connect(), run_ids, finds_cells=finds_cells)
    if text.startswith("experiment:") or _OPERATOR.search(text):
        return Kind.RUNS, [text]
    example = text if re.fullmatch(r"[\w -]+", text) else "NAME"
    allowed = "there is no such file or folder, and it is not a run id, an experiment or a filter"
    raise ParameterError("source", text or "''", allowed, f"Name {_SOURCES.format(example=example)}.")


def _find_runs(client: Client, named: list[str], *, finds_cells: bool) -> tuple[Kind, list[str]]:
    fix = f"Name {_SOURCES.format(example='NAME')}."
    run_ids = [latest_investigation(client, "source", fix) if each == "latest" else each for each in named]
    if len({*run_ids}) < len(run_ids):
        raise ParameterError("source", max(run_ids, key=run_ids.count), "must be named once")
    read = {run.info.run_id: run for run in runs_named(client, run_ids)}  # there may be thousands
    runs = [read.get(run_id) or parent_run(client, run_id, "source") for run_id in run_ids]
    experiments = {run.info.experiment_id for run in runs}
    with_cells = {each for each in experiments if _is_any(client, each, {names.ROLE: "cell"})}
    kinds = [_kind(client, run, with_cells, is_alone=len(runs) == 1, finds_cells=finds_cells) for run in runs]
    for run_id, kind in zip(run_ids, kinds, strict=True):
        if kind != kinds[0]:
            allowed = f"is of another kind ({kind}) than {run_ids[0]} ({kinds[0]})"
            raise ParameterError("source", run_id, allowed, "Name runs of one kind.")
    return Kind.SWEEP if kinds[1:] and kinds[0] is Kind.INVESTIGATION else kinds[0], run_ids


def _kind(client: Client, run: Run, with_cells: Collection[str], *, is_alone: bool, finds_cells: bool) -> Kind:
    tags, run_id = run.data.tags, run.info.run_id
    role = tags.get(names.ROLE)
    if role in ("cell", "trial"):
        fix = f"Name its parent run, {tags.get(names.PARENT_RUN_ID)}."
        raise ParameterError("source", run_id, f"is a {role}", fix)
    if role not in (None, "investigation", "golden_runs", "sweep"):
        fix = f"Use mlflow-l3d view {run_id}, or mlflow_l3d.load."
        allowed = f"must be an investigation, seeds study or sweep, whose cells are scored ({names.ROLE}={role})"
        raise ParameterError("source", run_id, allowed, fix)
    if role == "sweep":
        return Kind.SWEEP
    if tags.get(names.DESIGN) == "seeds":
        return Kind.SEEDS
    if role is not None:
        return Kind.INVESTIGATION
    place, child = run.info.experiment_id, {names.PARENT_RUN_ID: run_id}
    if finds_cells or (place in with_cells and _is_any(client, place, {**child, names.ROLE: "cell"})):
        return Kind.INVESTIGATION if is_alone else Kind.SEEDS
    # Of several runs only the tag is looked at: traces take a request each.
    if tags.get("mlflow.runType") == "genai_evaluate" or (is_alone and is_evaluation(client, run)):
        return Kind.EVALUATION
    if not is_alone:
        return Kind.RUNS
    experiment = f"experiment:{client.get_experiment(place).name}"
    fix = f"Name its experiment: mlflow-l3d evaluate {shlex.quote(experiment)}."
    if _is_any(client, place, child):
        fix = f"Name its children: mlflow-l3d evaluate \"tags.mlflow.parentRunId = '{run_id}'\"."
    raise ParameterError("source", run_id, f"has no child runs with the tag {names.ROLE}=cell, and no judgements", fix)


def _is_any(client: Client, experiment_id: str, tags: Mapping[str, str]) -> bool:
    """Return whether a run of an experiment has these tags."""
    return bool(client.search_runs([str(experiment_id)], condition(tags), max_results=1))

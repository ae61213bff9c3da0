"""What the `source` of `evaluate` names: files, parent runs of cells, an evaluation, or other runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier.past import latest_investigation
from mlflow_l3d.tracking.earlier.reader import parent_run

_RUN_ID: Final = re.compile(r"[0-9a-f]{32}|latest")
_OPERATOR: Final = re.compile(r"[=<>]|\si?like\s|\sin\s*\(|\sis\s+(not\s+)?null", re.IGNORECASE)
_SOURCES: Final = (
    "a run id (32 letters and digits) or latest, several run ids separated by commas, an experiment "
    "(experiment:{example}), a filter (\"params.model = 'a'\"), or files of another tool (results.csv)"
)


class Kind(StrEnum):
    """What a source is, as errors name it."""

    FILES = "files of other tools"
    RUNS = "runs without our tags"
    EVALUATION = "an evaluation of MLflow"
    INVESTIGATION = "an investigation"
    SEEDS = "a seeds study"
    SWEEP = "a sweep"


def read_source(source: object) -> tuple[Kind | None, str]:
    """Return the kind of a source and its text; None for run ids, whose kind the tracking server knows.

    Parameters
    ----------
    source
        A text, a path, or a list of run ids.

    Raises
    ------
    ParameterError
        If it is neither, or names nothing.
    """
    if isinstance(source, os.PathLike):
        return Kind.FILES, str(source)
    text = ",".join(map(str, source)) if isinstance(source, list | tuple) else source
    if not isinstance(text, str):
        raise ParameterError("source", type(source).__name__, f"must be {_SOURCES.format(example='NAME')}")
    text = text.strip()
    if text.startswith("experiment:"):
        return Kind.RUNS, text
    if text and all(_RUN_ID.fullmatch(part.strip()) for part in text.split(",")):
        return None, text
    if os.path.exists(text):  # noqa: PTH110 - of a name that is too long Path.exists raises an error
        return Kind.FILES, text
    if _OPERATOR.search(text):
        return Kind.RUNS, text
    example = text if re.fullmatch(r"[\w -]+", text) else "NAME"
    allowed = "there is no such file or folder, and it is not a run id, an experiment or a filter"
    raise ParameterError("source", text or "''", allowed, f"Name {_SOURCES.format(example=example)}.")


def named_runs(client: Client, text: str) -> list[Run]:
    """Return the runs with the ids in a text.

    Raises
    ------
    ParameterError
        If one is named twice, does not exist, or was deleted.
    """
    fix = f"Name {_SOURCES.format(example='NAME')}."
    parts = [part.strip() for part in text.split(",")]
    run_ids = [latest_investigation(client, "source", fix) if part == "latest" else part for part in parts]
    if repeated := [run_id for at, run_id in enumerate(run_ids) if run_id in run_ids[:at]]:
        raise ParameterError("source", repeated[0], "must be named once")
    return [parent_run(client, run_id, "source") for run_id in run_ids]


def kind_of_runs(client: Client, runs: Sequence[Run], *, finds_cells: bool = False) -> Kind:
    """Return the kind of some runs, which all have.

    Parameters
    ----------
    client, runs
        The tracking server, and the runs.
    finds_cells
        Whether a filter finds the cells, so that the run needs no children.

    Raises
    ------
    ParameterError
        If kinds differ, or a run is nothing that can be scored.
    """
    kinds = [_kind(client, run, is_alone=len(runs) == 1, finds_cells=finds_cells) for run in runs]
    for run, kind in zip(runs, kinds, strict=True):
        if kind != kinds[0]:
            allowed = f"is of another kind ({kind}) than {runs[0].info.run_id} ({kinds[0]})"
            raise ParameterError("source", run.info.run_id, allowed, "Name runs of one kind.")
    return Kind.SWEEP if len(runs) > 1 and kinds[0] is Kind.INVESTIGATION else kinds[0]


def _kind(client: Client, run: Run, *, is_alone: bool, finds_cells: bool) -> Kind:
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
    if finds_cells or _has_children(client, run, {names.ROLE: "cell"}):
        return Kind.INVESTIGATION if is_alone else Kind.SEEDS
    if not is_alone:
        return Kind.RUNS
    from mlflow_l3d.tracking.judged import is_evaluation  # type: ignore[import-not-found,unused-ignore]

    if is_evaluation(client, run):
        return Kind.EVALUATION
    experiment = f"experiment:{client.get_experiment(run.info.experiment_id).name}"
    fix = f"Name its experiment: mlflow-l3d evaluate {shlex.quote(experiment)}."
    if _has_children(client, run):
        fix = f"Name its children: mlflow-l3d evaluate \"tags.mlflow.parentRunId = '{run_id}'\"."
    raise ParameterError("source", run_id, f"has neither child runs with the tag {names.ROLE}=cell nor judgements", fix)


def _has_children(client: Client, run: Run, tags: Mapping[str, str] = MappingProxyType({})) -> bool:
    wanted = condition({names.PARENT_RUN_ID: run.info.run_id, **tags})
    return bool(client.search_runs([str(run.info.experiment_id)], wanted, max_results=1))

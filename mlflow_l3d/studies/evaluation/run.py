"""`evaluate` scores results that exist already, whoever made them: what its source names, and who scores that."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Unpack

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters import Arguments, read_arguments, with_signature
from mlflow_l3d.parameters.checks import check_unused
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.evaluation.parameters import OF_FILES, OF_GROUPS, OF_PARENT, OF_RUNS, OPTIONS, EvaluateOptions
from mlflow_l3d.studies.groups.run import GroupsEvaluation, evaluate_groups
from mlflow_l3d.studies.importing.run import FilesEvaluation, evaluate_files, evaluate_imported
from mlflow_l3d.studies.investigation.evaluate import metric_of, score_parent
from mlflow_l3d.studies.investigation.results import Evaluation
from mlflow_l3d.studies.judged.results import JudgedEvaluation
from mlflow_l3d.studies.judged.run import evaluate_judged
from mlflow_l3d.studies.seeds.results import SeedsEvaluation, evaluate_seeds
from mlflow_l3d.studies.shown import shows_progress, under_way
from mlflow_l3d.studies.sweep.results import SweepEvaluation, evaluate_sweep
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, runs_named, whole_id
from mlflow_l3d.tracking.connection import Client, Run, connect
from mlflow_l3d.tracking.earlier import deleted_cells, latest_investigation
from mlflow_l3d.tracking.earlier.evaluations import is_evaluation
from mlflow_l3d.tracking.earlier.reader import Recorded, parent_run, read_investigation

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


_OPTIONS_OF: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.FILES: ("metric", *OF_GROUPS, *OF_FILES),
    Kind.RUNS: ("metric", *OF_GROUPS, *OF_RUNS),
    Kind.EVALUATION: ("metric",),
    Kind.INVESTIGATION: ("metric", *OF_PARENT),
    Kind.SEEDS: ("metric",),
    Kind.SWEEP: (),
}


@with_signature(EvaluateOptions)
def evaluate(
    source: str | Path | Sequence[str] = "latest",
    *,
    log: bool = True,
    progress: bool | None = None,
    **options: Unpack[EvaluateOptions],
) -> Evaluation | SeedsEvaluation | SweepEvaluation | FilesEvaluation | GroupsEvaluation | JudgedEvaluation:
    """Score results that exist already: runs on the tracking server, or files of other tools.

    Parameters
    ----------
    source
        One of:

        * The id of a parent run, whose child runs have the tags of a cell (``l3d.role`` = ``cell``, ``l3d.phase``), or
          ``latest``, the current experiment's latest investigation. It is scored again; metrics and artifacts are
          written to it. The result of a sweep is computed again from its points.
        * Several parent runs, in a list or separated by commas: seeds studies are compared over tasks, investigations
          get a table, in a run of their own.
        * ``experiment:NAME``, an MLflow filter such as ``params.model = 'a'``, or several runs without our tags: groups
          of runs that differ by seeds alone are compared.
        * The id of an evaluation run of MLflow (``mlflow.genai.evaluate``, ``mlflow.evaluate``): its judgements. Of
          several, other answers are repeats.
        * A file or folder of another tool: its runs become the cells of one run. They are groups, too, or a seeds study
          if they differ by seeds alone.
    log
        Whether to write metrics and artifacts; files need it.
    progress
        Whether to report progress on stderr; None reports it in a notebook and on a terminal.
    **options
        `metric`: the metric whose spread is reported; ``auto`` is the parent run's metric, or the likely one.

        Of experiments, filters and files: `group_by`: what distinguishes groups, as ``params.learning_rate``; ``auto``
        is all parameters but seeds. `seed`: the parameters that are seeds. `only`: values that runs must have.

        Of experiments and filters: `step`: ``last``, ``best``, or the number of a step. `tag`: whether to write tags to
        the runs, too.

        Of files: `from_`: the tool that wrote them: ``lm-eval``, ``inspect``, ``promptfoo``, ``tau-bench``, ``csv`` or
        ``huggingface-trainer``; ``auto`` recognises it. `task`: the task to read; several, separated by commas, are
        variants of one with the same examples. `task_kind`, `classes`: of CSV files the kind of answers, and the names
        of all classes. `columns`: the roles of columns of CSV files, as
        ``example_id=id,prediction=answer,settings=seed+shots``.

        Of a parent run: `where`: an MLflow filter; cells are then the runs that it finds in the experiment of the
        parent run. `design`, `missing`: those of the investigation; ``auto`` is its own choice. `agreement`: how
        predictions are compared: ``auto``, ``regression``, or a scoring function such as ``rougeL``
        (:func:`mlflow_l3d.analysis.consistency.choice.choose`).

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> investigation = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic",
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=6, executor="inline",
    ... )
    >>> evaluation = mlflow_l3d.evaluate(investigation.run_id, metric="accuracy", log=False)
    >>> evaluation.analysis.to_frame()[["factor", "score_mean", "importance"]].round(3)
           factor  score_mean  importance
    0  data_order         0.3       0.199

    Files of another tool, here a table of predictions:

    >>> import pandas as pd
    >>> first = pd.DataFrame({"example_id": range(6), "label": [0, 1] * 3, "prediction": [0, 1, 0, 0, 1, 1], "seed": 1})
    >>> second = first.assign(prediction=[0, 1, 1, 0, 0, 1], seed=2)
    >>> pd.concat([first, second]).to_csv("runs.csv", index=False)
    >>> evaluation = mlflow_l3d.evaluate("runs.csv")
    >>> evaluation.written, round(evaluation.study.own.mean, 2), round(evaluation.study.pairs["consistency"].mean, 2)
    (2, 0.67, 0.67)
    """
    with entry_point() as project_run:
        arguments = read_arguments({name: _as_typed(name, value) for name, value in options.items()}, OPTIONS)
        texts, metric = arguments.texts, arguments.texts["metric"]
        kind, named = find_results(source, finds_cells=texts["where"] != "none")
        check_unused(arguments, OPTIONS, kind, _OPTIONS_OF[kind])
        own = {name: texts[name] for name in _OPTIONS_OF[kind]}
        if kind is Kind.FILES:
            if not log:
                raise ParameterError("log", False, "must be true for files, whose runs are written to MLflow")
            return evaluate_files(Path(named[0]), own, project_run=project_run, progress=progress)
        written: dict[str, Any] = {"project_run": project_run.run_id, "log": log}
        if kind is Kind.SWEEP:
            return evaluate_sweep(*named, **written)
        if kind is Kind.SEEDS:
            groups = None if named[1:] else evaluate_imported(named[0], metric=metric, log=log)
            return groups or evaluate_seeds(*named, metric=metric, **written)
        written["progress"] = progress
        if kind is Kind.INVESTIGATION:
            return _evaluate_investigation(named[0], arguments, **written)
        written["metric"] = metric.removeprefix("metrics.")
        if kind is Kind.EVALUATION:
            return evaluate_judged(",".join(named), **written)
        return evaluate_groups(named if named[1:] else named[0], **{**own, "tag": arguments["tag"], **written})


def _as_typed(name: str, value: object) -> object:
    """Return class names and pairs from Python as they would be typed."""
    if name == "classes" and isinstance(value, list | tuple):
        return "|".join(map(str, value))
    if name in ("columns", "only") and isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in value.items()) or "none"
    return value


def _evaluate_investigation(
    run_id: str, arguments: Arguments, *, project_run: str | None, log: bool, progress: bool | None
) -> Evaluation | SeedsEvaluation:
    """Score an investigation again, ours or a stranger's; golden runs without a factor are a seeds study."""
    client, shown, texts = connect(), shows_progress(progress), arguments.texts
    where = "" if texts["where"] == "none" else texts["where"]
    with under_way("reading the cells", shown=shown):
        recorded = read_investigation(run_id, client, where=where, parameter="source")
    if _has_golden_runs_alone(recorded):
        check_unused(arguments, OPTIONS, Kind.SEEDS, _OPTIONS_OF[Kind.SEEDS])
        metric = metric_of(recorded.parent, texts["metric"], recorded.cells).name
        return evaluate_seeds(run_id, metric=metric, project_run=project_run, log=log)
    deleted = 0 if where else deleted_cells(client, recorded.parent, recorded.cells)
    options = {name: texts[name] for name in ("metric", "design", "missing", "agreement")}
    with under_way(f"reading the predictions of {len(recorded.cells):,} cells and scoring", shown=shown):
        return score_parent(client, recorded.parent, recorded.cells, **options, log=log, deleted=deleted)


def _has_golden_runs_alone(recorded: Recorded) -> bool:
    """Return whether the cells of other code are golden runs only: without a factor, they are a seeds study.

    Raises
    ------
    ParameterError
        If they are, and their seeds are not known.
    """
    is_ours = names.INVESTIGATION_KEY in recorded.parent.data.tags
    are_golden = not is_ours and bool(recorded.cells["phase"].eq("golden").all())
    if are_golden and "seed.seed" not in recorded.cells:
        allowed = "has golden runs alone, which are a seeds study, and they have no parameter seed.seed"
        fix = f"Log it, or runs of a factor ({names.PHASE}=investigation)."
        raise ParameterError("source", recorded.parent.info.run_id, allowed, fix)
    return are_golden


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

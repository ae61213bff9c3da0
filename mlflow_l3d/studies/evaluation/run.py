"""`evaluate` scores results that exist already, whoever made them; `load` reads the result of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Unpack

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.declaration import Arguments, read_arguments, with_signature
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.evaluation.parameters import OF_FILES, OF_GROUPS, OF_PARENT, OF_RUNS, OPTIONS, EvaluateOptions
from mlflow_l3d.studies.evaluation.source import Kind, find_results
from mlflow_l3d.studies.groups.run import GroupsEvaluation, evaluate_groups
from mlflow_l3d.studies.importing.run import FilesEvaluation, evaluate_files, evaluate_imported
from mlflow_l3d.studies.investigation.evaluate import metric_of, score_parent
from mlflow_l3d.studies.investigation.results import Evaluation
from mlflow_l3d.studies.judged.results import JudgedEvaluation
from mlflow_l3d.studies.judged.run import evaluate_judged
from mlflow_l3d.studies.result_file import read_result
from mlflow_l3d.studies.seeds.results import SeedsEvaluation, evaluate_seeds
from mlflow_l3d.studies.shown import shows_progress, under_way
from mlflow_l3d.studies.sweep.results import SweepEvaluation, evaluate_sweep
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.earlier.past import deleted_cells
from mlflow_l3d.tracking.earlier.reader import Recorded, parent_run, read_investigation

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
        _check_options(arguments, kind)
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


def _check_options(arguments: Arguments, kind: Kind) -> None:
    """Raise a ParameterError for an option that has no effect on a kind of source."""
    for name, value in arguments.texts.items():
        if name not in _OPTIONS_OF[kind] and value != OPTIONS[name].default:
            raise ParameterError(name.rstrip("_"), value, f"has no effect on {kind}", "Leave it out.")


def _evaluate_investigation(
    run_id: str, arguments: Arguments, *, project_run: str | None, log: bool, progress: bool | None
) -> Evaluation | SeedsEvaluation:
    """Score an investigation again, ours or a stranger's; golden runs without a factor are a seeds study."""
    client, shown, texts = connect(), shows_progress(progress), arguments.texts
    where = "" if texts["where"] == "none" else texts["where"]
    with under_way("reading the cells", shown=shown):
        recorded = read_investigation(run_id, client, where=where, parameter="source")
    if _has_golden_runs_alone(recorded):
        _check_options(arguments, Kind.SEEDS)
        metric = metric_of(recorded.parent, texts["metric"], recorded.cells).name
        return evaluate_seeds(run_id, metric=metric, project_run=project_run, log=log)
    deleted = 0 if where else deleted_cells(client, recorded.parent, recorded.cells)
    options = {name: texts[name] for name in ("metric", "design", "missing", "agreement")}
    with under_way(f"reading the predictions of {len(recorded.cells):,} cells and scoring", shown=shown):
        return score_parent(client, recorded.parent, recorded.cells, **options, log=log, deleted=deleted)


def load(run_id: str) -> Any:
    """Return the result of a finished study from what its run holds; nothing is computed.

    Parameters
    ----------
    run_id
        The parent run.

    Returns
    -------
    Investigation, SeedsRun, Sweep, Gate, ...
        What the study returned, without its `request`; after `evaluate` with the numbers of that.

    Raises
    ------
    ParameterError
        If there is no such run, or it has no result yet.

    Examples
    --------
    >>> import mlflow_l3d
    >>> run = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic",
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=6, executor="inline",
    ... )
    >>> mlflow_l3d.load(run.run_id).to_frame().equals(run.to_frame())
    True
    """
    with entry_point():
        return result_of(connect(), run_id, "run_id")


def result_of(client: Client, run_id: str, parameter: str) -> Any:
    """Return what :func:`load` does, for a `parameter` that errors name."""
    run_id = str(parent_run(client, run_id, parameter).info.run_id)
    if (result := read_result(client, run_id, files=True)) is None:
        raise ParameterError(parameter, run_id, "holds no result", "If it has ended, first use mlflow-l3d evaluate.")
    return result


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

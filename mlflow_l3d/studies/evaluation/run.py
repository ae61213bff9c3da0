"""`evaluate` scores the study of a parent run again; `load` reads its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.values import as_text
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.evaluation.parameters import EVALUATE
from mlflow_l3d.studies.investigation.evaluate import metric_of, score_parent
from mlflow_l3d.studies.investigation.results import Evaluation
from mlflow_l3d.studies.result_file import read_result
from mlflow_l3d.studies.seeds.results import SeedsEvaluation, evaluate_seeds
from mlflow_l3d.studies.shown import shows_progress, under_way
from mlflow_l3d.studies.sweep.results import SweepEvaluation, evaluate_sweep
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import found
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.earlier.past import deleted_cells, latest_investigation
from mlflow_l3d.tracking.earlier.reader import Recorded, parent_run, read_investigation

_NOT_EVALUATED: Final = ("gate", "compare", "comparison", "search", "ablation", "plan", "genai")
"""Roles of runs whose result is read, not scored again."""


def evaluate(
    parent_run_id: str = "latest",
    *,
    where: str = "none",
    metric: str = "auto",
    design: str = "auto",
    missing: str = "auto",
    agreement: str = "auto",
    log: bool = True,
    progress: bool | None = None,
) -> Evaluation | SeedsEvaluation | SweepEvaluation:
    """Score a parent run again from its child runs, and write metrics and artifacts to it.

    Parameters
    ----------
    parent_run_id
        Any run whose child runs have the tags of a cell: ``l3d.role`` = ``cell``, ``l3d.phase``, and ``l3d.factor``,
        ``l3d.row``, ``l3d.column`` (golden: ``l3d.index``; base and swap: no column). ``latest``: the current
        experiment's latest investigation. Several seeds studies, separated by commas, are compared over tasks in a run
        of their own; a seeds study has no other option than `metric`. The run of a sweep, whose result is computed
        again from its points, or several investigations, whose table gets a run of its own; both have no other option.
    where
        An MLflow filter; cells are then the runs that it finds in the experiment of the parent run.
    metric
        The metric whose spread is investigated; ``auto`` is the parameter of the parent run, or ``f1_macro``.
    design
        Name of the design; ``auto`` is the design of the parent run, or else the one with the phases of the cells
        (``radial`` for base and swap runs), or else ``crossed``.
    missing
        ``anova`` or ``reml``, as in `main`; ``auto`` is the choice of the parent run, or ``anova``.
    agreement
        How predictions are compared: ``auto`` reads whole numbers as class numbers, other numbers as regression, and
        compares texts by ``exact_match``; or ``regression``, or a scoring function such as ``rougeL``
        (:func:`mlflow_l3d.analysis.consistency.agreement.choice.choose`).
    log
        Whether to write metrics and artifacts.
    progress
        Whether to report progress on stderr; None reports it in a notebook and on a terminal.

    Raises
    ------
    L3DError
        If data are missing; its one line names them.

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
    """
    if not isinstance(parent_run_id, str):
        raise ParameterError("parent_run_id", type(parent_run_id).__name__, "must be the id of a run, or latest")
    shown, metric = shows_progress(progress), as_text("metric", metric)
    with entry_point() as project_run:
        options = {"where": where, "design": design, "missing": missing, "agreement": agreement}
        client = connect()
        study = _study_of(client, parent_run_id)
        if study == "sweep":
            _check_options({**options, "metric": metric}, "a sweep")
            return evaluate_sweep(parent_run_id, project_run=project_run.run_id, log=log)
        if study == "seeds":
            _check_options(options, "a seeds study")
            return evaluate_seeds(parent_run_id, metric=metric, project_run=project_run.run_id, log=log)
        for name, value in (("design", design), ("missing", missing)):
            EVALUATE[name].read(value)
        run_id = latest_investigation(client) if parent_run_id == "latest" else parent_run_id
        with under_way("reading the cells", shown=shown):
            recorded = read_investigation(run_id, client, where="" if where == "none" else where)
        if _has_golden_runs_alone(recorded):
            _check_options(options, "golden runs without a factor, which are a seeds study")
            metric = metric_of(recorded.parent, metric, recorded.cells).name
            return evaluate_seeds(run_id, metric=metric, project_run=project_run.run_id, log=log)
        deleted = 0 if where != "none" else deleted_cells(client, recorded.parent, recorded.cells)
        del options["where"]
        with under_way(f"reading the predictions of {len(recorded.cells):,} cells and scoring", shown=shown):
            return score_parent(
                client, recorded.parent, recorded.cells, metric=metric, **options, log=log, deleted=deleted
            )


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
    parent_run(client, run_id, parameter)
    if (result := read_result(client, run_id, files=True)) is None:
        raise ParameterError(parameter, run_id, "holds no result", "If it has ended, first use mlflow-l3d evaluate.")
    return result


def _study_of(client: Client, parent_run_id: str) -> str:
    """Return the study of a parent run, or of several by their first: ``investigation``, ``seeds`` or ``sweep``.

    Several investigations of factors are set side by side like the points of a sweep; any other several runs are
    compared like seeds studies.
    """
    first, *others = [part.strip() for part in parent_run_id.split(",") if part.strip()] or [""]
    run_id = latest_investigation(client) if first == "latest" and not others else first
    run = found(client.get_run, run_id)
    tags = {} if run is None else run.data.tags
    role, is_seeds = tags.get(names.ROLE), tags.get(names.DESIGN) == "seeds"
    if role in _NOT_EVALUATED:
        fix = f"Use mlflow-l3d view {run_id}, or mlflow_l3d.load."
        allowed = f"must be an investigation, seeds study or sweep, whose cells are scored ({names.ROLE}={role})"
        raise ParameterError("parent_run_id", run_id, allowed, fix)
    if others:
        return "sweep" if role in ("investigation", "sweep") and not is_seeds else "seeds"
    return "sweep" if role == "sweep" else "seeds" if is_seeds else "investigation"


def _has_golden_runs_alone(recorded: Recorded) -> bool:
    """Return whether the cells of other code are golden runs only: without a factor, they are a seeds study.

    Raises
    ------
    ParameterError
        If they are, and their seeds are not known.
    """
    if names.INVESTIGATION_KEY in recorded.parent.data.tags or not recorded.cells["phase"].eq("golden").all():
        return False
    if "seed.seed" not in recorded.cells:
        allowed = "has golden runs alone, which are a seeds study, and they have no parameter seed.seed"
        fix = f"Log it, or runs of a factor ({names.PHASE}=investigation)."
        raise ParameterError("parent_run_id", recorded.parent.info.run_id, allowed, fix)
    return True


def _check_options(options: Mapping[str, str], study: str) -> None:
    """Raise a ParameterError for an option of `evaluate` that has no effect on a study."""
    for name, value in options.items():
        if value != EVALUATE[name].default:
            raise ParameterError(name, value, f"has no effect on {study}", "Leave it out.")

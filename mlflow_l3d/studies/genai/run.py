"""`genai.investigate`: the app answers once per cell, judges rate these answers, and nothing is paid twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.about import heading
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.genai.request import GenaiRequest, specify
from mlflow_l3d.studies.genai.results import GenaiInvestigation, concluded, write_investigation
from mlflow_l3d.studies.genai.work import Work
from mlflow_l3d.studies.result_file import read_result
from mlflow_l3d.studies.shown import shows_progress
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.pages import runs_page
from mlflow_l3d.tracking.parent import current_experiment_id

ROLE: Final = "genai"


def investigate(
    predict_fn: Callable[..., Any],
    data: Any,
    scorers: Sequence[Any] = (),
    factors: Mapping[str, Any] | None = None,
    *,
    budget: Any = None,
    workers: int | None = None,
    version: str = "",
    progress: bool | None = None,
) -> GenaiInvestigation:
    """Ask an app the same questions over prompts, models and repeats, let judges rate it, and return what is luck.

    Each cell is a run of `mlflow.genai.evaluate`: one in which the app answers, and for each scorer, judge and
    judgement one that rates these answers. Cells that the experiment holds already are reused, so that a further judge
    only judges, and a further repeat only answers once more.

    Parameters
    ----------
    predict_fn
        The app, as for `mlflow.genai.evaluate`: it has the inputs of a row as arguments.
    data
        Rows with ``inputs`` and ``expectations``: a list of dicts, a data frame or a data set of MLflow.
    scorers
        Scorers of MLflow, each of which rates something of its own.
    factors
        Name -> levels. ``prompt``: URIs of the prompt registry, `prompts:/qa/1`, `prompts:/qa@prod`, or `prompts:/qa`
        for all versions. Others, such as ``model``, are parameters of the app. A prompt is passed to the app if it has
        such a parameter; otherwise it takes the place of each prompt of its name that the app loads. ``judge``: scorers
        that rate the same thing. ``replicate``, ``judgement``: how many answers per row, and judgements per judge.
    budget
        The most that is asked now: cells, a time as in ``2h``, or ``900 requests`` to app and scorers.
    workers
        Threads that call the app, or a scorer; by default those of MLFLOW_GENAI_EVAL_MAX_WORKERS, or 4.
    version
        Stands for what the app and the scorers are made of, if that is not known: change it with them.
    progress
        Whether to report progress on stderr; None reports it in a notebook and on a terminal.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow
    >>> from mlflow_l3d import genai
    >>> @mlflow.genai.scorer
    ... def short(outputs):
    ...     return len(outputs) < 4
    >>> def app(word, style):
    ...     return word.upper() if style == "loud" else word
    >>> rows = [{"inputs": {"word": word}} for word in ("two", "three", "four")]
    >>> result = genai.investigate(app, rows, [short], {"style": ["loud", "quiet"]}, version="1")
    >>> result.to_frame().groupby("style")["value"].mean().round(2).to_dict()
    {'loud': 0.33, 'quiet': 0.33}
    """
    with entry_point() as project_run:
        client = connect()
        request = specify(
            client, predict_fn, data, scorers, factors or {}, budget=budget, workers=workers, version=version
        )
        if project_run.run_id is None and (earlier := _finished(client, request)) is not None:
            return earlier
        title = f"genai: {request.app_name}"
        with (
            temporary_folder() as folder,
            auxiliary_run(client, project_run.take(), role=ROLE, title=title, parameters=request.parameters) as opened,
        ):
            work = Work(request, client, opened.run_id, shows_progress(progress))
            table, missing = work.carry_out(), work.missing()
            address = runs_page(client, current_experiment_id(client))
            source = Source(run_id=opened.run_id, address=address, date=heading("")["date"][:10], is_typed=False)
            result = concluded(request, table, source, (work.computed, work.reused), missing)
            state = "incomplete" if missing else "complete"
            tags = {names.INVESTIGATION_KEY: request.key, names.STATE: state, names.NOTE: result.note()}
            tables = write_investigation(folder, result)
            opened.finish(folder, metrics=result.metrics(), tags=tags, tables=tables)
    return result


def _finished(client: Client, request: GenaiRequest) -> GenaiInvestigation | None:
    """Return the complete result of the same call, or None if there is none."""
    tags = {names.ROLE: ROLE, names.INVESTIGATION_KEY: request.key, names.STATE: "complete"}
    for run in search(client, [current_experiment_id(client)], condition(tags, "FINISHED")):
        if (result := read_result(client, run.info.run_id, files=True)) is not None:
            return result  # type: ignore[no-any-return]
    return None

"""`genai.investigate`: the app answers once per cell, judges rate these answers, and no finished cell is paid twice.

`genai.annotate` writes our own assessments onto the answers, for those who look at traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from mlflow_l3d.analysis.judged.repeated import unstable_rows
from mlflow_l3d.approaches.functions.versions import OwnChanges
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.base import entry_point, origin, say
from mlflow_l3d.studies.dry_run import Budget
from mlflow_l3d.studies.files import read_result
from mlflow_l3d.studies.genai import specify
from mlflow_l3d.studies.genai.contents import own_functions
from mlflow_l3d.studies.genai.results import GenaiInvestigation, concluded
from mlflow_l3d.studies.genai.work import Work
from mlflow_l3d.studies.judged.results import finish_judged
from mlflow_l3d.studies.shown import progress_bar, shows_progress
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.earlier.judgements import write_assessment
from mlflow_l3d.tracking.earlier.reader import parent_run
from mlflow_l3d.tracking.parent import current_experiment_id


def investigate(
    predict_fn: Callable[..., Any],
    data: Any,
    scorers: Sequence[Any] = (),
    factors: Mapping[str, Any] | None = None,
    *,
    budget: Any = None,
    workers: int | None = None,
    version: str = "",
    metric: str = "auto",
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
        The most that is done now: a number of cells, a time as in ``2h``, or ``200 requests``: answers and
        judgements, also those of code. It stops between cells. An interrupted cell is asked again from its start.
    workers
        Threads that call the app, or a scorer; by default those of MLFLOW_GENAI_EVAL_MAX_WORKERS, or 4.
    version
        Stands for what the app and the scorers are made of, if that is not known: change it with them.
    metric
        Scorers that lead the report, separated by commas; which values are better is as in :func:`compare`.
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
    if workers is not None and workers < 1:
        raise ParameterError("workers", workers, "must be a whole number from 1")
    most = Budget.parse(budget, requests=True)
    with entry_point() as project_run:
        client = connect()
        request = specify(client, predict_fn, data, scorers, factors or {}, version)
        judging = [function for each in request.judgings for function in own_functions(each.scorer)]
        title, parameters = request.title, {**request.parameters, "budget": str(most)}
        with auxiliary_run(client, project_run.take(), role="genai", title=title, parameters=parameters) as opened:
            work = Work(request, client, opened.run_id, most, workers)
            with (
                OwnChanges(predict_fn, *judging),
                progress_bar("cells", "cell", total=work.total, shown=shows_progress(progress)) as bar,
            ):
                try:
                    table, notes = work.carry_out(bar)
                except KeyboardInterrupt:
                    again = "it asks only the cells that were under way again, from their start."
                    done = work.computed + work.reused
                    say([f"Interrupted with {done} of {work.total} cells done. The same call continues: {again}"])
                    raise
            source = replace(origin(client, current_experiment_id(client), opened.run_id), is_typed=False)
            result = concluded(work, table, notes, metric, source)
            note = result.report().description(*result.notes)
            tags = {names.STATE: "incomplete" if work.missing else "complete", names.NOTE: note}
            finish_judged(opened, result, tags, table)
    return result


def annotate(run_id: str) -> int:
    """Write onto each answer whether the verdict on its row changes, and whether the judges agree on it.

    The assessments are ``l3d.fragile_row/SCORER``, true or false, and ``l3d.agreement/SCORER``, the share of pairs of
    judgements that are equal. Their source is this package, and their run is `run_id`: no evaluation counts them.

    Parameters
    ----------
    run_id
        The parent run of :func:`investigate`.

    Returns
    -------
    int
        How many were written; those that are there already are left as they are.

    Raises
    ------
    ParameterError
        If the run is none of :func:`investigate`.

    Examples
    --------
    >>> import mlflow
    >>> from mlflow_l3d import genai
    >>> @mlflow.genai.scorer
    ... def short(outputs):
    ...     return len(outputs) < 4
    >>> rows = [{"inputs": {"word": word}} for word in ("two", "three")]
    >>> result = genai.investigate(lambda word, style: word, rows, [short], {"style": ["loud"]}, version="1")
    >>> genai.annotate(result.run_id), genai.annotate(result.run_id)
    (2, 0)
    """
    with entry_point():
        client = connect()
        run_id = str(parent_run(client, run_id, "run_id").info.run_id)
        result = read_result(client, run_id, files=True)
        if not isinstance(result, GenaiInvestigation):
            raise ParameterError("run_id", run_id, "is not a run of mlflow_l3d.genai.investigate")
        judged = result.to_frame().query("failed == ''").dropna(subset="value")
        scorers = [part for _, part in judged.groupby("scorer", sort=False)]
        return sum(write_assessment(*each, run_id) for part in scorers for each in _assessments(part))


def _assessments(table: pd.DataFrame) -> Iterator[tuple[str, str, bool | float]]:
    """Yield trace, name and value of our assessments of the answers, by one scorer."""
    scorer, fragile = table["scorer"].iloc[0], set(unstable_rows(table)["row"])
    for (row, answer), values in table.groupby(["row", "answer"], sort=False)["value"]:
        yield str(answer), f"l3d.fragile_row/{scorer}", row in fragile
        if (size := len(values)) > 1:
            counts = values.value_counts()
            yield str(answer), f"l3d.agreement/{scorer}", float((counts * (counts - 1)).sum() / (size * (size - 1)))

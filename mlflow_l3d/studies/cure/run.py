"""The entry points `cure` and `plan_cure`: what would leave less luck, and whether it does."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Unpack

from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.parameters.cures import text_of
from mlflow_l3d.parameters.declaration import with_signature
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.studies.base import entry_point, say
from mlflow_l3d.studies.cure.numbers.verified import CureAnswer
from mlflow_l3d.studies.cure.parameters import CureOptions
from mlflow_l3d.studies.cure.request import specify_cure
from mlflow_l3d.studies.cure.results import Cure
from mlflow_l3d.studies.cure.verifying import plan_remedies, verify_remedies
from mlflow_l3d.studies.dry_run import StudyPlan, record_plan, study_plan
from mlflow_l3d.studies.files import save_result
from mlflow_l3d.studies.shown import shows_progress
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import connect


@with_signature(CureOptions)
def cure(parent_run_id: Any = "latest", *, progress: bool | None = None, **options: Unpack[CureOptions]) -> Cure:
    """Predict from the runs of an investigation or seeds study what leaves less luck, and verify it.

    Parameters
    ----------
    parent_run_id
        The parent run, or a result, whose `cure` method calls this.
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **options
        As on the command line (``mlflow-l3d cure --help-all``): ``verify``, ``budget``, ``runs``.

    Returns
    -------
    Cure
        The result. Its run has a verified remedy as the artifact ``cure.json``, which the parameter `cure` of other
        commands takes.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> investigation = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic", metric="accuracy",
    ...     investigation_runs=7, mitigation_runs=4, golden_runs=8, executor="inline",
    ... )
    >>> cure = mlflow_l3d.cure(investigation.run_id)
    >>> cure.to_frame()["remedy"].head(2).tolist()
    ['vote of 3 runs over data_order', 'mean of class scores of 2 runs over data_order']
    """
    with entry_point() as opened:
        client = connect()
        request = specify_cure(parent_run_id, options, client)
        gathered, texts = request.gathered, request.arguments.texts
        planned, notes = plan_remedies(client, request)
        done = [*(each.remedy for each in request.tried), *(each.prediction.remedy for each in planned)]
        earlier = [remedy_words(each.prediction.remedy) for each in planned if not each.trainings]
        say([*(f"{words}: trained before." for words in earlier), *notes])
        with auxiliary_run(client, opened.take(), role="cure", title=request.title, parameters=texts) as run:
            shown = shows_progress(progress)
            verified = tuple(verify_remedies(client, request, planned, run.run_id, progress=shown)) if planned else ()
            if any(each.is_line for each in planned):
                request = specify_cure(parent_run_id, options, client)
            answer = CureAnswer(
                metric=gathered.metric,
                std=gathered.spread.value,
                golden_std=gathered.golden_std,
                mean=float(gathered.golden.mean()) if len(gathered.golden) else math.nan,
                predictions=request.predictions,
                verified=verified,
                stored=request.stored,
                smallest_effect=request.smallest_effect,
                level=1 - (1 - LEVEL) / max(1, len(verified)),
                collapsed=gathered.collapsed,
                runs=len(gathered.golden),
                is_pooled=request.golden is not None and request.golden.phase == "base",
                reasons=(*request.reasons, *notes),
                tried=tuple(each.remedy for each in request.predictions if each.remedy in done and not each.also),
                upcoming=tuple([each for each in request.ranked() if each.remedy not in done][:2]),
            )
            parent = str(gathered.parent.info.run_id)
            # A reason is why no command can train: the request of an object of this process can.
            source = replace(gathered.source, is_typed=not request.side.reason)
            result = Cure(run_id=run.run_id, parent_run_id=parent, answer=answer, source=source, settings=texts)
            save_result(run.folder, result)
            if answer.best is not None and answer.best.prediction.remedy.kind != "more_data":
                (run.folder / names.CURE).write_text(text_of(answer.best.prediction.remedy), encoding="utf-8")
            tags = {
                names.OF_INVESTIGATION: parent,
                names.INVESTIGATIONS: ",".join([parent, *(each.run_id for each in verified)]),
                names.STATE: "complete",
                names.NOTE: result.report().description(*answer.reasons),
            }
            run.finish(metrics=answer.metrics(), tags=tags)
        return result


@with_signature(CureOptions)
def plan_cure(parent_run_id: Any = "latest", **options: Unpack[CureOptions]) -> StudyPlan:
    """Return what verifying would train; no run starts.

    Parameters
    ----------
    parent_run_id, **options
        Those of :func:`cure`.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> investigation = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic", metric="accuracy",
    ...     investigation_runs=7, mitigation_runs=4, golden_runs=8, executor="inline",
    ... )
    >>> mlflow_l3d.plan_cure(investigation.run_id, verify=1).parts["cells"].tolist()
    [8]
    """
    with entry_point() as opened:
        client = connect()
        request = specify_cure(parent_run_id, options, client)
        planned, notes = plan_remedies(client, request)
        seconds = request.gathered.seconds / request.each
        rows = [(each.request.side, each.done + each.trainings, each.done, each.trainings, seconds) for each in planned]
        plan = replace(study_plan(request.title, rows, request.workers, (*notes, *request.reasons)), unit="training")
        return record_plan(client, opened.run_id, plan, request.title, request.arguments.texts)

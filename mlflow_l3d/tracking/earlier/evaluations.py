"""Evaluation runs of MLflow, whoever made them: traces with judgements, and the tables of `mlflow.models.evaluate`."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import every_page, found
from mlflow_l3d.tracking.earlier.judgements import OF_RUN, Judged, RunJudgements, is_of, joined, number_of, row_of
from mlflow_l3d.tracking.earlier.reader import fetch_document, parent_run

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run, Trace

_REQUEST, _INPUTS, _MADE_BY = "mlflow.eval.requestId", "mlflow.traceInputs", "mlflow.sourceRun"
_APP, _MODEL = "mlflow.genaiEvaluate.agent.digest", "mlflow.modelId"
_OF_JUDGING: Final = ("replicate", "judge", "judgement")  # parameters of a cell's run that do not reach the app
_DIGEST = "mlflow.assessment.scorerDigest"
_SCORE, _MEAN = "/score", "/mean"
_STATIC: Final = 64
"""Digits of a request id that is a hash of the inputs, which repeated rows share; others are of one call."""


def is_evaluation(client: MlflowClient, run: Run) -> bool:
    """Return whether a run is one of `mlflow.genai.evaluate`, or of `mlflow.evaluate` with scores of rows."""
    if run.data.tags.get("mlflow.runType") == "genai_evaluate" or _table_of(run):
        return True
    where, run_id = [str(run.info.experiment_id)], str(run.info.run_id)
    return bool(client.search_traces(locations=where, run_id=run_id, max_results=1, include_spans=False))


def read_judged(client: MlflowClient, *run_ids: str) -> Judged:
    """Return the judgements of an evaluation run, or of several together: judges of the same answers, or repeats.

    Parameters
    ----------
    client
        Client of the tracking server.
    run_ids
        The runs.

    Raises
    ------
    ParameterError
        If there is no such run, or it has no judgements.
    """
    keys: dict[str, str] = {}
    runs = [parent_run(client, run_id, "run_id") for run_id in run_ids]
    return joined([_read_table(client, run) if _table_of(run) else _read_traces(client, run, keys) for run in runs])


def _read_traces(client: MlflowClient, run: Run, keys: dict[str, str]) -> RunJudgements:
    """Return the judgements of a run; `keys` are the rows of answers that other runs judged, too."""
    run_id = str(run.info.run_id)
    traces = sorted(_traces(client, run), key=lambda trace: (trace.info.request_time, trace.info.trace_id))
    feedback = {str(trace.info.trace_id): _feedback(trace, run_id) for trace in traces}
    kept = [*_answers(traces, run_id)]
    if not any(feedback.values()):
        made = [(each.metadata or {}).get(OF_RUN) for trace in traces for each in trace.info.assessments]
        others = [str(other) for other in dict.fromkeys(made) if other not in (None, run_id)]
        fix = "Evaluate with at least one scorer: mlflow.genai.evaluate(data=..., scorers=[...])."
        if others:
            fix = f"Its answers were judged by other runs; name one: {', '.join(others)}."
        wrong = f"has {counted(len(traces), 'trace')} and no judgements" if traces else "is not an evaluation run"
        raise ParameterError("run_id", run_id, wrong, fix)
    digests = {maker.data.tags.get(_APP, "") for maker in _add_rows(client, run, kept, keys) if maker}
    models = {trace.info.trace_metadata.get(_MODEL, "") for trace in kept}
    apps = " ".join(sorted(digests)).strip(), " ".join(sorted(models)).strip()
    answers = pd.DataFrame([_answer(trace, keys[trace.info.trace_id]) for trace in kept])
    rows = [row for trace in kept for row in feedback[str(trace.info.trace_id)]]
    judgements = pd.DataFrame(rows, columns=["answer", "scorer", "source", "digest", "value", "failed"])
    good = answers[~answers["failed"]]
    incomplete = _incomplete(judgements[judgements["answer"].isin(good["answer"])], len(good))
    notes = *_left_out(run, traces, answers), *incomplete
    return RunJudgements(*_about(client, run), answers, judgements, notes, apps, expected=_rows_expected(run))


def _traces(client: MlflowClient, run: Run, *, spans: bool = False) -> Iterator[Trace]:
    """Yield the traces that a run made or judged."""
    place = {"locations": [str(run.info.experiment_id)], "run_id": str(run.info.run_id), "include_spans": spans}
    search = partial(client.search_traces, max_results=500, **place)
    return every_page(lambda token: search(page_token=token))


def _feedback(trace: Trace, run_id: str) -> list[dict[str, Any]]:
    """Return the judgements that a run made of a trace, in their order; a correction counts in place of the first."""
    from mlflow.entities import Feedback

    every = {each.assessment_id: each for each in trace.info.assessments if isinstance(each, Feedback)}
    rows = []
    for each in sorted(every.values(), key=lambda one: (one.create_time_ms, one.assessment_id)):
        first = each
        while first.overrides in every:
            first = every[first.overrides]
        if each.valid is False or not is_of(first, run_id):
            continue
        row = {"answer": str(trace.info.trace_id), "scorer": each.name, "source": first.source.source_id}
        row |= {"digest": (first.metadata or {}).get(_DIGEST, ""), "failed": "judge" if each.error else ""}
        rows.append({**row, "value": number_of(each.value)})
    return rows


def _is_judged(trace: Trace, run_id: str) -> bool:
    """Return whether a run assessed a trace: judged it, or noted what was expected of it."""
    return any(is_of(each, run_id) for each in trace.info.assessments)


def _answers(traces: Sequence[Trace], run_id: str) -> Iterator[Trace]:
    """Yield the traces that are answers: assessed by the run, or else evaluated by it and the only one of their call.

    Others come from functions that scorers or the app call.
    """
    seen = {trace.info.tags.get(_REQUEST) for trace in traces if _is_judged(trace, run_id)}
    for trace in traces:
        request = trace.info.tags.get(_REQUEST)
        if _is_judged(trace, run_id):
            yield trace
        elif request and (len(request) == _STATIC or request not in seen):
            seen.add(request)
            yield trace


def _answer(trace: Trace, key: str) -> dict[str, Any]:
    info, tags = trace.info, trace.info.tags
    factors = f"{names.FACTOR}."
    row = {"answer": str(info.trace_id), "row": key, "time": info.request_time, "failed": info.state == "ERROR"}
    row["tagged"] = float(tags[names.REPEAT]) if tags.get(names.REPEAT, "").isdigit() else math.nan
    return row | {name.removeprefix(factors): value for name, value in tags.items() if name.startswith(factors)}


def _add_rows(client: MlflowClient, run: Run, traces: Sequence[Trace], keys: dict[str, str]) -> list[Run | None]:
    """Add the row of each answer: its tag, or a hash of its inputs; spans are read only if these were cut.

    Returns the runs that made the answers.
    """
    made_by = {trace.info.trace_id: trace.info.trace_metadata.get(_MADE_BY, "") for trace in traces}
    makers = {run_id: found(client.get_run, run_id) for run_id in {*made_by.values()} - {""}}
    columns = {run_id: _input_names(maker) for run_id, maker in makers.items()}
    for trace in traces:
        text = trace.info.trace_metadata.get(_INPUTS)
        tag = trace.info.tags.get(names.ROW)
        if tag or (text and not text.endswith("...")):
            keys[trace.info.trace_id] = tag or _hash(text or "", columns.get(made_by[trace.info.trace_id]))
    cut = made_by.keys() - keys.keys()
    for trace in _traces(client, run, spans=True) if cut else ():
        if (trace_id := trace.info.trace_id) in cut:
            text = trace.data.request
            keys[trace_id] = _hash(text, columns.get(made_by[trace_id])) if text else trace_id
    return [*makers.values()]


def _input_names(run: Run | None) -> set[str]:
    """Return the names of the inputs in the data of a run; a trace adds the app's other arguments to them."""
    inputs = run.inputs.dataset_inputs if run and run.inputs else ()
    columns = [each for one in inputs for each in json.loads(one.dataset.schema or "{}").get("mlflow_colspec", ())]
    return {name for each in columns if each.get("name") == "inputs" for name in each.get("properties", ())}


def _hash(text: str, names_of_inputs: Collection[str] | None = None) -> str:
    """Return the name of the row with these inputs, without those that the data do not have."""
    content: Any = text
    with suppress(ValueError):
        content = json.loads(text)
        if isinstance(content, dict) and names_of_inputs and content.keys() >= set(names_of_inputs):
            content = {name: content[name] for name in names_of_inputs}
    return row_of(content)


def _rows_expected(run: Run) -> int:
    """Return the number of rows that a run was given, all data sets together; 0 if it does not say."""
    inputs = run.inputs.dataset_inputs if run.inputs else ()
    profiles = [json.loads(each.dataset.profile or "{}") for each in inputs]
    return sum(each.get("num_rows", 0) for each in profiles if isinstance(each, dict))


def _about(client: MlflowClient, run: Run) -> tuple[str, str, str, dict[str, float]]:
    """Return run, experiment, name (of a cell its levels, or else the app), and MLflow's means."""
    means = {name.removesuffix(_MEAN): value for name, value in run.data.metrics.items() if name.endswith(_MEAN)}
    name, tags = str(run.info.run_name or run.info.run_id), run.data.tags
    if names.CELL_KEY in tags:
        levels = [each for factor, each in run.data.params.items() if factor not in _OF_JUDGING]
        parent = None if levels else found(client.get_run, tags.get(names.PARENT_RUN_ID, ""))
        name = " ".join(levels) or (parent.data.params.get("predict_fn", name) if parent else name)
    return str(run.info.run_id), str(run.info.experiment_id), name, means


def _left_out(run: Run, traces: Sequence[Trace], answers: pd.DataFrame) -> Iterator[str]:
    """Yield what a run lacks, and traces that do not count."""
    expected = _rows_expected(run)
    if run.info.status != "FINISHED":
        yield f"The run has the status {run.info.status}: judgements may be missing."
    there = len(answers)
    if expected and there < expected:
        yield (
            f"{expected - there} of {counted(expected, 'answer')} are missing on the server, though MLflow's own means "
            f"count them. Evaluate again with MLFLOW_GENAI_EVAL_MAX_WORKERS=4."
        )
    if expected and there > expected:
        yield (
            f"The run has {there} answers to {counted(expected, 'row')} of data: it was evaluated more than once. All "
            f"answers count; the means that MLflow logged describe the last evaluation only."
        )
    if (rows := answers["row"].nunique()) < there <= expected and answers["tagged"].isna().any():
        yield f"Rows of equal inputs count as repeats of one: {there} rows of data have {rows} different inputs."
    if failed := int(answers["failed"].sum()):
        yield (
            f"Left out: {failed} of {counted(there, 'answer')}, as predict_fn raised. Scorers judged them anyway, and "
            f"MLflow's own means count these judgements."
        )
    if helpers := len(traces) - there:
        yield f"Left out: {counted(helpers, 'trace')}, made by functions that scorers or the app call."
    people = sum(
        OF_RUN not in (each.metadata or {}) and not getattr(each, "overrides", None)
        for trace in traces
        for each in trace.info.assessments
    )
    if people:
        yield f"Left out: {counted(people, 'assessment')}, made outside evaluation runs."


def _incomplete(judgements: pd.DataFrame, answers: int) -> Iterator[str]:
    """Yield which scorers do not have a number for every answer."""
    for scorer, rows in judgements.groupby("scorer", sort=False):
        raised = int(rows["failed"].eq("judge").sum())
        texts = int((rows["value"].isna() & rows["failed"].eq("")).sum())
        if raised:
            yield f"Left out: {raised} of {counted(answers, 'answer')} on which the scorer {scorer} raised."
        if texts:
            yield f"Left out: {counted(texts, 'judgement')} of {scorer}, neither a number nor yes or no."
        if raised < len(rows) and (missing := answers - rows["answer"].nunique()):
            yield f"No judgement of {scorer} for {missing} of {counted(answers, 'answer')}."


def _table_of(run: Run) -> str:
    """Return the artifact in which `mlflow.evaluate` left the scores of rows; the empty text if there is none."""
    logged = json.loads(run.data.tags.get(names.LOGGED_ARTIFACTS) or "[]")
    return next((str(each["path"]) for each in logged if str(each.get("path")).endswith("eval_results_table.json")), "")


def _read_table(client: MlflowClient, run: Run) -> RunJudgements:
    """Return the judgements of `mlflow.evaluate`, whose rows are known by their place in its table."""
    path = _table_of(run)
    document = fetch_document(client, str(run.info.run_id), path) or {"columns": [], "data": []}
    frame = pd.DataFrame(document["data"], columns=document["columns"])
    scores = [name for name in frame if str(name).endswith(_SCORE)]
    if not scores or frame.empty:
        fix = "Add a metric that returns scores: mlflow.models.make_metric."
        raise ParameterError("run_id", run.info.run_id, f"has no column <metric>{_SCORE} in {path}", fix)
    expected = _rows_expected(run)
    notes = []
    place = pd.Series(range(len(frame)))
    times = len(frame) // expected if expected and len(frame) % expected == 0 else 1
    if times > 1:
        notes.append(f"{path} has {len(frame)} rows for {expected} rows of data: it was evaluated {times} times.")
    ids = f"{run.info.run_id}:" + place.astype(str)
    rows = (place % (len(frame) // times)).map(str)
    answers = pd.DataFrame({"answer": ids, "row": rows, "tagged": math.nan, "time": place, "failed": False})
    values = frame[scores].rename(columns=lambda name: str(name).removesuffix(_SCORE)).assign(answer=ids)
    judgements = values.melt("answer", var_name="scorer", value_name="value").assign(digest="", failed="")
    judgements = judgements.assign(source=judgements["scorer"], value=judgements["value"].map(number_of))
    notes += _incomplete(judgements, len(answers))
    contents = {str(name): _hash(frame[name].to_json()) for name in frame if name not in scores}
    return RunJudgements(*_about(client, run), answers, judgements, tuple(notes), contents=contents)

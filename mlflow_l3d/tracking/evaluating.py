"""Evaluations of `mlflow.genai` as cells: the app answers in one run, and each judgement is a run of its own.

MLflow evaluates in threads of its own and is not safe to be called from several, so one evaluation runs at a time.
"""

from __future__ import annotations

import copy
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unittest.mock import patch

import pandas as pd

from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.environment import deferred_interrupts, variables
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.connection import Client, error_line
from mlflow_l3d.tracking.judged.app import App, prompt_changes

if TYPE_CHECKING:
    from mlflow.entities import Trace

Place: TypeAlias = tuple[str, str]
"""Row and repeat of an answer."""
Answers: TypeAlias = "dict[Place, Trace]"
_ONE_AT_A_TIME: Final = threading.RLock()
_WORKERS: Final = "MLFLOW_GENAI_EVAL_MAX_WORKERS"
_SETTINGS: Final = {
    _WORKERS: "4",  # with more threads SQLite loses traces
    "MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT": "0",
    "MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT": "0",
}
_NO_TRIAL: Final = "MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION"
"""Without it MLflow calls the app once more, with the first row, to see whether it makes traces; ours always does."""
_RUN: Final = "mlflow.assessment.sourceRunId"


@contextmanager
def cell_run(
    client: Client, parent_id: str, name: str, tags: Mapping[str, str], params: Mapping[str, str]
) -> Iterator[str]:
    """Open the run of a cell below its parent, as MLflow's active one; end it FINISHED, or FAILED or KILLED.

    Yields
    ------
    str
        Its id.
    """
    import mlflow

    shared = {names.ROLE: "cell", names.SCHEMA_TAG: names.SCHEMA, names.PARENT_RUN_ID: parent_id}
    run_id = ""
    try:
        with deferred_interrupts():
            run_id = str(parents.attach(client, None, name, {**shared, **tags}).info.run_id)
        parents.log_params(client, run_id, params)
        with mlflow.start_run(run_id=run_id, nested=True):
            yield run_id
    except BaseException as error:
        if run_id:
            parents.end_early(client, run_id, error_line(error))
        raise


def write_answers(run_id: str, app: App, rows: Sequence[Mapping[str, Any]], workers: int | None) -> None:
    """Let an app answer each row once, in the active run, with a trace for each.

    `workers` are threads; None for those of the user's environment, or 4.

    Raises
    ------
    L3DError
        If the app returned what cannot be stored, or does not load a prompt.
    """
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import PromptVersion

    for prompt in (*app.prompts.values(), *app.passed.values()):
        if isinstance(prompt, PromptVersion):
            MlflowClient().link_prompt_version_to_run(run_id, prompt)
    _evaluate(workers, data=copy.deepcopy([*rows]), predict_fn=app.traced(), scorers=[])
    if app.refused is not None:
        raise app.refused


def write_judgements(pairs: Sequence[tuple[Mapping[str, Any], Trace]], scorer: Any, workers: int | None) -> None:
    """Let a scorer judge answers, in the active run: pairs of a row and the answer to it.

    Inputs and expectations come from the data: in a trace MLflow keeps whole numbers of expectations as floats.
    """
    parts = [{name: row[name] for name in ("inputs", "expectations") if name in row} for row, _ in pairs]
    data = [{**copy.deepcopy(part), "trace": trace} for part, (_, trace) in zip(parts, pairs, strict=True)]
    for each in data:
        info, expected = each["trace"].info, each.get("expectations", {})
        # What was expected when others judged is not what is expected now.
        info.assessments = [
            one
            for one in info.assessments
            if one.expectation is None or expected.get(one.name) == one.expectation.value
        ]
        (root,) = (span for span in each["trace"].data.spans if span.parent_id is None)
        each["outputs"] = root.attributes[names.OUTPUT]["output"]
    # Columns of objects: next to None, whole numbers would be floats.
    _evaluate(workers, data=pd.DataFrame(data, dtype=object), scorers=[scorer])


def _evaluate(workers: int | None, **given: Any) -> None:
    """Evaluate in the active run, which notes the versions of prompts that were loaded by alias, or as the latest."""
    import mlflow
    from mlflow.genai import evaluate

    with _evaluating(workers) as loaded:
        evaluate(**given)
    mlflow.set_tag(names.PROMPTS, json.dumps({name: sorted(versions) for name, versions in loaded.items()}))


def answers_of(experiment_id: str, run_id: str, key: str, *, spans: bool = False) -> Answers:
    """Return row and repeat -> answer, of those that the run of a cell holds, without attempts that were repeated."""
    import mlflow

    traces = mlflow.search_traces(locations=[experiment_id], run_id=run_id, include_spans=spans, return_type="list")
    of_cell = [trace for trace in traces if trace.info.tags.get(names.CELL_KEY) == key and names.ROW in trace.info.tags]
    return {(trace.info.tags[names.ROW], trace.info.tags[names.REPEAT]): trace for trace in of_cell}


def check_judgements(traces: Iterable[Trace], run_id: str, scorer: str) -> None:
    """Raise an L3DError if a run has no judgement of any answer, or the scorer always failed."""
    every = [each for trace in traces for each in trace.info.assessments if each.feedback and _is_of(each, run_id)]
    if not every:
        raise L3DError(f"scorers={scorer}: returned nothing for all answers. Return a value or a Feedback.")
    errors = [each.error for each in every if each.error is not None]
    if len(errors) == len(every):
        message = str(errors[0].error_message)[:300]
        fix = "Return bool(...) of it." if "Got bool" in message else "Correct the scorer."
        raise L3DError(f"scorers={scorer}: failed on all {len(every)} answers ({message}). {fix}")


def _is_of(assessment: Any, run_id: str) -> bool:
    return bool((assessment.metadata or {}).get(_RUN) == run_id)


def write_assessment(trace_id: str, name: str, value: bool | float, run_id: str) -> bool:
    """Write our own assessment in the name of a run, and return True, unless the run has made it already."""
    import mlflow
    from mlflow.entities import AssessmentSource

    trace = mlflow.get_trace(trace_id)
    if trace is None or any(each.name == name and _is_of(each, run_id) for each in trace.info.assessments):
        return False
    source = AssessmentSource(source_type="CODE", source_id="mlflow-l3d")
    mlflow.log_feedback(trace_id=trace_id, name=name, value=value, source=source, metadata={_RUN: run_id})
    return True


@contextmanager
def _evaluating(workers: int | None) -> Iterator[dict[str, set[str]]]:
    """Let MLflow evaluate in silence, alone, with settings that lose nothing; all is as before afterwards.

    Yields
    ------
    dict
        URI with an alias -> versions, of prompts as they are loaded.
    """
    from mlflow.genai.evaluation import base, harness

    loaded: dict[str, set[str]] = {}
    # What is replaced is read alone, too: another evaluation may have replaced it.
    with _ONE_AT_A_TIME, ExitStack() as changes:
        values = {name: os.environ.get(name, default) for name, default in _SETTINGS.items()} | {_NO_TRIAL: "true"}
        values |= {} if workers is None else {_WORKERS: str(workers)}
        replaced: dict[tuple[Any, str], Any] = {
            (base, "display_evaluation_output"): lambda _: None,
            (harness, "tqdm"): None,
            **prompt_changes(loaded),
        }
        changes.enter_context(variables(values))
        for (place, name), new in replaced.items():
            if hasattr(place, name):
                changes.enter_context(patch.object(place, name, new))
        yield loaded

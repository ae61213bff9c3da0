"""Evaluations of `mlflow.genai` as cells: the app answers in one run, and each judgement is a run of its own.

MLflow evaluates in threads of its own and is not safe to be called from several, so one evaluation runs at a time.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unittest.mock import patch

import pandas as pd

from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.environment import deferred_interrupts
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.connection import Client, error_line

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
_PROMPT: Final = "prompts:/"
_CONTENT: Final = ("template", "is_text_prompt", "variables", "model_config", "response_format")
_active: ContextVar[App | None] = ContextVar("active", default=None)


class App:
    """An app with its arguments beyond the inputs of a row.

    Parameters
    ----------
    function, passed
        Called with the inputs of a row, by their names, and with further arguments.
    tags
        Of its traces: written with each, while those of a row cost a call each.
    prompts
        Name in the registry -> the version that takes the place of others while the app answers, in its own context.

    Attributes
    ----------
    count
        How often a prompt took the place of another.
    refused
        The error of an output that cannot be stored; nobody is asked after it.
    """

    refused: L3DError | None = None

    def __init__(
        self, function: Callable[..., Any], passed: Mapping[str, Any], prompts: Mapping[str, Any], tags: dict[str, str]
    ) -> None:
        self.function, self.passed, self.prompts, self.tags, self.count = function, passed, prompts, tags, 0

    def get(self, name: str) -> Any:
        """Return the prompt of this name, and count it; None if there is none."""
        prompt = self.prompts.get(name)
        self.count += prompt is not None
        return prompt

    def traced(self) -> Callable[..., Any]:
        """Return the app as MLflow calls it: one trace per call, with the inputs of the row."""
        import mlflow

        def answer(**inputs: Any) -> Any:
            with mlflow.start_span(name=getattr(self.function, "__name__", "predict_fn")) as span:
                span.set_inputs(inputs)
                mlflow.update_current_trace(tags=self.tags)
                if self.refused is not None:
                    raise self.refused
                token = _active.set(self)
                try:
                    output = self.function(**inputs, **self.passed)
                    output = asyncio.run(output) if inspect.iscoroutine(output) else output
                finally:
                    _active.reset(token)
                self._check(output)
                span.set_outputs(output)
                span.set_attribute(names.OUTPUT, {"output": output})  # on its own, '{"a": 1}' is read as a dict
                return output

        return update_wrapper(answer, self.function)

    def _check(self, output: Any) -> None:
        """Raise an L3DError if an output is another one when it was stored, as JSON, and read."""
        with suppress(TypeError, ValueError, RecursionError):
            read = json.loads(json.dumps(output, ensure_ascii=False).encode())
            if read == output or repr(read) == repr(output):  # nan is not equal to itself
                return
        fix = "Return text, numbers, lists, or dicts with texts as keys; of a stream its whole text."
        self.refused = L3DError(f"predict_fn: returned what JSON cannot represent ({type(output).__name__}). {fix}")
        raise self.refused


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
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        if run_id:
            parents.end_early(client, run_id, error_line(error), status)
        raise


def write_answers(run_id: str, app: App, rows: Sequence[Mapping[str, Any]], workers: int | None) -> None:
    """Let an app answer each row once, in the active run, with a trace for each.

    `workers` are threads; None for those of the user's environment, or 4.

    Raises
    ------
    L3DError
        If the app returned what cannot be stored.
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
        message = " ".join(str(errors[0].error_message).split())[:300]
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
        Name or URI without a version -> versions, of prompts as they are loaded.
    """
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import PromptVersion
    from mlflow.genai.evaluation import base, harness

    loaded: dict[str, set[str]] = {}
    # What is replaced is read alone, too: another evaluation may have replaced it.
    with _ONE_AT_A_TIME, ExitStack() as changes:
        values = {name: os.environ.get(name, default) for name, default in _SETTINGS.items()} | {_NO_TRIAL: "true"}
        values |= {} if workers is None else {_WORKERS: str(workers)}
        replaced: dict[tuple[Any, str], Any] = {
            (base, "display_evaluation_output"): lambda _: None,
            (harness, "tqdm"): None,
            (MlflowClient, "load_prompt"): _loading(MlflowClient.load_prompt, loaded),
            (PromptVersion, "__init__"): _marking(PromptVersion.__init__),
            **{(PromptVersion, name): property(partial(_read, vars(PromptVersion)[name].fget)) for name in _CONTENT},
        }
        for name, value in values.items():
            changes.callback(_set_variable, name, os.environ.get(name))
            os.environ[name] = value
        for (place, name), new in replaced.items():
            if hasattr(place, name):
                changes.enter_context(patch.object(place, name, new))
        yield loaded


def _set_variable(name: str, value: str | None) -> None:
    os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _loading(load: Callable[..., Any], loaded: dict[str, set[str]]) -> Callable[..., Any]:
    """Return `MlflowClient.load_prompt`, which every way to load a prompt calls, with the prompts of an app."""

    def load_prompt(self: Any, name_or_uri: str, version: Any = None, *args: Any, **kwargs: Any) -> Any:
        app, (name, *which) = _active.get(), re.split("[/@]", name_or_uri.removeprefix(_PROMPT))
        prompt = (app and app.get(name)) or load(self, name_or_uri, version, *args, **kwargs)
        if version is None and not "".join(which).isdigit() and not (app and name in app.prompts):
            loaded.setdefault(name_or_uri, set()).add(str(prompt and prompt.version))
        return prompt

    return load_prompt


def _marking(init: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor of prompts, which marks those that an app makes: a prompt that it has filled in part."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._is_of_app = _active.get() is not None

    return __init__


def _read(read: Callable[[Any], Any], prompt: Any) -> Any:
    """Return a property of a prompt, or of the one that takes its place if it was loaded before the app was called."""
    app = None if getattr(prompt, "_is_of_app", False) else _active.get()
    return read((app and app.get(prompt.name)) or prompt)

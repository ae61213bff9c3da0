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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial, update_wrapper, wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unittest.mock import patch

import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.environment import deferred_interrupts, variables
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
_PROMPT: Final = "prompts:/"
_LOADS: Final = ("load_prompt", "get_prompt_version", "get_prompt_version_by_alias", "search_prompt_versions")
"""Methods of MLflow's client that every way to load a prompt calls."""
_CONTENT: Final = ("template", "is_text_prompt", "variables", "model_config", "response_format")
_active: ContextVar[App | None] = ContextVar("active", default=None)


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


class App:
    """An app as MLflow calls it, in whose answers the prompts of factors take the place of those that it loads.

    Parameters
    ----------
    function, passed
        Called with the inputs of a row, by their names, and with further arguments.
    tags
        Of its traces: written with each, while those of a row cost a call each.
    prompts
        Factor -> the version that takes the place of others of its name while the app answers, in its own context.

    Attributes
    ----------
    unused
        Factors whose prompt has not yet taken the place of another: as long as there are any, rows are asked singly.
    refused
        The error of an output that cannot be stored, or of a prompt that is not loaded; nobody is asked after it.
    """

    refused: L3DError | None = None

    def __init__(
        self, function: Callable[..., Any], passed: Mapping[str, Any], prompts: Mapping[str, Any], tags: dict[str, str]
    ) -> None:
        self.function, self.passed, self.prompts, self.tags = function, passed, prompts, tags
        self.unused, self._alone = {*prompts}, threading.Lock()

    def get(self, name: str) -> Any:
        """Return the prompt of this name, which is used then; None if there is none."""
        for factor, prompt in self.prompts.items():
            if prompt.name == name:
                self.unused.discard(factor)
                return prompt
        return None

    def traced(self) -> Callable[..., Any]:
        """Return the app as MLflow calls it: one trace per call, with the inputs of the row."""
        import mlflow

        name = getattr(self.function, "__name__", "predict_fn")

        def answer(**inputs: Any) -> Any:
            with self._alone if self.unused else nullcontext(), mlflow.start_span(name=name) as span:
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
                self._check(output, name)
                span.set_outputs(output)
                span.set_attribute(names.OUTPUT, {"output": output})  # on its own, '{"a": 1}' is read as a dict
                return output

        return update_wrapper(answer, self.function)

    def _check(self, output: Any, name: str) -> None:
        """Raise an L3DError if an output is another one when it was stored, as JSON, and read, or needed no prompt."""
        for factor in self.unused:
            prompt = self.prompts[factor]
            why = f"has no effect: {name} neither has a parameter {factor} nor loads this prompt to answer a row"
            fix = f"Load it in the thread that calls {name}, or write def {name}(..., {factor})."
            self.refused = ParameterError(f"factors={factor}", f"{prompt.name}/{prompt.version}", why, fix)
            raise self.refused
        with suppress(TypeError, ValueError, RecursionError):
            read = json.loads(json.dumps(output, ensure_ascii=False).encode())
            if read == output or repr(read) == repr(output):  # nan is not equal to itself
                return
        fix = "Return text, numbers, lists, or dicts with texts as keys; of a stream its whole text."
        self.refused = L3DError(f"predict_fn: returned what JSON cannot represent ({type(output).__name__}). {fix}")
        raise self.refused


def prompt_changes(loaded: dict[str, set[str]]) -> dict[tuple[Any, str], Any]:
    """Return class and name -> what takes its place while apps answer: all that loads a prompt or reads one.

    Loading adds the prompt to `loaded`: URI with an alias -> versions.
    """
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import PromptVersion

    loads = [name for name in _LOADS if hasattr(MlflowClient, name)]
    return {
        **{(MlflowClient, name): _loading(getattr(MlflowClient, name), loaded) for name in loads},
        (PromptVersion, "__init__"): _marking(PromptVersion.__init__),
        **{(PromptVersion, name): property(partial(_read, vars(PromptVersion)[name].fget)) for name in _CONTENT},
    }


def _loading(load: Callable[..., Any], loaded: dict[str, set[str]]) -> Callable[..., Any]:
    """Return a method that loads prompts, with those of an app; a search finds none but these."""
    from mlflow.store.entities import PagedList

    is_search = load.__name__ == "search_prompt_versions"

    @wraps(load)
    def load_prompt(*args: Any, **kwargs: Any) -> Any:
        _, uri, *version = inspect.signature(load).bind(*args, **kwargs).args
        name, *which = re.split("[/@]", uri.removeprefix(_PROMPT))
        app = _active.get()
        if prompt := app and app.get(name):
            return PagedList([prompt], None) if is_search else prompt
        prompt = load(*args, **kwargs)
        latest = max(prompt, key=lambda each: int(each.version), default=None) if is_search else prompt
        alias = "latest" if is_search else str([*which, *version, None][0] or "latest")
        if not alias.isdigit():
            loaded.setdefault(f"{_PROMPT}{name}@{alias}", set()).add(str(latest and latest.version))
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

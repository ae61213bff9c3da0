"""An app as MLflow calls it, in whose answers the prompts of factors take the place of those that it loads."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from functools import partial, update_wrapper, wraps
from typing import Any, Final

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tracking import names

_PROMPT: Final = "prompts:/"
_LOADS: Final = ("load_prompt", "get_prompt_version", "get_prompt_version_by_alias", "search_prompt_versions")
"""Methods of MLflow's client that every way to load a prompt calls."""
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

    return {
        **{
            (MlflowClient, name): _loading(load, loaded)
            for name in _LOADS
            if (load := getattr(MlflowClient, name, None))
        },
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

"""Prompts of the registry: the levels of factors, and whether those that were loaded are still the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking.connection import Client, error_line

if TYPE_CHECKING:
    from mlflow.entities.model_registry import PromptVersion

_PROMPT: Final = "prompts:/"


def prompts_named(client: Client, parameter: str, uri: str) -> list[PromptVersion]:
    """Return the prompts of a URI, with the version that an alias has now; of ``prompts:/qa`` or ``qa@*`` all versions.

    Raises
    ------
    ParameterError
        If the registry has none.
    """
    from mlflow.exceptions import MlflowException

    name, _, which = uri.removeprefix(_PROMPT).replace("@*", "").partition("@" if "@" in uri else "/")
    load = partial(client.load_prompt, cache_ttl_seconds=0)  # MLflow 3.14 keeps those of another registry, too
    try:
        every = [] if which else client.search_prompt_versions(name, max_results=1000)
        versions = sorted(each.version for each in every)
        return [load(f"{_PROMPT}{name}/{version}") for version in versions] or [load(uri)]
    except MlflowException as error:
        allowed = f"is not in the prompt registry ({error_line(error)})"
        fix = "Use prompts:/NAME/VERSION, prompts:/NAME@ALIAS, or prompts:/NAME for all versions."
        raise ParameterError(parameter, uri, allowed, fix) from error


def prompt_content(prompt: PromptVersion) -> dict[str, Any]:
    """Return all of a prompt that may change an answer."""
    parts = {name: getattr(prompt, name) for name in ("template", "model_config", "response_format")}
    return {"prompt": f"{prompt.name}/{prompt.version}", **parts}


def are_current(client: Client, loaded: Mapping[str, Sequence[str]]) -> bool:
    """Return whether names and URIs of prompts still have the versions that they had when they were loaded."""
    load = partial(client.load_prompt, allow_missing=True, cache_ttl_seconds=0)
    now = {name: load(name) for name in loaded}
    return all([str(prompt and prompt.version)] == loaded[name] for name, prompt in now.items())

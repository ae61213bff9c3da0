"""How a model behind an endpoint is named, where it is, and what may be spent on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from mlflow_l3d.approaches.icl.recipe import AUTO, ENDPOINT, HYPERPARAMETERS, Recipe
from mlflow_l3d.errors import ParameterError

PREFIX: Final = "openai:"
_OFFICIAL: Final = "https://api.openai.com/v1"
_OF_WEIGHTS: Final = ("quantise", "trust_remote_code", "truncation", "batch_size", "dtype")


def is_endpoint(model: str) -> bool:
    """Return whether a model reference is ``openai:NAME``."""
    return model.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at a server.

    Attributes
    ----------
    name
        What the server calls it.
    base_url
        Where its routes begin, such as ``http://127.0.0.1:8000/v1``.
    concurrency
        Requests under way at once.
    max_requests, max_cost
        Most that may be sent, and spent, 0 for any: over all processes and commands that share a cache folder.
    prices
        Of a million tokens, of the prompt and of the answer, in the unit of `max_cost`.
    """

    name: str
    base_url: str
    concurrency: int = 8
    max_requests: int = 0
    max_cost: float = 0.0
    prices: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, model: str, recipe: Recipe) -> Endpoint:
        """Return the endpoint of a model reference.

        Raises
        ------
        ParameterError
            If a hyperparameter does not go with a model behind an endpoint, or the package `openai` is missing.
        """
        for name in _OF_WEIGHTS:
            if getattr(recipe, name) != HYPERPARAMETERS[name].default:
                allowed = f"has no effect on {model}: weights and tokenizer are the server's"
                raise ParameterError(f"hyperparameters.{name}", getattr(recipe, name), allowed, "Leave it out.")
        name = model.removeprefix(PREFIX)
        if not name:
            raise ParameterError("model", model, "names no model", "Write openai:NAME, as the server calls it.")
        if recipe.max_cost and not (recipe.price_input or recipe.price_output):
            allowed = "needs price_input and price_output, the prices of a million tokens"
            raise ParameterError("hyperparameters.max_cost", recipe.max_cost, allowed)
        if find_spec("openai") is None:
            raise ParameterError("model", model, "needs the package openai", "Run: pip install 'mlflow-l3d[endpoints]'")
        where = os.environ.get("OPENAI_BASE_URL") or _OFFICIAL if recipe.base_url == AUTO else recipe.base_url
        prices = recipe.price_input, recipe.price_output
        return cls(name, _checked(where), recipe.concurrency, recipe.max_requests, recipe.max_cost, prices)


def refuse_settings(model: str, recipe: Recipe) -> None:
    """Raise for a hyperparameter of endpoints beside a model whose weights are here, unless a judge is behind one."""
    if any(is_endpoint(name) for name, _ in recipe.judges):
        return
    for name in ENDPOINT:
        value = getattr(recipe, name)
        if value != HYPERPARAMETERS[name].default:
            allowed = f"is for a model behind an endpoint, and model={model} is none"
            raise ParameterError(f"hyperparameters.{name}", value, allowed, "Use model=openai:NAME, or leave it out.")


def _checked(url: str) -> str:
    """Return an address without a blank at its end; what is secret in it is in no message."""
    parts, name = urlsplit(url), "hyperparameters.base_url"
    if parts.username or parts.password or parts.query:
        allowed = "must hold no user, password or query, which runs would record"
        raise ParameterError(name, "(not shown)", allowed, "Put the key into OPENAI_API_KEY.")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ParameterError(name, url, "must be an address such as http://127.0.0.1:8000/v1")
    return url.rstrip("/")

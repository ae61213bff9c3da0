"""Who runs a language model: this process, or a server behind an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.icl.endpoint.store import is_endpoint
from mlflow_l3d.approaches.icl.recipe import ENDPOINT, Recipe
from mlflow_l3d.approaches.models import gguf
from mlflow_l3d.approaches.models.references import default_quantisation
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tasks.base import Task

_LETTERS_AROUND: Final = 40
"""Letters that a format puts around an example, about."""


def revision_of(model: str) -> str:
    """Return what identifies the weights behind a reference: a commit, or a hash of the files.

    For a GGUF file it is a hash of the file and of the converter's version. The name of a preset whose weights are
    quantised adds ``+4bit``, so that it never counts as the same model as the bare hub id. Of a model that a server has
    it is the reference: :func:`dependencies_of` has what the server says of it.

    Raises
    ------
    ParameterError
        If the reference leads to no model.
    """
    if is_endpoint(model):
        return model
    quantised = default_quantisation(model)
    return gguf.revision(model) if quantised == "none" else f"{gguf.revision(model)}+{quantised}"


def dependencies_of(model: str, recipe: Recipe) -> Mapping[str, str]:
    """Return what a server says of its model, which joins the numerics of the cells; nothing of a model that is here.

    Raises
    ------
    ParameterError
        If hyperparameters are for endpoints, and the model is here.
    L3DError
        If a server does not answer, or not as it should.
    """
    if is_endpoint(model):
        from mlflow_l3d.approaches.icl.endpoint.engine import identity

        return identity(model, recipe, cache_folder())
    if not any(map(is_endpoint, recipe.judge_names)):
        allowed = f"is for a model behind an endpoint, and model={model} is none"
        recipe.refuse(ENDPOINT, allowed, "Use model=openai:NAME, or leave it out.")
    recipe.refuse(("answers",), f"asks an endpoint again, and model={model} is none", "Leave it out.")
    return {}


def judge_identity(model: str, recipe: Recipe) -> str:
    """Return what identifies a model as a judge: what its server says of it, or its revision."""
    return " ".join(dependencies_of(model, recipe).values()) if is_endpoint(model) else revision_of(model)


def open_session(task: Task, recipe: Recipe, model: str, device: str, cache: Path) -> Session:
    """Load the model, or connect to its server, and return a session."""
    if is_endpoint(model):
        from mlflow_l3d.approaches.icl.endpoint.session import EndpointSession

        return EndpointSession(task, recipe, model, device, cache)
    from mlflow_l3d.approaches.icl.local_session import LocalSession

    return LocalSession(task, recipe, model, device, cache)


def price_per_request(recipe: Recipe, task: Task, numerics: Mapping[str, str], classes: int) -> float:
    """Return about what a request costs: four letters are a token, an answer takes what it may; 0 without prices."""
    letters = sum(len(text) for column in task.texts for text in column) / max(1, len(task.labels))
    asked = (1 + recipe.shots * max(1, classes)) * (letters + _LETTERS_AROUND) / 4
    answered = recipe.new_tokens if numerics.get("endpoint_log_probabilities") == "nothing" else 1
    return (asked * recipe.price_input + answered * recipe.price_output) / 1e6


def requests_per_example(numerics: Mapping[str, str], classes: int) -> int:
    """Return how many requests a test example takes: one, or one for each class; 0 if the model is here."""
    gives = numerics.get("endpoint_log_probabilities")
    return 0 if gives is None else classes if gives == "prompt" else 1

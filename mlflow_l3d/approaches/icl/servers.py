"""Who runs a language model: this process, or a server behind an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.icl.endpoint.store import is_endpoint
from mlflow_l3d.approaches.icl.recipe import ENDPOINT, Recipe
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tasks.base import Task


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model whose weights this process loads.

    Attributes
    ----------
    model
        The reference of the model.
    """

    model: str

    def revision(self) -> str:
        """Return the commit or the hash of the weights; see :func:`mlflow_l3d.approaches.icl.models.revision`."""
        from mlflow_l3d.approaches.icl.models import revision

        return revision(self.model)

    def dependencies(self, recipe: Recipe) -> Mapping[str, str]:
        """Return what joins the numerics of the cells: nothing; raise a ParameterError for settings of endpoints."""
        if not any(map(is_endpoint, recipe.judge_names)):
            allowed = f"is for a model behind an endpoint, and model={self.model} is none"
            recipe.refuse(ENDPOINT, allowed, "Use model=openai:NAME, or leave it out.")
        recipe.refuse(("answers",), f"asks an endpoint again, and model={self.model} is none", "Leave it out.")
        return {}

    def judge_identity(self, recipe: Recipe) -> str:  # noqa: ARG002
        """Return what identifies the model as a judge: its revision."""
        return self.revision()

    def session(self, task: Task, recipe: Recipe, device: str, cache: Path) -> Session:
        """Load the model and return a session."""
        from mlflow_l3d.approaches.icl.session import PromptSession

        return PromptSession(task, recipe, self.model, device, cache)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model behind an endpoint; the same methods as :class:`LocalModel`."""

    model: str

    def revision(self) -> str:
        """Return the reference: :meth:`dependencies` has what the server says of the model."""
        return self.model

    def dependencies(self, recipe: Recipe) -> Mapping[str, str]:
        """Return what the server says of the model.

        Raises
        ------
        L3DError
            If the server does not answer, or not as it should.
        """
        from mlflow_l3d.approaches.icl.endpoint.engine import identity

        return identity(self.model, recipe, cache_folder())

    def judge_identity(self, recipe: Recipe) -> str:
        """Return what the server says of the model."""
        return " ".join(self.dependencies(recipe).values())

    def session(self, task: Task, recipe: Recipe, device: str, cache: Path) -> Session:
        """Connect to the server and return a session."""
        from mlflow_l3d.approaches.icl.endpoint.session import EndpointSession

        return EndpointSession(task, recipe, self.model, device, cache)


def requests_per_example(numerics: Mapping[str, str], classes: int) -> int:
    """Return how many requests a test example takes: one, or one for each class; 0 if the model is here."""
    gives = numerics.get("endpoint_log_probabilities")
    return 0 if gives is None else classes if gives == "prompt" else 1


def server_of(model: str) -> LocalModel | ServedModel:
    """Return who runs the model of a reference."""
    return ServedModel(model) if is_endpoint(model) else LocalModel(model)

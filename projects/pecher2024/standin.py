"""Replaces an approach if nothing is to be trained: its name, factors and settings, and invented scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from published import CLASSES

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.approaches.synthetic import FACTORS, NO_EFFECT, Synthetic
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.identity import make_task

_A_CLASS = 300


class StandIn(Synthetic):
    """The synthetic approach under the name, with the factors and the hyperparameters of another one.

    In its world the order of examples matters more with more classes, and their choice less with more shots.
    """

    def __init__(self, name: str) -> None:
        real = registry.load("approach", name)()
        self.name, self.metrics, self.default_model = real.name, real.metrics, real.default_model
        self.factors = tuple(factor for factor in real.factors if factor in FACTORS)
        silent = {f"a_{factor}": NO_EFFECT for factor in {*FACTORS} - {*self.factors} | {"model_randomness"}}
        synthetic = {**Synthetic.hyperparameters, "noise": replace(Synthetic.hyperparameters["noise"], default=0.2)}
        synthetic |= {name: replace(synthetic[name], default=value) for name, value in silent.items()}
        self.hyperparameters: Mapping[str, Hyperparameter] = {**real.hyperparameters, **synthetic}
        self.published_study, self.published = real.published_study, real.published

    def model_revision(self, model: str) -> str:
        """Return the name: there is no model."""
        return model

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Return a session with the sensitivities of this data set and number of shots."""
        classes, shots = len(task.class_names), float(hyperparameters.get("shots", 2))
        sensitivities: dict[str, Value] = {"a_data_order": 4.0 / classes}
        if float(hyperparameters["a_sample_choice"]) < NO_EFFECT:
            sensitivities["a_sample_choice"] = shots / 4.0
        return super().prepare(task, {**hyperparameters, **sensitivities}, model=model, device=device, cache=cache)


def invented(name: str) -> Task:
    """Return invented texts with the classes of a data set of the paper."""
    classes = CLASSES[name]
    labels = np.arange(_A_CLASS * classes, dtype=np.int64) % classes
    texts = [f"{name}: text {number} of class {label}" for number, label in enumerate(labels.tolist())]
    return make_task(name, (texts,), labels, [f"c{number}" for number in range(classes)])


def stand_in(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a set with an approach and data sets that replace its own."""
    tasks = [invented(name) for name in parameters["task"]]
    # Under the name of a model, its cells would tell how long that model takes.
    replaced = {"approach": StandIn(parameters["approach"]), "model": "invented", "task": tasks, "metric": "f1_macro"}
    return {**parameters, **replaced}
